(() => {
  "use strict";
  const charts = [...document.querySelectorAll(".chart")];
  const drawn = new Map();
  // All charts over time show the same range.
  const overTime = () => charts.filter((box) => "overTime" in box.dataset && drawn.has(box));
  const showEverywhere = (range) => overTime().forEach((box) => drawn.get(box).set(range));

  for (const button of document.querySelectorAll("button[data-range]")) {
    button.addEventListener("click", () => showEverywhere(JSON.parse(button.dataset.range)));
  }
  for (const button of document.querySelectorAll("button[data-zoom]")) {
    button.addEventListener("click", () => {
      const [leader] = overTime();
      if (leader) drawn.get(leader).zoom(Number(button.dataset.zoom));
    });
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.printed:not([open])")) {
      part.open = true;
      part.dataset.wasClosed = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const part of document.querySelectorAll("details[data-was-closed]")) {
      part.open = false;
      delete part.dataset.wasClosed;
    }
  });

  (async () => {
    for (const box of charts) {
      const text = document.getElementById(box.dataset.figure).textContent;
      const chart = new Chart(box, JSON.parse(text));
      drawn.set(box, chart);
      box.chart = chart;
      if ("overTime" in box.dataset) chart.onRange = showEverywhere;
      await new Promise((resume) => setTimeout(resume)); // the page stays responsive
    }
    document.documentElement.dataset.drawn = "yes";
  })();
})();
