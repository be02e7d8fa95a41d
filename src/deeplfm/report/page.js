(() => {
  "use strict";
  const PRINT_WIDTH = 660; // pixels of an A4 page between its margins
  const charts = [...document.querySelectorAll(".chart")];
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const isCoarse = matchMedia("(pointer: coarse)").matches;
  const canHover = matchMedia("(hover: hover)").matches;
  const BAR_HEIGHT = 32; // pixels above a chart whose buttons are always there
  const configOf = (chart) => ({
    displaylogo: false,
    responsive: true,
    displayModeBar: canHover ? "hover" : isMain(chart),
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    plotlyServerURL: "", // nothing leaves the page
  });
  const isMain = (chart) => chart.classList.contains("tall");

  // Charts name their colours; the style sheet defines them for each scheme.
  function figureOf(chart) {
    const style = getComputedStyle(document.documentElement);
    const text = document.getElementById(chart.dataset.figure).textContent;
    const figure = JSON.parse(text, (key, value) =>
      /color$/.test(key) && typeof value === "string"
        ? value.replace(/^var\((--[\w-]+)\)$/, (_, name) => style.getPropertyValue(name).trim())
        : value,
    );
    if (!canHover && isMain(chart)) figure.layout.margin.t = BAR_HEIGHT;
    if (isCoarse) figure.layout.dragmode = false; // a finger scrolls the page; buttons zoom
    return figure;
  }

  async function draw(chart, changes = {}) {
    const { data, layout } = figureOf(chart);
    for (const axis of ["xaxis", "yaxis"]) {
      // keep the zoom
      if (chart.layout?.[axis].range) layout[axis].range = [...chart.layout[axis].range];
    }
    const drawn = Plotly.react(chart, data, { ...layout, ...changes }, configOf(chart));
    await drawn; // printing does not wait for it
    for (const image of document.querySelectorAll(".modebar-btn svg, #js-plotly-tester")) {
      image.setAttribute("aria-hidden", "true"); // the buttons have names of their own
    }
  }

  // All charts over time show the same range.
  const overTime = () => charts.filter((chart) => "overTime" in chart.dataset && chart.layout);
  let isMoving = false; // changes of followers are not followed
  async function move(followers, changeOf) {
    if (isMoving) return;
    isMoving = true;
    try {
      await Promise.all(followers.map((chart) => Plotly.relayout(chart, changeOf(chart))));
    } finally {
      isMoving = false;
    }
  }

  function follow(leader, change) {
    const isOfTime = ([key]) => /^xaxis\.(range|autorange)/.test(key);
    const x = Object.fromEntries(Object.entries(change).filter(isOfTime));
    if (!Object.keys(x).length) return;
    move(overTime().filter((chart) => chart !== leader), () => ({ ...x }));
  }

  for (const button of document.querySelectorAll("button[data-range]")) {
    button.addEventListener("click", () => {
      move(overTime(), (chart) => {
        const { range } = figureOf(chart).layout.yaxis;
        const y = range ? { "yaxis.range": range } : { "yaxis.autorange": true };
        return { "xaxis.range": JSON.parse(button.dataset.range), ...y };
      });
    });
  }

  scheme.addEventListener("change", () => charts.forEach((chart) => draw(chart)));
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.scheme = "light";
    for (const part of document.querySelectorAll("details.printed:not([open])")) {
      part.open = true;
      part.dataset.wasClosed = "";
    }
    for (const chart of charts) {
      const width = chart.closest(".pair") ? 0.48 * PRINT_WIDTH : PRINT_WIDTH;
      draw(chart, { width, autosize: false });
    }
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.scheme;
    for (const part of document.querySelectorAll("details[data-was-closed]")) {
      part.open = false;
      delete part.dataset.wasClosed;
    }
    charts.forEach((chart) => draw(chart, { width: null, autosize: true }));
  });

  (async () => {
    for (const chart of charts) {
      await draw(chart);
      if ("overTime" in chart.dataset) {
        chart.on("plotly_relayout", (change) => follow(chart, change));
      }
      await new Promise((resume) => setTimeout(resume)); // the page stays responsive
    }
    document.documentElement.dataset.drawn = "yes";
  })();
})();
