// A table that sorts, filters, grows and downloads.

const FIRST_ROWS = 12;
const MORE_ROWS = 100;

class DataTable {
  // rank: numbers of rows by which they are ordered at first, largest first
  constructor(name, table, pictures = {}, rank = null) {
    this.name = name;
    this.table = table;
    this.pictures = pictures;
    this.shown = FIRST_ROWS;
    this.sorted = null;
    this.rank = rank;
    this.body = make("tbody");
    this.count = make("span", { class: "note", role: "status" });
    this.grow = make("button", { type: "button", onclick: () => this.more() });
    const [first] = table.columns;
    const names = first.text ? first.values : Array(table.size).fill("");
    this.words = names.map((text) => text.toLowerCase());
    this.element = make("div", { class: "data" }, this.tools(), this.frame(), this.foot());
    this.update();
  }

  tools() {
    const [filter, box] = searchBox(`Find in ${this.table.title.toLowerCase()}`, () => this.update());
    this.box = box;
    filter.hidden = !this.table.columns[0].text;
    const save = make(
      "button",
      { type: "button", class: "end", "data-download": this.name, onclick: () => this.save() },
      "Download CSV",
    );
    return make("div", { class: "tools" }, filter, save);
  }

  frame() {
    this.heads = new Map();
    const cells = this.table.columns.map((column) => this.head(column));
    const pictures = Object.keys(this.pictures).map((label) => make("th", { scope: "col", class: "text" }, label));
    cells.splice(1, 0, ...pictures);
    const caption = make("caption", { class: "hide" }, this.table.title);
    const table = make("table", {}, caption, make("thead", {}, make("tr", {}, ...cells)), this.body);
    const words = `${this.table.title}, table`;
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": words }, table);
  }

  head(column) {
    const arrow = make("span", { "aria-hidden": "true" });
    const button = make("button", { type: "button", onclick: () => this.sort(column) }, column.label, arrow);
    const kind = column.text ? "text" : column.label.length > 14 ? "long" : null;
    const cell = make("th", { scope: "col", class: kind }, button);
    this.heads.set(column, [cell, arrow]);
    return cell;
  }

  foot() {
    return make("div", { class: "more" }, this.grow, this.count);
  }

  sort(column) {
    const again = this.sorted && this.sorted.column === column;
    this.sorted = { column, up: again ? !this.sorted.up : Boolean(column.text) };
    for (const [other, [cell, arrow]] of this.heads) {
      const here = other === column;
      if (here) cell.setAttribute("aria-sort", this.sorted.up ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
      arrow.textContent = here ? (this.sorted.up ? "↑" : "↓") : "";
    }
    this.update();
  }

  more() {
    this.shown += MORE_ROWS;
    this.update();
  }

  rows() {
    const wanted = this.box.value.trim().toLowerCase();
    const rows = [...this.words.keys()].filter((row) => this.words[row].includes(wanted));
    if (this.rank && !this.sorted) rows.sort((a, b) => this.rank[b] - this.rank[a]);
    if (this.sorted) {
      const { column, up } = this.sorted;
      rows.sort((a, b) => order(column, a, b, up));
    }
    return rows;
  }

  update() {
    const rows = this.rows();
    const shown = rows.slice(0, this.shown);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    const rest = rows.length - shown.length;
    this.grow.hidden = rest === 0;
    this.grow.textContent = `Show ${Math.min(rest, MORE_ROWS)} more`;
    const total = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows shown. `;
    this.count.textContent = total + leftOut(this.table.left_out, "more rows");
  }

  row(row) {
    const [first, ...others] = this.table.columns;
    const pictures = Object.values(this.pictures).map((picture) => make("td", { class: "text" }, picture(row)));
    return make("tr", {}, this.cell(first, row, "th"), ...pictures, ...others.map((column) => this.cell(column, row, "td")));
  }

  cell(column, row, tag) {
    const value = column.values[row];
    const settings = { class: column.text ? "text" : null, scope: tag === "th" ? "row" : null };
    return make(tag, settings, column.text ? value : spell(value));
  }

  save() {
    const columns = this.table.columns;
    const rows = Array.from({ length: this.table.size }, (_, row) => columns.map((column) => column.values[row]));
    download(`${this.name}.csv`, toCsv(columns.map((column) => column.name), rows));
  }
}

// Unknown numbers come last, whichever way is up.
function order(column, a, b, up) {
  const [x, y] = [column.values[a], column.values[b]];
  if (column.text) return up ? compareNames(x, y) : compareNames(y, x);
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return up ? x - y : y - x;
}
