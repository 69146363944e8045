// What Python wrote into the page: tables by column, numbers as packed doubles.

const data = JSON.parse(document.getElementById("data").textContent);

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

for (const table of Object.values(data.tables)) {
  for (const column of table.columns) {
    if (!column.text) column.values = unpack(column.values);
  }
  table.size = table.columns[0].values.length;
  table.column = (name) => table.columns.find((column) => column.name === name);
}

const block = {
  values: unpack(data.coefficients.values),
  rows: data.coefficients.shape[0],
  columns: data.coefficients.shape[1],
  features: data.tables.features.column("feature").values,
  tasks: data.tables.tasks.column("task").values,
  at: (row, column) => block.values[row * block.columns + column],
};

// Numbers as people read them; files get all digits.
function spell(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  let text;
  if (number === 0) text = "0";
  else if (size >= 1e6 || size < 1e-4) text = number.toExponential(2);
  else if (size >= 1e4) text = Math.round(number).toLocaleString("en");
  else text = String(Number(number.toPrecision(4)));
  return text.replace("-", "−");
}

function toCsv(head, rows) {
  const cell = (value) => {
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    return /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",") + "\n").join("");
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const compareNames = new Intl.Collator(undefined, { numeric: true }).compare;
