"use strict";
// Values become text nodes and attributes of pictures, never markup.

const at = (id) => document.getElementById(id);
const chosen = { account: "", table: "", next: null };

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;

async function read(path, parameters) {
  const response = await fetch(`/_explorer/${path}?${new URLSearchParams(parameters)}`);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}

// Shows the error of a task in the status line, which screen readers announce.
async function run(task) {
  try {
    await task();
  } catch (error) {
    at("status").textContent = `Failed: ${error.message}`;
  }
}

function grid(caption, names, rows) {
  const table = element("table");
  table.append(element("caption", caption));
  const head = element("tr");
  names.forEach((name) => head.append(element("th", name, { scope: "col" })));
  const thead = element("thead");
  thead.append(head);
  const body = element("tbody");
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, n) => {
      const made = n === 0 ? element("th", null, { scope: "row" }) : element("td");
      made.append(cell ?? "");
      row.append(made);
    });
    body.append(row);
  }
  table.append(thead, body);
  const frame = element("div", null, { class: "wide", tabindex: "0", role: "region", "aria-label": caption });
  frame.append(table);
  return frame;
}

async function showTables() {
  chosen.account = at("account").value;
  const names = await read("tables", { account: chosen.account });
  const items = names.map((name) => {
    const button = element("button", name, { type: "button" });
    button.addEventListener("click", () => run(() => choose(name, button)));
    const item = element("li");
    item.append(button);
    return item;
  });
  at("tables").replaceChildren(...items);
  at("status").textContent = counted(names.length, "table", "tables");
}

async function choose(name, button) {
  document.querySelectorAll("nav button").forEach((other) => other.removeAttribute("aria-current"));
  button.setAttribute("aria-current", "true");
  chosen.table = name;
  at("name").textContent = name;
  at("filter").value = "";
  at("partitions").replaceChildren();
  at("about").hidden = false;
  const { indexes, types } = await read("manifest", { account: chosen.account, table: name });
  const state = (index) => (index.dropping ? "is being removed" : index.state);
  const index = (i) => [i.name, i.type ?? "every type", state(i), i.table ?? name, i.definition ?? "only its program knows it", comparison(i)];
  at("indexes").replaceChildren(
    indexes.length ? grid("Indexes", ["Name", "Type", "State", "Table of the entries", "Definition", "Drift"], indexes.map(index)) : element("p", "No indexes."),
  );
  const type = (t) => [t.name, t.version, t.layout, t.encrypted.join(", ")];
  at("types").replaceChildren(
    types.length ? grid("Types", ["Name", "Version", "Layout", "Encrypted properties"], types.map(type)) : element("p", "No registered types."),
  );
  await query(null);
}

// A button that compares an index with its entities, and the result in its place.
function comparison(index) {
  const button = element("button", "Compare", { type: "button", "aria-label": `Compare the index ${index.name} with its entities` });
  const { account, table } = chosen;
  button.addEventListener("click", () =>
    run(async () => {
      at("status").textContent = "Comparing…";
      const answer = await read("drift", { account, table, index: index.id });
      const more = answer.complete ? "" : "; more rows were not read";
      const taken = answer.taken_keys ? `, ${answer.taken_keys} taken keys` : "";
      const text = `${answer.dangling} of ${answer.entries} entries without their entity, ${answer.missing} of ${answer.entities} entities without their entry${taken}${more}`;
      at("status").textContent = `${index.name}: ${text}`;
      button.replaceWith(text);
    }),
  );
  return button;
}

async function query(next) {
  const parameters = { account: chosen.account, table: chosen.table, filter: at("filter").value };
  if (at("all").checked) parameters.all = "1";
  if (next) Object.assign(parameters, next.second === null ? { first: next.first } : next);
  const answer = await read("entities", parameters);
  at("explanation").textContent = answer.explanation;
  const kinds = new Map();
  for (const entity of answer.entities) kinds.set(entity.kind, [...(kinds.get(entity.kind) ?? []), entity]);
  at("entities").replaceChildren(...[...kinds].map(([kind, entities]) => entitiesOf(kind, entities)));
  chosen.next = answer.next;
  at("more").hidden = !answer.next;
  at("status").textContent = `${counted(answer.entities.length, "entity", "entities")} of ${counted(answer.rows, "row", "rows")}, by a ${answer.path}`;
}

function entitiesOf(kind, entities) {
  const names = [...new Set(entities.flatMap((entity) => entity.properties.map((property) => property.name)))];
  const rows = entities.map((entity) => {
    const values = new Map(entity.properties.map((property) => [property.name, property]));
    const cell = (name) => {
      const value = values.get(name);
      return value ? value.text + (value.cut ? "…" : "") : "";
    };
    return [entity.partition, entity.row, ...names.map(cell), entity.timestamp ?? ""];
  });
  return grid(`${kind}: ${entities.length}`, ["PartitionKey", "RowKey", ...names, "Timestamp"], rows);
}

async function countPartitions() {
  at("status").textContent = "Counting…";
  const answer = await read("partitions", { account: chosen.account, table: chosen.table });
  const more = answer.complete ? "" : ", and more rows that were not read";
  const summary = `${answer.rows} rows in ${answer.partitions} partitions${more}`;
  at("status").textContent = summary;
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  const draw = (name, attributes, text) => {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    drawing.append(made);
  };
  drawing.setAttribute("viewBox", `0 0 900 ${answer.largest.length * 20 + 4}`);
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Rows of the largest partitions: ${summary}. The table below has the numbers.`);
  const most = Math.max(1, ...answer.largest.map((partition) => partition.rows));
  answer.largest.forEach(({ partition, rows }, n) => {
    const y = n * 20;
    draw("text", { x: 0, y: y + 15 }, partition.length > 30 ? `${partition.slice(0, 29)}…` : partition);
    draw("rect", { x: 240, y: y + 3, width: Math.max(1, (560 * rows) / most), height: 14 });
    draw("text", { x: 246 + Math.max(1, (560 * rows) / most), y: y + 15 }, String(rows));
  });
  const numbers = grid("Largest partitions", ["PartitionKey", "Rows"], answer.largest.map((p) => [p.partition, p.rows]));
  at("partitions").replaceChildren(element("p", summary), drawing, numbers);
}

at("account").addEventListener("change", () => run(showTables));
at("query").addEventListener("submit", (event) => {
  event.preventDefault();
  run(() => query(null));
});
at("more").addEventListener("click", () => run(() => query(chosen.next)));
at("count").addEventListener("click", () => run(countPartitions));
run(async () => {
  const accounts = await read("accounts", {});
  at("account").replaceChildren(...accounts.map((name) => element("option", name, { value: name })));
  await showTables();
});
