// Coefficients as a map: features down, tasks across. A canvas shows the colours; keys
// and pointer read it cell by cell, and a table says the same in words.

const ROW = 22;
const FIRST_FEATURES = 30;
const TABLE_TASKS = 60;
const HEAD = 96; // room for names of tasks, where columns are wide enough
const SLANT = 60; // the last name leans out to the right

class HeatMap {
  constructor(section) {
    this.units = featureUnits();
    this.shown = FIRST_FEATURES;
    this.here = null;
    this.canvas = make("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": "Map of coefficients. Arrow keys move from cell to cell; each is read out below.",
    });
    this.names = make("div", { class: "names", "aria-hidden": "true" });
    this.cursor = make("div", { class: "cursor", hidden: "" });
    this.map = make("div", { class: "map" }, this.canvas, this.cursor);
    this.picture = make("div", { class: "heat" }, this.names, this.map);
    this.readout = readout("Point at a cell, or focus the map and use the arrow keys.");
    this.words = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Coefficients, table", hidden: "" });
    this.grow = make("button", { type: "button", onclick: () => this.more() });
    this.count = make("span", { class: "note", role: "status" });
    section.append(
      make("p", { class: "note" }, this.about()),
      this.tools(),
      this.readout,
      this.picture,
      this.words,
      this.key(),
      make("div", { class: "more" }, this.grow, this.count),
    );
    this.listen();
    this.update();
  }

  about() {
    const gone = data.coefficients;
    if (!gone.features_left_out && !gone.tasks_left_out) {
      return "Every coefficient that is not zero is on this page and in its download.";
    }
    return (
      leftOut(gone.features_left_out, "features with smaller coefficients") +
      leftOut(gone.tasks_left_out, "tasks nearest to the others") +
      "report.save(path, coefficients=\"coefficients.csv\"), or the command's --coefficients, writes them all to a file."
    );
  }

  tools() {
    const update = () => this.update();
    const [filter, box] = searchBox("Find tasks", update);
    const [features, byFeature] = choice("Features by", [["size", "size"], ["name", "name"]], update);
    const orders = [["given", "their order"], ["name", "name"], ["distance", "distance"]];
    if (data.metric) orders.push(["score", data.metric]);
    const [tasks, byTask] = choice("Tasks by", orders, update);
    // Per deviation features can be compared, whatever their units.
    const looks = [["raw", "coefficients"]];
    if (this.units !== null) looks.unshift(["scaled", "per standard deviation"]);
    const [values, show] = choice("Values", looks, update);
    values.hidden = this.units === null;
    const [selected, only] = checkbox("Only selected features", update);
    const [asTable, table] = checkbox("As a table", update);
    only.checked = true;
    Object.assign(this, { box, byFeature, byTask, show, only, table });
    const save = make(
      "button",
      { type: "button", class: "end", "data-download": "coefficients", onclick: () => this.save() },
      "Download CSV",
    );
    return make("div", { class: "tools" }, filter, features, tasks, values, selected, asTable, save);
  }

  key() {
    this.scale = make("canvas", { role: "img", "aria-label": "Scale of colours, blue below zero and orange above" });
    this.edges = [make("span"), make("span")];
    const words = make("span", {}, "beyond: the same colour as the end");
    return make("div", { class: "key" }, this.edges[0], this.scale, this.edges[1], words);
  }

  listen() {
    const follow = (event) => this.point(event);
    this.canvas.addEventListener("pointermove", follow);
    this.canvas.addEventListener("pointerdown", follow);
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("focus", () => this.here || this.go(0, 0));
    new ResizeObserver(() => this.paint()).observe(this.map);
    darkness.addEventListener("change", () => this.paint());
  }

  // Value of a cell, in the units chosen.
  value(row, column) {
    return block.at(row, column) * (this.show.value === "scaled" ? this.units[row] : 1);
  }

  // A single huge coefficient must not bleach all others.
  typicalLargest() {
    const sizes = Float64Array.from(block.values, (_, i) => Math.abs(this.value(Math.floor(i / block.columns), i % block.columns)));
    const known = sizes.filter((size) => size > 0 && size < Infinity).sort();
    return known.length ? known[Math.floor(0.98 * (known.length - 1))] : 1;
  }

  more() {
    this.shown += 2 * FIRST_FEATURES;
    this.update();
  }

  features() {
    const used = (row) => !this.only.checked || this.isUsed(row);
    const rows = [...Array(block.rows).keys()].filter(used);
    if (this.byFeature.value === "name") rows.sort((a, b) => compareNames(block.features[a], block.features[b]));
    return rows;
  }

  isUsed(row) {
    for (let column = 0; column < block.columns; column += 1) if (block.at(row, column) !== 0) return true;
    return false;
  }

  tasks() {
    const wanted = this.box.value.trim().toLowerCase();
    const columns = [...Array(block.columns).keys()].filter((i) => block.tasks[i].toLowerCase().includes(wanted));
    const by = this.byTask.value;
    if (by === "given") return columns;
    const column = data.tables.tasks.column(by === "name" ? "task" : by);
    return columns.sort((a, b) => order(column, a, b, by === "name"));
  }

  update() {
    const features = this.features();
    this.columns = this.tasks();
    this.rows = features.slice(0, this.shown);
    this.limit = this.typicalLargest();
    this.edges[0].textContent = `−${spell(this.limit)}`;
    this.edges[1].textContent = spell(this.limit);
    this.here = null;
    this.cursor.hidden = true;
    const rest = features.length - this.rows.length;
    this.grow.hidden = rest === 0;
    this.grow.textContent = `Show ${Math.min(rest, 2 * FIRST_FEATURES)} more features`;
    this.count.textContent =
      `${this.rows.length.toLocaleString("en")} of ${features.length.toLocaleString("en")} features, ` +
      `${this.columns.length.toLocaleString("en")} of ${block.columns.toLocaleString("en")} tasks.`;
    this.picture.hidden = this.table.checked || !this.rows.length || !this.columns.length;
    this.words.hidden = !this.table.checked;
    if (this.table.checked) this.tell();
    this.readout.textContent = this.picture.hidden && !this.table.checked
      ? "Nothing to show: no feature is selected, or no task has this name."
      : "Point at a cell, or focus the map and use the arrow keys.";
    this.paint();
  }

  layout() {
    const room = printing ? 500 : this.map.clientWidth;
    const wide = (room - SLANT) / Math.max(1, this.columns.length);
    if (wide >= 15) return { width: Math.min(printing ? 28 : 64, Math.floor(wide)), head: HEAD };
    const fit = room / Math.max(1, this.columns.length);
    return { width: printing ? fit : Math.max(5, Math.floor(fit)), head: 8 };
  }

  paint() {
    if (this.picture.hidden) return;
    const { width, head } = this.layout();
    const size = [Math.ceil(width * this.columns.length) + (head > 8 ? SLANT : 0), head + ROW * this.rows.length];
    const brush = prepare(this.canvas, ...size);
    const gap = width > 7 ? 1 : 0;
    this.rows.forEach((row, i) => {
      this.columns.forEach((column, j) => {
        brush.fillStyle = colour(this.value(row, column) / this.limit);
        brush.fillRect(j * width, head + i * ROW, width - gap, ROW - 1);
      });
    });
    if (head > 8) this.letter(brush, width, head);
    this.label(head);
    this.paintKey();
    this.mark();
  }

  letter(brush, width, head) {
    brush.fillStyle = printing ? "#000" : getComputedStyle(this.names).color;
    brush.font = `12px ${getComputedStyle(this.names).fontFamily}`;
    this.columns.forEach((column, j) => {
      brush.save();
      brush.translate(j * width + width / 2 + 2, head - 6);
      brush.rotate(-Math.PI / 3.4);
      const name = block.tasks[column];
      brush.fillText(name.length > 15 ? `${name.slice(0, 14)}…` : name, 0, 0);
      brush.restore();
    });
  }

  label(head) {
    const lines = this.rows.map((row) => {
      const line = make("div", {}, block.features[row]);
      line.style.height = line.style.lineHeight = `${ROW}px`;
      return line;
    });
    this.names.style.paddingTop = `${head}px`;
    this.names.replaceChildren(...lines);
  }

  paintKey() {
    const brush = prepare(this.scale, 160, 12);
    for (let x = 0; x < 160; x += 1) {
      brush.fillStyle = colour((x - 79.5) / 80);
      brush.fillRect(x, 0, 1, 12);
    }
  }

  point(event) {
    const { width, head } = this.layout();
    const box = this.canvas.getBoundingClientRect();
    const [row, column] = [(event.clientY - box.top - head) / ROW, (event.clientX - box.left) / width];
    if (row >= 0 && column < this.columns.length) this.go(Math.floor(row), Math.floor(column));
  }

  press(event) {
    const [row, column] = this.here || [0, 0];
    const steps = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, this.columns.length - 1],
      PageUp: [row - 10, column],
      PageDown: [row + 10, column],
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.go(...steps[event.key]);
    const { width } = this.layout();
    const left = this.here[1] * width;
    if (left < this.map.scrollLeft) this.map.scrollLeft = left;
    if (left + width > this.map.scrollLeft + this.map.clientWidth) this.map.scrollLeft = left + width - this.map.clientWidth;
  }

  go(row, column) {
    const within = (value, size) => Math.max(0, Math.min(size - 1, value));
    this.here = [within(row, this.rows.length), within(column, this.columns.length)];
    const [i, j] = [this.rows[this.here[0]], this.columns[this.here[1]]];
    const value = make("b", {}, spell(this.value(i, j)));
    this.readout.replaceChildren(`${block.features[i]} in ${block.tasks[j]}: `, value);
    this.mark();
  }

  mark() {
    this.cursor.hidden = this.here === null;
    [...this.names.children].forEach((line, i) => line.classList.toggle("here", this.here !== null && i === this.here[0]));
    if (this.here === null) return;
    const { width, head } = this.layout();
    Object.assign(this.cursor.style, {
      left: `${this.here[1] * width - 2}px`,
      top: `${head + this.here[0] * ROW - 2}px`,
      width: `${width + 3}px`,
      height: `${ROW + 3}px`,
    });
  }

  tell() {
    const columns = this.columns.slice(0, TABLE_TASKS);
    const head = columns.map((j) => make("th", { scope: "col" }, block.tasks[j]));
    const rows = this.rows.map((i) =>
      make("tr", {}, make("th", { scope: "row", class: "text" }, block.features[i]), ...columns.map((j) => make("td", {}, spell(this.value(i, j))))),
    );
    const gone = this.columns.length - columns.length;
    const words = gone ? `Coefficients of the first ${TABLE_TASKS} of ${this.columns.length} tasks; find others by name.` : "Coefficients";
    this.words.replaceChildren(
      make("table", {}, make("caption", { class: gone ? "note" : "hide" }, words), make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "text" }, "Feature"), ...head)), make("tbody", {}, ...rows)),
    );
  }

  save() {
    const rows = [...Array(block.rows).keys()].map((i) => [block.features[i], ...block.values.subarray(i * block.columns, (i + 1) * block.columns)]);
    download("coefficients.csv", toCsv(["feature", ...block.tasks], rows));
  }
}

// Standard deviation of each feature, where sizes tell it; else null.
function featureUnits() {
  const unit = data.tables.features.column("unit");
  return unit ? unit.values.map((value) => (value > 0 ? value : 1)) : null;
}

function prepare(canvas, width, height) {
  const dense = printing ? 2 : Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.ceil(width * dense);
  canvas.height = Math.ceil(height * dense);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const brush = canvas.getContext("2d");
  brush.scale(dense, dense);
  return brush;
}
