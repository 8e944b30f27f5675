"use strict";
// Figures are drawn already; this adds reading values off them, showing one method or hiding it, sorting, and the theme.

const root = document.documentElement;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

const hidden = new Set();
for (const button of document.querySelectorAll(".legend button[data-key]")) {
  button.addEventListener("click", () => {
    const key = button.dataset.key;
    const show = hidden.delete(key) || (hidden.add(key), false);
    button.setAttribute("aria-pressed", String(show));
    for (const drawn of document.querySelectorAll(`figure g.${key}`)) drawn.classList.toggle("off", !show);
    for (const row of document.querySelectorAll(`tbody th.${key}`)) row.parentElement.classList.toggle("off", !show);
  });
  const spot = (on) => {
    root.classList.toggle("spot", on && !hidden.has(button.dataset.key));
    for (const drawn of document.querySelectorAll(`figure g.${button.dataset.key}`)) drawn.classList.toggle("lit", on);
  };
  for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false], ["click", false]])
    button.addEventListener(event, () => spot(on));
}

for (const figure of document.querySelectorAll("figure[data-readout]")) {
  const svg = figure.querySelector(":scope > svg");
  const output = figure.querySelector("output");
  const { x: [low, high, start, end], xName, series } = JSON.parse(figure.dataset.readout);
  const places = [...new Set(series.flatMap((s) => s.x))].filter((v) => v !== null).sort((a, b) => a - b);
  if (!places.length) continue;
  const box = svg.viewBox.baseVal;
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  svg.append(cursor);
  let at = -1;

  const nearest = (values, value) => {
    let best = 0;
    for (let i = 1; i < values.length; i++)
      if (values[i] !== null && Math.abs(values[i] - value) < Math.abs(values[best] - value)) best = i;
    return best;
  };
  const show = (index) => {
    at = Math.max(0, Math.min(places.length - 1, index));
    const x = start + ((places[at] - low) / (high - low)) * (end - start);
    cursor.setAttribute("d", `M${x} 10V${box.height - 44}`);
    const parts = series.filter((s) => !hidden.has(s.key) && s.x.length).map((s) => {
      const y = s.y[nearest(s.x, places[at])];
      return `${s.name} ${y === null ? "none" : y}`;
    });
    output.textContent = `${xName} ${places[at]}: ${parts.join(", ")}`;
  };
  const clear = () => {
    cursor.removeAttribute("d");
    output.textContent = "";
    at = -1;
  };
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    const x = ((event.clientX - bounds.left) / bounds.width) * box.width;
    show(nearest(places, low + ((x - start) / (end - start)) * (high - low)));
  });
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("blur", clear);
  svg.addEventListener("keydown", (event) => {
    const big = Math.max(1, Math.round(places.length / 20));
    const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: big, PageDown: -big, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Escape") clear();
    if (!step) return;
    event.preventDefault();
    show(at < 0 ? (step < 0 ? places.length - 1 : 0) : at + step);
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const body = table.tBodies[0];
    const key = (row) => (column === 0 ? row.cells[0].textContent : parseFloat(row.cells[column].dataset.value));
    const sign = down ? 1 : -1;
    const order = (a, b) => {
      const [p, q] = [key(a), key(b)];
      if (typeof p === "string") return sign * p.localeCompare(q);
      if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q);
      return sign * (p - q);
    };
    body.append(...[...body.rows].sort(order));
  }));
}
