// Shows the cross-tabulation that was chosen. It reads the counts in this page and requests nothing.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("crosstab-counts").textContent);
  const box = document.getElementById("crosstab");
  const [down, across] = ["crosstab-down", "crosstab-across"].map(id => document.getElementById(id));
  const place = document.getElementById("crosstab-table");
  const say = document.getElementById("crosstab-says");
  const grouped = count => count === null ? "impossible" : count.toLocaleString("en-US");
  const unit = data.unit[0].toUpperCase() + data.unit.slice(1);
  const add = (parent, tag, text, scope, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (scope) made.scope = scope;
    if (kind) made.className = kind;
    return parent.appendChild(made);
  };
  const show = () => {
    const one = +down.value, two = +across.value;
    const rows = data.columns[one], columns = data.columns[two];
    place.replaceChildren();
    let found = data.ones[one], single = one === two;
    if (!single) found = data.pairs[`${Math.min(one, two)} ${Math.max(one, two)}`];
    if (!found || !found.length) {
      say.textContent = found && !single
        ? `${rows.name} × ${columns.name} has too many cells for this page. dp-release query FOLDER "count by ${rows.name}, ${columns.name}" shows it.`
        : single ? `${rows.name} was not measured.`
        : `${rows.name} and ${columns.name} were not measured together: the noisy tables do not determine this cross-tabulation.`;
      return;
    }
    const [margin, counts] = found;
    say.textContent = `Each count has a margin of error of ±${grouped(margin)} ${data.unit} (95 %). Counts below 0 stand for small counts.`;
    const width = single ? 1 : columns.labels.length, height = rows.labels.length;
    const at = (row, column) => single ? counts[row]
      : one < two ? counts[row * width + column] : counts[column * height + row];
    const table = add(place, "table", undefined, "", "list");
    add(table, "caption", single ? rows.name : `${rows.name} (rows) by ${columns.name} (columns), ${data.unit}`);
    const head = add(add(table, "thead"), "tr");
    add(head, "th", rows.name, "col");
    for (const label of single ? [unit] : columns.labels) add(head, "th", label, "col", "n");
    const body = add(table, "tbody");
    rows.labels.forEach((label, row) => {
      const line = add(body, "tr");
      add(line, "th", label, "row");
      for (let column = 0; column < width; column += 1) {
        add(line, "td", grouped(at(row, column)), "", "n").dataset.label = single ? unit : columns.labels[column];
      }
    });
  };
  for (const select of [down, across]) {
    data.columns.forEach((column, number) => { add(select, "option", column.name).value = number; });
    select.addEventListener("change", show);
  }
  const [first] = Object.keys(data.pairs).filter(key => data.pairs[key].length);
  const [one, two] = (first || "0 0").split(" ");
  down.value = one; across.value = two;
  box.hidden = false;
  show();
})();
