// Charts of the report: SVG with zoom, values under the pointer, and a vertical axis that follows the
// visible range. A chart is data (see charts.py); colours are variables of the style sheet.
const Chart = (() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { top: 8, right: 14, bottom: 42 };
  const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const STEPS = [
    ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND), ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14].map((n) => n * DAY),
  ];
  const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000];

  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

  // Numbers: a list, an even grid, float64, or 16 bits between the least and the largest.
  function decode(item) {
    if (Array.isArray(item)) return item.map((value) => value ?? NaN);
    if ("step" in item) return Array.from({ length: item.n }, (_, i) => item.start + i * item.step);
    if ("exact" in item) return new Float64Array(bytesOf(item.exact));
    const scale = (item.max - item.min) / 65534;
    return Array.from(new Uint16Array(bytesOf(item.coarse)), (v) =>
      v === 65535 ? NaN : item.min + v * scale);
  }

  function element(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent ? parent.appendChild(made) : made;
  }

  const pad = (number) => String(number).padStart(2, "0");

  function timeText(ms, level) {
    const t = new Date(ms);
    const date = `${t.getUTCFullYear()}-${pad(t.getUTCMonth() + 1)}-${pad(t.getUTCDate())}`;
    if (level === "year") return String(t.getUTCFullYear());
    if (level === "month") return date.slice(0, 7);
    if (level === "day") return date;
    const clock = `${pad(t.getUTCHours())}:${pad(t.getUTCMinutes())}`;
    if (level === "clock") return clock;
    if (level === "clock with seconds") return `${clock}:${pad(t.getUTCSeconds())}`;
    return level === "minute" ? `${date} ${clock}` : `${date} ${clock}:${pad(t.getUTCSeconds())}`;
  }

  function numberText(value, digits = 4) {
    if (!Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    let text = Number(value.toPrecision(digits));
    if (size !== 0 && (size < 1e-4 || size >= 1e9)) text = text.toExponential();
    else text = text.toString().replace(/^(-?\d+)/, (whole) =>
      whole.length > 5 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole);
    return text.replace("-", "−");
  }

  function niceStep(span, most) {
    const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 2.5, 5, 10].map((n) => n * power).find((step) => step >= raw * 0.999);
  }

  function numberTicks([low, high], most, kind) {
    const step = niceStep(high - low || 1, most), ticks = [];
    const decimals = Math.max(0, -Math.floor(Math.log10(step)) + (/^2\.?5/.test(String(step / 10 ** Math.floor(Math.log10(step)))) ? 1 : 0));
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) {
      const value = i * step;
      const text = kind === "share" ? `${Math.round(100 * value)} %`
        : numberText(Number(value.toFixed(Math.min(decimals, 20))), 12);
      ticks.push([value, text]);
    }
    return ticks;
  }

  function timeTicks([low, high], most) {
    const span = high - low, ticks = [];
    const step = STEPS.find((size) => span / size <= most);
    if (step) {
      const level = step >= DAY ? "day" : step >= MINUTE ? "clock" : "clock with seconds";
      for (let t = Math.ceil(low / step) * step; t <= high; t += step) {
        const isMidnight = t % DAY === 0 && step < DAY;
        ticks.push([t, timeText(t, isMidnight ? "day" : level)]);
      }
      return ticks;
    }
    const months = MONTHS.find((n) => span / (n * 30.44 * DAY) <= most) || MONTHS.at(-1);
    const first = new Date(low);
    let count = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
    for (; ; count += months) {
      const stamp = new Date(0);
      stamp.setUTCFullYear(Math.floor(count / 12), count % 12, 1);
      const t = stamp.getTime();
      if (t > high) return ticks;
      if (t >= low) ticks.push([t, timeText(t, months % 12 ? "month" : "year")]);
    }
  }

  function nearest(x, value) {
    let low = 0, high = x.length - 1;
    if (high < 0) return -1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x[middle] < value) low = middle;
      else high = middle;
    }
    return Math.abs(x[low] - value) <= Math.abs(x[high] - value) ? low : high;
  }

  class Chart {
    constructor(box, spec) {
      this.box = box;
      this.spec = spec;
      this.layers = spec.layers.map((layer) => {
        const arrays = ["x", "y", "low", "high"].filter((key) => key in layer);
        return { ...layer, ...Object.fromEntries(arrays.map((key) => [key, decode(layer[key])])) };
      });
      this.range = [...(spec.x.range || this.extent())];
      this.first = [...this.range];
      this.note = document.createElement("div");
      this.note.className = "note";
      this.note.hidden = true;
      box.replaceChildren(this.note);
      this.listen();
      new ResizeObserver(() => this.draw()).observe(box);
      this.draw();
    }

    extent() {
      const ends = this.layers.flatMap(({ x }) => [x[0], x.at(-1)]).filter(Number.isFinite);
      return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
    }

    // The vertical range of what is visible: points and lines whole, bands as far again.
    visible() {
      const { y } = this.spec, [begin, end] = this.range;
      if (y.range) return y.range;
      const bounds = (isBand) => {
        let low = Infinity, high = -Infinity;
        for (const layer of this.layers) {
          if ((layer.kind === "band") !== isBand) continue;
          const { x } = layer, lows = layer.low || layer.y, highs = layer.high || layer.y;
          for (let i = 0; i < x.length; i += 1) {
            if (x[i] < begin || x[i] > end || Number.isNaN(lows[i])) continue;
            if (lows[i] < low) low = lows[i];
            if (highs[i] > high) high = highs[i];
          }
        }
        return [low, high];
      };
      let [low, high] = bounds(false);
      const band = bounds(true), room = (high - low) || Math.abs(high) || 1;
      if (!Number.isFinite(low)) [low, high] = Number.isFinite(band[0]) ? band : [0, 1];
      else if (Number.isFinite(band[0]) && y.hasWholeBands) {
        [low, high] = [Math.min(low, band[0]), Math.max(high, band[1])];
      } else if (Number.isFinite(band[0])) {
        low = Math.min(low, Math.max(band[0], low - room));
        high = Math.max(high, Math.min(band[1], high + room));
      }
      if (y.isFromZero) low = Math.min(0, low);
      const edge = 0.06 * ((high - low) || Math.abs(high) || 1);
      return [y.isFromZero && low === 0 ? 0 : low - edge, high + edge];
    }

    draw() {
      const width = this.box.clientWidth, height = this.box.clientHeight;
      if (!width || !height) return;
      const { spec } = this;
      this.yRange = this.visible();
      const inner = height - MARGIN.top - MARGIN.bottom;
      const yTicks = numberTicks(this.yRange, Math.max(2, inner / 45), spec.y.kind);
      const longest = Math.max(...yTicks.map(([, text]) => text.length), 3);
      const left = Math.max(48, 10 + 7 * longest + (spec.y.title ? 18 : 0));
      this.area = { left, top: MARGIN.top, width: width - left - MARGIN.right, height: inner };
      const { area } = this;
      this.px = (x) => area.left + ((x - this.range[0]) / (this.range[1] - this.range[0])) * area.width;
      this.py = (y) =>
        area.top + (1 - (y - this.yRange[0]) / (this.yRange[1] - this.yRange[0])) * area.height;
      const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      const id = `clip-${this.box.dataset.figure}`;
      const clip = element("clipPath", { id }, element("defs", {}, svg));
      element("rect", { x: area.left, y: area.top, width: area.width, height: area.height }, clip);
      this.axes(svg, yTicks, width, height);
      const plot = element("g", { "clip-path": `url(#${id})` }, svg);
      for (const shape of spec.shapes) this.shape(plot, shape);
      for (const layer of this.layers) this.layer(plot, layer);
      this.cursor = element("g", { class: "cursor" }, svg);
      this.box.querySelector("svg")?.remove();
      this.box.prepend(svg);
      this.svg = svg;
    }

    axes(svg, yTicks, width, height) {
      const { area, spec } = this, group = element("g", { class: "axes" }, svg);
      const bottom = area.top + area.height, right = area.left + area.width;
      for (const [value, text] of yTicks) {
        const y = this.py(value);
        element("line", { x1: area.left, x2: right, y1: y, y2: y, class: "grid" }, group);
        element("text", { x: area.left - 7, y: y + 4, "text-anchor": "end" }, group).textContent = text;
      }
      const most = Math.max(2, area.width / 95);
      const ticks = spec.x.kind === "time" ? timeTicks(this.range, most)
        : numberTicks(this.range, most, spec.x.kind);
      let last = -Infinity;
      for (const [value, text] of ticks) {
        const x = this.px(value), half = 3.6 * text.length;
        element("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4, class: "tick" }, group);
        if (x - half < Math.max(last + 8, 2) || x + half > width) continue;
        last = x + half;
        element("text", { x, y: bottom + 17, "text-anchor": "middle" }, group).textContent = text;
      }
      element("line", { x1: area.left, x2: right, y1: bottom, y2: bottom, class: "tick" }, group);
      const title = { x: area.left + area.width / 2, y: height - 6, "text-anchor": "middle" };
      element("text", { ...title, class: "x-title" }, group).textContent = spec.x.title;
      if (spec.y.title) {
        const place = { transform: `translate(13 ${area.top + area.height / 2}) rotate(-90)` };
        element("text", { ...place, "text-anchor": "middle" }, group).textContent = spec.y.title;
      }
    }

    shape(plot, { x, y, fill, stroke }) {
      const { area } = this;
      const xs = x ? x.map(this.px) : [area.left, area.left + area.width];
      const ys = y ? y.map(this.py) : [area.top + area.height, area.top];
      if (fill) {
        const size = { width: Math.max(0, xs[1] - xs[0]), height: Math.max(0, ys[0] - ys[1]) };
        element("rect", { x: xs[0], y: ys[1], ...size, style: `fill: var(${fill})` }, plot);
      } else {
        const ends = { x1: xs[0], x2: xs[1], y1: ys[0], y2: ys[1] };
        element("line", { ...ends, class: "reference", style: `stroke: var(${stroke})` }, plot);
      }
    }

    layer(plot, layer) {
      const { x, y } = layer, [begin, end] = this.range, shown = [];
      for (let i = 0; i < x.length; i += 1) {
        if ((x[i + 1] ?? x[i]) >= begin && (x[i - 1] ?? x[i]) <= end) shown.push(i);
      }
      const place = (i, value) => `${this.px(x[i]).toFixed(1)} ${this.py(value).toFixed(1)}`;
      const attributes = { class: layer.kind };
      let path = "";
      if (layer.kind === "band") {
        const low = [...shown].reverse();
        path = shown.length ? `M${shown.map((i) => place(i, layer.high[i])).join("L")}L${
          low.map((i) => place(i, layer.low[i])).join("L")}Z` : "";
        attributes.style = `fill: var(${layer.colour})`;
      } else if (layer.kind === "line") {
        let isOpen = false;
        for (const i of shown) {
          if (Number.isNaN(y[i])) { isOpen = false; continue; }
          path += `${isOpen ? "L" : "M"}${place(i, y[i])}`;
          isOpen = true;
        }
        attributes.style = `stroke: var(${layer.colour}); stroke-width: ${layer.width}`;
      } else if (layer.kind === "bars") {
        for (const i of shown) {
          const [left, right] = [-1, 1].map((side) => this.px(x[i] + (side * layer.size) / 2).toFixed(1));
          path += `M${left} ${this.py(0)}V${this.py(y[i]).toFixed(1)}H${right}V${this.py(0)}Z`;
        }
        attributes.style = `fill: var(${layer.colour})`;
      } else {
        for (const i of shown) {
          if (Number.isNaN(y[i])) continue;
          if (layer.isStem) path += `M${place(i, 0)}L${place(i, y[i])}`;
          path += `M${place(i, y[i])}h0`;
        }
        attributes.class = layer.isStem ? "stems" : layer.symbol;
        attributes.style = `stroke: var(${layer.colour}); stroke-width: ${layer.size}`;
      }
      if (layer.opacity) attributes.opacity = layer.opacity;
      element("path", { d: path, ...attributes }, plot);
      if (layer.isStem) {
        const dots = shown.map((i) => `M${place(i, y[i])}h0`).join("");
        element("path", { d: dots, class: "circle", style: `stroke: var(${layer.colour}); stroke-width: 6` }, plot);
      }
    }

    // Values at the time under the pointer.
    point(clientX) {
      const box = this.svg.getBoundingClientRect(), { area, spec } = this;
      const px = ((clientX - box.left) / box.width) * this.svg.viewBox.baseVal.width;
      if (px < area.left || px > area.left + area.width) return this.leave();
      const at = this.range[0] + ((px - area.left) / area.width) * (this.range[1] - this.range[0]);
      const lines = [];
      let chosen = null;
      for (const layer of [...this.layers].reverse()) {
        if (!layer.name) continue;
        const i = nearest(layer.x, chosen ?? at);
        if (i < 0) continue;
        const distance = Math.abs(this.px(layer.x[i]) - (chosen === null ? px : this.px(chosen)));
        if (chosen === null) chosen = layer.x[i];
        else if (distance > 3) continue;
        const digits = spec.y.digits;
        if (layer.kind === "band") {
          const ends = [layer.low[i], layer.high[i]].map((end) => numberText(end, digits));
          lines.push(`${layer.name}: ${ends.join(" to ")}`);
        } else if (layer.labels) lines.push(layer.labels[i]);
        else if (!Number.isNaN(layer.y[i])) lines.push(`${layer.name} ${numberText(layer.y[i], digits)}`);
      }
      if (chosen === null || !lines.length) return this.leave();
      if (spec.x.kind === "time") lines.unshift(timeText(chosen, spec.x.level));
      else if (spec.x.kind === "number" && !spec.hasLabels) lines.unshift(numberText(chosen, spec.x.digits));
      this.note.textContent = lines.join("\n");
      this.note.hidden = false;
      const x = this.px(chosen), scale = box.width / this.svg.viewBox.baseVal.width;
      const side = x * scale > box.width / 2 ? x * scale - this.note.offsetWidth - 12 : x * scale + 12;
      this.note.style.left = `${Math.max(0, Math.min(side, box.width - this.note.offsetWidth))}px`;
      this.cursor.replaceChildren();
      element("line", { x1: x, x2: x, y1: area.top, y2: area.top + area.height }, this.cursor);
    }

    leave() {
      this.note.hidden = true;
      this.cursor?.replaceChildren();
    }

    listen() {
      const { box } = this;
      let start = null;
      const inside = (event) => {
        const frame = this.svg.getBoundingClientRect();
        const px = ((event.clientX - frame.left) / frame.width) * this.svg.viewBox.baseVal.width;
        return Math.min(Math.max(px, this.area.left), this.area.left + this.area.width);
      };
      const value = (px) =>
        this.range[0] + ((px - this.area.left) / this.area.width) * (this.range[1] - this.range[0]);
      box.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "mouse" && event.button === 0 && this.spec.x.canZoom) {
          start = inside(event);
          box.setPointerCapture(event.pointerId);
        } else this.point(event.clientX);
      });
      box.addEventListener("pointermove", (event) => {
        if (start === null) {
          if (event.pointerType === "mouse") this.point(event.clientX);
          return;
        }
        const now = inside(event), { area } = this;
        this.leave();
        const size = { width: Math.abs(now - start), height: area.height };
        const place = { x: Math.min(start, now), y: area.top };
        element("rect", { ...place, ...size, class: "selected" }, this.cursor);
      });
      box.addEventListener("pointerup", (event) => {
        if (start === null) return;
        const ends = [start, inside(event)].sort((a, b) => a - b);
        start = null;
        if (ends[1] - ends[0] > 6) this.show(ends.map(value));
      });
      box.addEventListener("pointerleave", () => this.leave());
      box.addEventListener("dblclick", () => this.show(this.first));
    }

    // Show a range of x, here and in the charts that follow.
    show(range) {
      this.leave();
      (this.onRange || ((ends) => this.set(ends)))(range);
    }

    set(range) {
      this.range = [...range];
      this.draw();
    }

    zoom(factor) {
      const middle = (this.range[0] + this.range[1]) / 2, half = (factor * (this.range[1] - this.range[0])) / 2;
      this.show([middle - half, middle + half]);
    }
  }
  return Chart;
})();
