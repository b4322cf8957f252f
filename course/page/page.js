// The page is whole without this: it adds sorting, finding and folding all.
"use strict";

function value(cell) {
  const text = cell.dataset.sort ?? cell.textContent.trim();
  const number = Number.parseFloat(text);
  return Number.isNaN(number) ? text : number;
}

function compare(one, other) {
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? 1 : -1;
}

function sort(table, column, heading) {
  const descending = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const order = compare(value(a.cells[column] ?? a.cells[0]), value(b.cells[column] ?? b.cells[0]));
    return descending ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, column, heading));
    heading.append(button);
  });
}

function filter(form) {
  const words = form.words.value.trim().toLowerCase();
  const state = form.state?.value ?? "";
  let shown = 0;
  for (const item of document.querySelectorAll("[data-name]:not(details.person *)")) {
    item.hidden = !item.dataset.name.toLowerCase().includes(words) || (state && item.dataset.state !== state);
    if (item.matches("details") && !item.hidden) shown += 1;
  }
  for (const section of document.querySelectorAll("main > section"))
    section.hidden = !section.querySelector("details.puzzle:not([hidden])");
  form.querySelector("output").textContent = words || state ? `${shown} shown` : "";
}

for (const form of document.querySelectorAll("form.toolbar")) {
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => filter(form));
  for (const [name, open] of [["unfold", true], ["fold", false]])
    form[name].addEventListener("click", () => {
      for (const details of document.querySelectorAll("details.puzzle, details.person")) details.open = open;
    });
}
