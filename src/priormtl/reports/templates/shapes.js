// Elements, texts and colours. Strings enter as text nodes only, never as markup.

function make(tag, settings = {}, ...children) {
  return fill(document.createElement(tag), settings, children);
}

function draw(tag, settings = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), settings, children);
}

function fill(element, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function labelled(words, control) {
  return make("label", {}, words, control);
}

function checkbox(words, onchange) {
  const box = make("input", { type: "checkbox", onchange });
  return [make("label", { class: "check" }, box, words), box];
}

function choice(words, options, onchange) {
  const list = options.map(([value, text]) => make("option", { value }, text));
  const select = make("select", { onchange }, ...list);
  return [labelled(words, select), select];
}

function searchBox(words, oninput) {
  const box = make("input", { type: "search", oninput, autocomplete: "off" });
  return [labelled(words, box), box];
}

function readout(words) {
  return make("p", { class: "readout", role: "status" }, words);
}

// Blue below zero, orange above: told apart by the colour-blind, and darker (or, on
// dark ground, lighter) with size.
const SIDES = {
  light: { zero: [244, 244, 242], up: [[240, 170, 100], [150, 62, 4]], down: [[134, 178, 222], [14, 62, 122]] },
  dark: { zero: [34, 38, 44], up: [[160, 88, 30], [255, 190, 120]], down: [[44, 98, 156], [158, 206, 255]] },
};
const darkness = matchMedia("(prefers-color-scheme: dark)");
let printing = false;

function colour(share) {
  if (!Number.isFinite(share)) return "transparent";
  const palette = SIDES[darkness.matches && !printing ? "dark" : "light"];
  const stops = [palette.zero, ...(share < 0 ? palette.down : palette.up)];
  const place = Math.min(1, Math.abs(share)) * 2;
  const low = Math.min(1, Math.floor(place));
  const mix = stops[low].map((value, i) => Math.round(value + (place - low) * (stops[low + 1][i] - value)));
  return `rgb(${mix.join(" ")})`;
}

function openSection(name) {
  const section = document.getElementById(name);
  section.hidden = false;
  document.querySelector(`nav a[href="#${name}"]`).hidden = false;
  return section;
}

function leftOut(count, what) {
  return count ? `${count.toLocaleString("en")} ${what} had no place on this page. ` : "";
}
