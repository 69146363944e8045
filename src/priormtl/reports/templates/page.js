// Sections in their order; each is opened only where there is something to show.

// Least to largest coefficient as a line, the mean as a dot, or that of each class; per standard deviation,
// by which features are ranked, where that is known.
function rangePicture(table) {
  const units = featureUnits();
  const scaled = (values) => Array.from(values, (value, row) => (units ? value * units[row] : value));
  const [low, high] = ["min", "max"].map((name) => scaled(table.column(name).values));
  const means = table.columns.filter((one) => one.name === "mean" || one.name.startsWith("class_"));
  const dots = means.map((one) => scaled(one.values));
  let limit = 0;
  for (let row = 0; row < table.size; row += 1) limit = Math.max(limit, Math.abs(low[row]), Math.abs(high[row]));
  const place = (value) => 100 + (limit ? (92 * value) / limit : 0);
  return (row) =>
    draw(
      "svg",
      { class: "bar", viewBox: "0 0 200 20", role: "img", "aria-label": `from ${spell(low[row])} to ${spell(high[row])}, mean ${dots.map((mean) => spell(mean[row])).join(", ")}` },
      draw("line", { class: "zero", x1: 100, x2: 100, y1: 1, y2: 19 }),
      draw("line", { class: "range", x1: place(low[row]), x2: place(high[row]), y1: 10, y2: 10 }),
      ...dots.map((mean) => draw("circle", { class: mean[row] < 0 ? "down" : "up", cx: place(mean[row]), cy: 10, r: 5 })),
    );
}

// Disagreement from 0 to 1 as a bar; an outline shows it without the prior.
function violationPicture(table) {
  const after = table.column("violation_after").values;
  const before = table.column("violation_before");
  return (row) => {
    const shapes = [
      draw("rect", { class: "track", x: 0, y: 4, width: 200, height: 12, rx: 3 }),
      draw("rect", { class: "fill", x: 0, y: 4, width: 200 * (after[row] || 0), height: 12, rx: 3 }),
    ];
    let words = `disagreement ${spell(after[row])}`;
    if (before && Number.isFinite(before.values[row])) {
      shapes.push(draw("circle", { class: "before", cx: Math.min(195, Math.max(5, 200 * before.values[row])), cy: 10, r: 5 }));
      words += `, ${spell(before.values[row])} without the prior`;
    }
    return draw("svg", { class: "bar", viewBox: "0 0 200 20", role: "img", "aria-label": words }, ...shapes);
  };
}

// Tasks that stand out come first: by the size of their effect, in units of its error.
function taskRank() {
  const [effect, low, high] = ["effect", "effect_low", "effect_high"].map((name) => data.tables.tasks.column(name));
  if (!effect) return null;
  return Array.from(effect.values, (value, row) => Math.abs(value) / (low && high.values[row] > low.values[row] ? high.values[row] - low.values[row] : 1));
}

function addTable(section, name, pictures, rank) {
  const table = data.tables[name];
  section.append(new DataTable(name, table, pictures, rank).element, make("p", { class: "note" }, table.note));
}

const charts = [];
if (data.tables.curves) {
  const curves = openSection("curves");
  charts.push(new CurveChart(curves).chart);
  addTable(curves, "curves");
}
if (data.tables.levels) {
  const levels = openSection("levels");
  charts.push(new LevelChart(levels).chart);
  addTable(levels, "levels");
}
const map = new HeatMap(openSection("coefficients"));
const ranges = featureUnits() ? "Least, mean, largest per deviation" : "Least, mean, largest";
addTable(openSection("features"), "features", { [ranges]: rangePicture(data.tables.features) });
const tasks = openSection("tasks");
if (data.tables.tasks.size > 1) charts.push(new TaskChart(tasks).chart);
addTable(tasks, "tasks", {}, taskRank());
if (data.tables.calibration) {
  const calibration = openSection("calibration");
  charts.push(new AgreementChart(calibration).chart);
  addTable(calibration, "calibration");
}
if (data.tables.statements) addTable(openSection("statements"), "statements");
if (data.tables.relations) {
  const heading = data.tables.relations.column("violation_before") ? "With prior (○ without)" : "From 0 to 1";
  addTable(openSection("relations"), "relations", { [heading]: violationPicture(data.tables.relations) });
}
if (data.tables.structures) addTable(openSection("structures"), "structures");
if (data.tables.search) {
  const search = openSection("search");
  charts.push(new SearchChart(search).chart);
  addTable(search, "search");
}

function repaint(forPrint) {
  printing = forPrint;
  map.paint();
  charts.forEach((chart) => chart.paint());
}
addEventListener("beforeprint", () => repaint(true));
addEventListener("afterprint", () => repaint(false));
