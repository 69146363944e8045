// Charts with axes, whose points are read by pointer and by arrow keys.

const HEIGHT = 280;
const EDGES = { left: 62, right: 14, top: 30, bottom: 44 };
// Colours of Okabe & Ito that stand out on light and dark ground; dashes tell without colour.
const LOOKS = [["#3b8fcf", ""], ["#d55e00", "7 4"], ["#009e73", "2 3"], ["#c06a9a", "9 3 2 3"], ["#b98600", "12 4"], ["#7a7f87", "4 2"]];

class Chart {
  constructor(words) {
    this.svg = draw("svg", { tabindex: 0, role: "application", "aria-label": `${words}. Arrow keys move from point to point.` });
    this.element = make("div", { class: "chart" }, this.svg);
    this.readout = readout("Point at the chart, or focus it and use the arrow keys.");
    this.at = -1;
    this.view = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("focus", () => this.at < 0 && this.go(0));
    this.width = 0;
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.paint()).observe(this.element);
  }

  // view: points [{x, y, words, look, chosen}], lines [{points, look}], labels of both axes,
  // names under the points or null, rule: height of a dashed line or null; points may have
  // an interval from low to high, which is a band where view.band is set
  show(view) {
    this.view = view;
    this.at = -1;
    this.paint();
  }

  paint() {
    this.width = this.element.clientWidth;
    const width = printing ? 660 : this.width;
    if (!this.view || !width) return;
    this.x = scale(this.view.points.map((p) => p.x), [EDGES.left, width - EDGES.right], this.view.logarithmic);
    const heights = [...this.view.points, ...this.view.lines.flatMap((line) => line.points)];
    const ends = heights.flatMap((p) => [p.y, p.low, p.high]).filter(Number.isFinite);
    this.y = scale(ends, [HEIGHT - EDGES.bottom, EDGES.top], false);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.ring = draw("circle", { class: "mark", r: 7, visibility: "hidden" });
    this.svg.replaceChildren(...this.axes(width), ...this.intervals(), ...this.lines(), ...this.dots(), this.ring);
    if (this.at >= 0) this.mark();
  }

  axes(width) {
    const bottom = HEIGHT - EDGES.bottom;
    const across = this.y.ticks.flatMap((value) => [
      draw("line", { class: "axis", x1: EDGES.left, x2: width - EDGES.right, y1: this.y(value), y2: this.y(value) }),
      draw("text", { x: EDGES.left - 8, y: this.y(value) + 4, "text-anchor": "end" }, spell(value)),
    ]);
    const ticks = this.view.names ? this.nameTicks(width) : this.view.ticks ? thin(this.view.ticks, width) : this.x.ticks.map((value) => [value, spell(value)]);
    const below = ticks.map(([value, words]) => draw("text", { x: this.x(value), y: bottom + 18, "text-anchor": "middle" }, words));
    const name = draw("text", { x: width - EDGES.right, y: HEIGHT - 6, "text-anchor": "end" }, this.view.xLabel);
    const upward = draw("text", { x: 0, y: 11 }, this.view.yLabel);
    const rule = this.view.rule;
    const line = rule === null ? [] : [draw("line", { class: "rule", x1: EDGES.left, x2: width - EDGES.right, y1: this.y(rule), y2: this.y(rule) })];
    return [...across, ...below, name, upward, ...line];
  }

  // Names stand under their points where there is room for them.
  nameTicks(width) {
    const room = (width - EDGES.left) / this.view.points.length;
    const most = Math.floor(room / 7.2);
    if (most < 8) return [];
    return this.view.names.map((name, x) => [x, name.length > most ? `${name.slice(0, most - 1)}…` : name]);
  }

  intervals() {
    if (this.view.band) return this.bands();
    return this.view.points
      .filter((p) => Number.isFinite(p.low))
      .map((p) => draw("line", { class: "interval", x1: this.x(p.x), x2: this.x(p.x), y1: this.y(p.low), y2: this.y(p.high) }));
  }

  bands() {
    const known = this.view.points.filter((p) => Number.isFinite(p.low));
    const ends = [...known.map((p) => [p.x, p.low]), ...known.reverse().map((p) => [p.x, p.high])];
    return ends.length ? [draw("polygon", { class: "band", points: ends.map(([x, y]) => `${this.x(x)},${this.y(y)}`).join(" ") })] : [];
  }

  lines() {
    return this.view.lines.map(({ points, look: [stroke, dashes] }) => {
      const path = points.map((p, i) => `${i ? "L" : "M"}${this.x(p.x)} ${this.y(p.y)}`).join("");
      return draw("path", { d: path, stroke, "stroke-dasharray": dashes });
    });
  }

  dots() {
    const radius = this.view.points.length > 400 ? 2 : 3.5;
    return this.view.points.flatMap((p) => {
      const place = { cx: this.x(p.x), cy: this.y(p.y) };
      const dot = draw("circle", { class: p.look ? null : "dot", fill: p.look ? p.look[0] : null, r: radius, ...place });
      return p.chosen ? [dot, draw("circle", { class: "chosen", r: 6, ...place })] : [dot];
    });
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const unit = this.width / box.width;
    const [x, y] = [(event.clientX - box.left) * unit, (event.clientY - box.top) * unit];
    const far = (p) => Math.hypot(this.x(p.x) - x, (this.y(p.y) - y) / 2);
    let nearest = 0;
    this.view.points.forEach((p, i) => {
      if (far(p) < far(this.view.points[nearest])) nearest = i;
    });
    this.go(nearest);
  }

  press(event) {
    const last = this.view.points.length - 1;
    const steps = { ArrowLeft: this.at - 1, ArrowDown: this.at - 1, ArrowRight: this.at + 1, ArrowUp: this.at + 1, Home: 0, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.go(Math.max(0, Math.min(last, steps[event.key])));
  }

  go(place) {
    if (!this.view.points.length) return;
    this.at = place;
    this.readout.replaceChildren(this.view.points[place].words);
    this.mark();
  }

  mark() {
    const p = this.view.points[this.at];
    fill(this.ring, { cx: this.x(p.x), cy: this.y(p.y), visibility: "visible" }, []);
  }
}

// As many of the ticks as there is room for.
function thin(ticks, width) {
  const step = Math.ceil((ticks.length * 110) / width);
  return ticks.filter((_, i) => i % step === 0);
}

function scale(values, [start, end], logarithmic) {
  const change = logarithmic ? Math.log10 : (value) => value;
  const [low, high] = [Math.min(...values), Math.max(...values)].map(change);
  const room = high > low ? (high - low) * 0.03 : Math.abs(high) * 0.1 || 1;
  const [from, to] = [low - room, high + room];
  const place = (value) => start + ((change(value) - from) / (to - from)) * (end - start);
  place.ticks = logarithmic ? decades(low, high) : evenTicks(from, to);
  return place;
}

function evenTicks(from, to) {
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function decades(low, high) {
  const inside = Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => 10 ** (Math.ceil(low) + i));
  return inside.length > 1 ? inside : [10 ** low, 10 ** high];
}

// Tasks from worst to best, by any number that is known of them.
class TaskChart {
  constructor(section) {
    this.table = data.tables.tasks;
    const numbers = this.table.columns.filter((column) => !column.text);
    // Effects first, unless none is certain: then scores tell more.
    const [least, most] = ["effect_low", "effect_high"].map((name) => this.table.column(name));
    const flat = least && !least.values.some((low, row) => low * most.values[row] > 0);
    const order = flat ? ["score", "effect", "distance"] : ["effect", "score", "distance"];
    const wanted = order.find((name) => this.table.column(name));
    const [picker, select] = choice("Show", numbers.map((column) => [column.name, column.label]), () => this.update());
    select.value = wanted;
    this.select = select;
    this.chart = new Chart("Tasks in order of the number chosen");
    section.append(make("div", { class: "tools" }, picker), this.chart.element, this.chart.readout);
    this.update();
  }

  update() {
    const column = this.table.column(this.select.value);
    const names = this.table.column("task").values;
    const rows = [...names.keys()].filter((row) => Number.isFinite(column.values[row]));
    rows.sort((a, b) => column.values[a] - column.values[b]);
    const [low, high] = ["low", "high"].map((end) => this.table.column(`${column.name}_${end}`));
    const points = rows.map((row, x) => {
      const words = `${names[row]}: ${column.label} ${spell(column.values[row])}`;
      if (!low) return { x, y: column.values[row], words };
      const ends = { low: low.values[row], high: high.values[row] };
      return { x, y: column.values[row], words: `${words}, from ${spell(ends.low)} to ${spell(ends.high)}`, ...ends };
    });
    this.chart.element.hidden = !points.length;
    const middle = points.length ? points[Math.floor(points.length / 2)].y : null;
    this.chart.show({ points, lines: [], rule: middle, names: rows.map((row) => names[row]), yLabel: column.label, xLabel: "Tasks, lowest first; dashed: the median task" });
  }
}

// Effect of a column over its values: mean of all tasks with its band, and the range over tasks.
class CurveChart {
  constructor(section) {
    this.table = data.tables.curves;
    const names = [...new Set(this.table.column("column").values)];
    const [picker, select] = choice("Column", names.map((name) => [name, name]), () => this.update());
    this.select = select;
    this.chart = new Chart("Effect of a column over its values");
    this.legend = make("ul", { class: "legend" });
    section.append(make("div", { class: "tools" }, picker), this.legend, this.chart.element, this.chart.readout);
    this.update();
  }

  update() {
    const [column, words, value, effect, low, high, least, most] = ["column", "words", "value", "effect", "low", "high", "least", "most"].map((name) => this.table.column(name));
    const rows = [...column.values.keys()].filter((row) => column.values[row] === this.select.value);
    const points = rows.map((row) => {
      const point = { x: value.values[row], y: effect.values[row], words: `${this.select.value} ${words.values[row]}: effect ${spell(effect.values[row])}, from ${spell(least.values[row])} to ${spell(most.values[row])} over tasks` };
      return low ? { ...point, low: low.values[row], high: high.values[row] } : point;
    });
    const along = (numbers) => rows.map((row) => ({ x: value.values[row], y: numbers.values[row] }));
    const lines = [{ points, look: LOOKS[0] }];
    const size = Math.max(...points.map((p) => Math.abs(p.y)));
    const differs = rows.some((row) => most.values[row] - least.values[row] > 0.02 * size);
    if (differs) lines.push({ points: along(least), look: LOOKS[5] }, { points: along(most), look: LOOKS[5] });
    this.legend.replaceChildren(entry(LOOKS[0], low ? "mean of all tasks ± 2 standard errors" : "mean of all tasks"), ...(differs ? [entry(LOOKS[5], "least and largest over tasks")] : []));
    const numeric = rows.every((row) => Number.isFinite(Number(words.values[row].replace("−", "-").replaceAll(",", ""))));
    this.chart.show({ points, lines, rule: 0, band: true, ticks: numeric ? null : points.map((p, i) => [p.x, words.values[rows[i]]]), names: null, yLabel: "Effect", xLabel: this.select.value });
  }
}

// Levels of a crossed factor that are listed, from lowest to highest effect.
class LevelChart {
  constructor(section) {
    this.table = data.tables.levels;
    const names = [...new Set(this.table.column("column").values)];
    const [picker, select] = choice("Column", names.map((name) => [name, name]), () => this.update());
    picker.hidden = names.length < 2;
    this.select = select;
    this.chart = new Chart("Levels in order of their effect");
    section.append(make("div", { class: "tools" }, picker), this.chart.element, this.chart.readout);
    this.update();
  }

  update() {
    const [column, level, effect, low, high] = ["column", "level", "effect", "effect_low", "effect_high"].map((name) => this.table.column(name));
    const rows = [...column.values.keys()].filter((row) => column.values[row] === this.select.value);
    rows.sort((a, b) => effect.values[a] - effect.values[b]);
    const points = rows.map((row, x) => {
      const words = `${level.values[row]}: effect ${spell(effect.values[row])}`;
      if (!low) return { x, y: effect.values[row], words };
      const ends = { low: low.values[row], high: high.values[row] };
      return { x, y: effect.values[row], words: `${words}, from ${spell(ends.low)} to ${spell(ends.high)}`, ...ends };
    });
    this.chart.show({ points, lines: [], rule: 0, names: rows.map((row) => level.values[row]), yLabel: "Effect", xLabel: `Levels of ${this.select.value}, lowest first` });
  }
}

// Mean target over mean prediction; on the dashed diagonal both agree.
class AgreementChart {
  constructor(section) {
    const table = data.tables.calibration;
    const [predicted, actual, low, high] = ["predicted", "actual", "low", "high"].map((name) => table.column(name));
    const points = Array.from(predicted.values, (x, row) => {
      const y = actual.values[row];
      const words = `${predicted.label} ${spell(x)}, ${actual.label.toLowerCase()} ${spell(y)}`;
      return low ? { x, y, words, low: x + low.values[row], high: x + high.values[row] } : { x, y, words };
    });
    const look = ["#7a7f87", "4 2"];
    const ends = [points[0].x, points[points.length - 1].x].map((x) => ({ x, y: x }));
    this.chart = new Chart(`${actual.label} over ${predicted.label.toLowerCase()}`);
    section.append(this.chart.element, this.chart.readout);
    this.chart.show({ points, lines: [{ points: ends, look }], rule: null, names: null, yLabel: actual.label, xLabel: `${predicted.label}; dashed: equal` });
  }
}

// Held-out score over lam, for the chosen structure: one line per theta, at one epsilon; of other strengths the best.
class SearchChart {
  constructor(section) {
    this.table = data.tables.search;
    this.chosen = this.table.column("chosen").values.indexOf("yes");
    this.epsilon = this.table.column("epsilon");
    this.structure = this.table.column("structure");
    const values = this.epsilon ? [...this.epsilon.values].filter((_, row) => this.isShown(row)) : [];
    const picker = this.picker([...new Set(values)].sort((a, b) => a - b));
    this.chart = new Chart("Held-out score over lam, one line per theta");
    this.legend = make("ul", { class: "legend" });
    section.append(make("div", { class: "tools" }, picker), this.legend, this.chart.element, this.chart.readout);
    this.update();
  }

  // Each structure has its own strengths; cut tables may lack the chosen candidate.
  isShown(row) {
    return !this.structure || this.structure.values[row] === this.structure.values[Math.max(0, this.chosen)];
  }

  picker(values) {
    const [picker, select] = choice("epsilon", values.map((value) => [String(value), spell(value)]), () => this.update());
    if (this.chosen >= 0 && values.length) select.value = String(this.epsilon.values[this.chosen]);
    picker.hidden = values.length < 2;
    this.select = select;
    return picker;
  }

  // Candidates at the epsilon selected, best first; the chosen one goes before all others.
  rows() {
    const score = this.table.column("score").values;
    const here = (row) => !this.epsilon || String(this.epsilon.values[row]) === this.select.value;
    const rows = [...score.keys()].filter((row) => Number.isFinite(score[row]) && this.isShown(row) && here(row));
    return rows.sort((a, b) => (b === this.chosen) - (a === this.chosen));
  }

  update() {
    const [lam, theta, score] = ["lam", "theta", "score"].map((name) => this.table.column(name));
    const rows = this.rows();
    const thetas = [...new Set(rows.map((row) => (theta ? theta.values[row] : 0)))].sort((a, b) => a - b);
    const lines = thetas.map((value, i) => {
      const look = LOOKS[i % LOOKS.length];
      const own = firstOfEach(rows.filter((row) => !theta || theta.values[row] === value), lam.values);
      const words = (row) => `lam ${spell(lam.values[row])}, theta ${spell(value)}: ${score.label} ${spell(score.values[row])}${row === this.chosen ? ", chosen" : ""}`;
      return { look, value, points: own.map((row) => ({ x: lam.values[row], y: score.values[row], words: words(row), look, chosen: row === this.chosen })) };
    });
    const points = lines.flatMap((line) => line.points);
    this.legend.replaceChildren(...(theta ? lines.map(({ look, value }) => entry(look, `theta ${spell(value)}`)) : []));
    this.chart.element.hidden = !points.length;
    const logarithmic = points.every((p) => p.x > 0);
    this.chart.show({ points, lines, rule: null, logarithmic, names: null, yLabel: score.label, xLabel: "lam" });
  }
}

// Of rows with the same value the first, in the order of the values.
function firstOfEach(rows, values) {
  const first = new Map();
  for (const row of rows) if (!first.has(values[row])) first.set(values[row], row);
  return [...first.values()].sort((a, b) => values[a] - values[b]);
}

function entry([stroke, dashes], words) {
  const line = draw("line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke, "stroke-width": 2, "stroke-dasharray": dashes });
  return make("li", {}, draw("svg", { "aria-hidden": "true", viewBox: "0 0 28 10" }, line), words);
}
