// Random operations, sent to this library's server and to Azurite, and their answers compared:
//     node interop/differential.mjs TABLES AZURITE [OPERATIONS] [SEED]
// TABLES is the program `tables`; AZURITE is the `main.js` of Azurite's table service. Prints every kind of difference with its count and the
// first example. docs/server.md classifies the kinds; the run fails if a kind is not in the list below.
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { Agent, request } from "node:http";
import { connect } from "node:net";

const ACCOUNT = "devstoreaccount1";
const KEY = Buffer.from("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", "base64");
const PORTS = { ours: 11912, azurite: 11913 };
const [tables, azurite, count = "10000", seed = "1"] = process.argv.slice(2);
if (!azurite) throw new Error("usage: node interop/differential.mjs TABLES AZURITE [OPERATIONS] [SEED]");

// The kinds that docs/server.md explains: the operation, then the two answers.
const KNOWN = [
  /: body: null for a selected property that an entity has not$/,
  /: body: text of links/,
  /^(insert|create table|delete table): type: {2}, Azurite application\/json $/,
  /^delete table: code: TableNotFound TableNotFound, Azurite ResourceNotFound ResourceNotFound$/,
  /^insert: applied: undefined , Azurite return-content $/,
  /^query .*: next: continuation , Azurite no continuation $/,
];

// Azurite reads no other names of boundaries than the clients'.
const BATCH = "batch_a1e9d677-b28b-435e-a89e-87e6a768a431";
const CHANGES = "changeset_8a28b620-b4bb-458c-a177-0959fb14c977";

// A generator of random numbers with a seed: mulberry32.
let state = Number(seed) >>> 0;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const one = (list) => list[below(list.length)];
const chance = (p) => random() < p;

const agent = new Agent({ keepAlive: true });

function send(server, { method, path, query = "", headers = {}, body }) {
  const date = new Date().toUTCString();
  const type = headers["Content-Type"] ?? "";
  const text = `${method}\n\n${type}\n${date}\n/${ACCOUNT}/${ACCOUNT}/${path}`;
  const signature = createHmac("sha256", KEY).update(text).digest("base64");
  const all = { "x-ms-date": date, "x-ms-version": "2019-02-02", Authorization: `SharedKey ${ACCOUNT}:${signature}`, ...headers };
  if (body !== undefined) all["Content-Length"] = Buffer.byteLength(body);
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: PORTS[server], method, path: `/${ACCOUNT}/${path}${query}`, headers: all, agent };
    const sent = request(options, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks).toString() }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const TABLES = ["Alpha", "Beta", "Gamma"];
const PARTITIONS = ["", "p", "it's", "ü €", "a b+c%", "~"];
const ROWS = ["", "1", "2", "3", "o''r", "😀", "x&y=z"];
const NAMES = ["Age", "Name", "Big", "Real", "Flag", "Time", "Id", "Bytes"];
const VALUES = {
  Age: () => [below(100) - 50],
  Name: () => [one(["", "Ken", "it's", "<b>&\"", "日本"])],
  Big: () => [String(one([0, 7, -7, 9007199254740993n, -9223372036854775808n])), "Edm.Int64"],
  Real: () => [one([0.5, -1.25, 1e300, 3.5]), "Edm.Double"],
  Flag: () => [chance(0.5)],
  Time: () => [one(["2013-01-01T05:15:00.1234567Z", "1999-12-31T23:59:59Z", "2024-02-29T00:00:00Z"]), "Edm.DateTime"],
  Id: () => [one(["6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1", "00000000-0000-0000-0000-000000000000"]), "Edm.Guid"],
  Bytes: () => [one(["", "AAE=", "/w=="]), "Edm.Binary"],
};
const LITERALS = {
  Age: () => String(below(100) - 50),
  Name: () => one(["''", "'Ken'", "'it''s'"]),
  Big: () => one(["7L", "-7L", "9007199254740993L"]),
  Real: () => one(["0.5", "3.5", "-1.25"]),
  Flag: () => one(["true", "false"]),
  Time: () => one(["datetime'1999-12-31T23:59:59Z'", "datetime'2013-01-01T05:15:00.1234567Z'"]),
  Id: () => "guid'6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1'",
  Bytes: () => "X'0001'",
};

const literal = (text) => `'${text.replaceAll("'", "''")}'`;
const entityPath = (table, partition, row) =>
  `${table}(PartitionKey='${encode(partition)}',RowKey='${encode(row)}')`.replaceAll("'", "%27");
const encode = (key) => encodeURIComponent(key.replaceAll("'", "''"));

function properties() {
  const entity = {};
  for (const name of NAMES.filter(() => chance(0.35))) {
    const [value, type] = VALUES[name]();
    entity[name] = value;
    if (type) entity[`${name}@odata.type`] = type;
  }
  return entity;
}

function filter(depth = 0) {
  if (depth < 2 && chance(0.3)) return `(${filter(depth + 1)}) ${one(["and", "or"])} (${filter(depth + 1)})`;
  if (depth < 2 && chance(0.1)) return `not (${filter(depth + 1)})`;
  const compare = one(["eq", "ne", "gt", "ge", "lt", "le"]);
  if (chance(0.3)) return `PartitionKey ${compare} ${literal(one(PARTITIONS))}`;
  if (chance(0.2)) return `RowKey ${compare} ${literal(one(ROWS))}`;
  const name = one(NAMES);
  // Order of GUIDs and bytes is not documented.
  return `${name} ${["Id", "Bytes", "Flag"].includes(name) ? one(["eq", "ne"]) : compare} ${LITERALS[name]()}`;
}

// The last ETag of each entity, for each server.
const etags = new Map();
const accept = () => `application/json;odata=${one(["nometadata", "minimalmetadata", "fullmetadata"])}`;
const JSON_TYPE = { "Content-Type": "application/json", Accept: "application/json;odata=nometadata" };

function write(table, partition, row) {
  const at = entityPath(table, partition, row);
  const keys = { PartitionKey: partition, RowKey: row };
  const name = `${table}/${partition}/${row}`;
  const condition = () => one([{ "If-Match": "*" }, { "If-Match": { of: name } }, { "If-Match": 'W/"stale"' }]);
  const body = () => JSON.stringify({ ...keys, ...properties() });
  const prefer = chance(0.7) ? { Prefer: one(["return-no-content", "return-content"]) } : {};
  switch (below(7)) {
    case 0: case 1: return { kind: "insert", name, method: "POST", path: table, headers: { ...JSON_TYPE, Accept: accept(), ...prefer }, body: body() };
    case 2: return { kind: "upsert replace", name, method: "PUT", path: at, headers: JSON_TYPE, body: body() };
    case 3: return { kind: "upsert merge", name, method: one(["MERGE", "PATCH"]), path: at, headers: JSON_TYPE, body: body() };
    case 4: return { kind: "replace", name, method: "PUT", path: at, headers: { ...JSON_TYPE, ...condition() }, body: body() };
    case 5: return { kind: "merge", name, method: "MERGE", path: at, headers: { ...JSON_TYPE, ...condition() }, body: body() };
    default: return { kind: "delete", name, method: "DELETE", path: at, headers: { Accept: "application/json;odata=nometadata", ...condition() } };
  }
}

function operation() {
  const table = one(TABLES);
  const [partition, row] = [one(PARTITIONS), one(ROWS)];
  const kind = below(100);
  if (kind < 3) return { kind: "create table", method: "POST", path: "Tables", headers: { ...JSON_TYPE, Accept: accept(), Prefer: "return-no-content" }, body: JSON.stringify({ TableName: table }) };
  if (kind < 4) return { kind: "delete table", method: "DELETE", path: `Tables('${table}')`, headers: { Accept: "application/json;odata=nometadata" } };
  if (kind < 8) return { kind: "query tables", method: "GET", path: "Tables", headers: { Accept: accept() } };
  if (kind < 25) return { kind: "get", method: "GET", path: entityPath(table, partition, row), headers: { Accept: accept() } };
  if (kind < 50) {
    const options = [];
    if (chance(0.7)) options.push(`$filter=${encodeURIComponent(filter())}`);
    if (chance(0.3)) options.push(`$select=${["PartitionKey", "RowKey", ...NAMES].filter(() => chance(0.4)).join(",") || "Age"}`);
    if (chance(0.3)) options.push(`$top=${1 + below(5)}`);
    return { kind: "query", method: "GET", path: `${table}()`, query: options.length ? `?${options.join("&")}` : "", headers: { Accept: accept() } };
  }
  if (kind < 92) return write(table, partition, row);
  // A group of one partition. Its members get no condition on ETags, which differ.
  const rows = ROWS.filter(() => chance(0.5));
  const members = rows.map((member) => write(table, partition, member)).map((member) => {
    const headers = { ...member.headers };
    if (headers["If-Match"] instanceof Object) headers["If-Match"] = "*";
    return { ...member, headers };
  });
  if (members.length === 0) return operation();
  const part = ({ method, path, headers = {}, body = "" }) =>
    [`--${CHANGES}`, "Content-Type: application/http", "Content-Transfer-Encoding: binary", "", `${method} http://127.0.0.1:PORT/${ACCOUNT}/${path} HTTP/1.1`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), `Content-Length: ${Buffer.byteLength(body)}`, "", body].join("\r\n");
  const body = `--${BATCH}\r\nContent-Type: multipart/mixed; boundary=${CHANGES}\r\n\r\n${members.map(part).join("\r\n")}\r\n--${CHANGES}--\r\n--${BATCH}--\r\n`;
  return { kind: "group", method: "POST", path: "$batch", headers: { "Content-Type": `multipart/mixed; boundary=${BATCH}` }, body };
}

// What must be equal: without times, ETags, ids and ports.
function normal(text) {
  return text
    .replaceAll(/127\.0\.0\.1:\d+/g, "HOST")
    .replaceAll(/W\/\\?"[^"\\]*\\?"/g, "ETAG")
    .replaceAll(/"Timestamp":"[^"]*"/g, '"Timestamp":"T"');
}

// Without the order of properties, and with times without trailing zeros.
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value === "string") return value.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?Z$/, (_, time, rest) => (rest ? `${time}.${rest}Z` : `${time}Z`));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

// A body without the properties for which a rule of the list holds.
function without(body, drops) {
  const clean = (value) => {
    if (Array.isArray(value)) return value.map(clean);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).filter(([key, inner]) => !drops(key, inner)).map(([key, inner]) => [key, clean(inner)]));
  };
  return body && JSON.stringify(clean(JSON.parse(body)));
}

function summary(kind, answer) {
  const type = (answer.headers["content-type"] ?? "").split(";")[0];
  if (kind === "group") {
    const statuses = [...answer.body.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((found) => found[1]).join(" ");
    const code = /"code":"([^"]*)"/.exec(answer.body)?.[1];
    const index = /"value":"(\d+):/.exec(answer.body)?.[1];
    return { status: `${answer.status} (${statuses})`, code: code && `${code}${index === undefined ? "" : ` of operation ${index}`}`, body: "" };
  }
  let body = answer.body;
  let code;
  try {
    const value = JSON.parse(normal(body));
    code = value["odata.error"]?.code;
    body = code ? "" : JSON.stringify(sorted(value));
  } catch {
    code = /<Code>([^<]*)/.exec(body)?.[1];
    if (code) body = "";
  }
  return {
    status: String(answer.status),
    code,
    type,
    applied: answer.headers["preference-applied"],
    etag: answer.headers.etag === undefined ? "no ETag" : "ETag",
    next: answer.headers["x-ms-continuation-nextpartitionkey"] === undefined ? "no continuation" : "continuation",
    body,
  };
}

function difference(kind, ours, theirs) {
  for (const field of ["status", "code", "applied", "etag", "next", "type"]) {
    if (ours[field] !== theirs[field]) return `${field}: ${ours[field]} ${ours.code ?? ""}, Azurite ${theirs[field]} ${theirs.code ?? ""}`;
  }
  if (ours.body === theirs.body) return undefined;
  const names = ["odata.metadata", "odata.id", "odata.editLink", "odata.type"];
  const kinds = [
    ["body: null for a selected property that an entity has not", (key, value) => value === null],
    ["body: text of links", (key) => names.includes(key)],
    ["body: text of links, and null for a selected property", (key, value) => value === null || names.includes(key)],
    ["body: text of links, and ETag, Timestamp and their types", (key, value) => value === null || names.includes(key) || key === "odata.etag" || key.startsWith("Timestamp")],
  ];
  for (const [kind, drops] of kinds) if (without(ours.body, drops) === without(theirs.body, drops)) return kind;
  return "body";
}

const processes = [
  spawn(tables, ["serve", "memory", "--listen", `127.0.0.1:${PORTS.ours}`, "--until-eof"], { stdio: ["pipe", "ignore", "inherit"] }),
  spawn("node", [azurite, "--tablePort", String(PORTS.azurite), "--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck"], { stdio: "ignore" }),
];
const found = new Map();
try {
  for (const port of Object.values(PORTS)) {
    const listens = () => new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => { socket.end(); resolve(true); });
      socket.on("error", () => resolve(false));
    });
    while (!(await listens())) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  for (const table of TABLES) {
    for (const server of Object.keys(PORTS)) await send(server, { method: "POST", path: "Tables", headers: { ...JSON_TYPE, Accept: "application/json;odata=nometadata" }, body: JSON.stringify({ TableName: table }) });
  }
  for (let n = 0; n < Number(count); n += 1) {
    const asked = operation();
    const answers = await Promise.all(Object.keys(PORTS).map(async (server) => {
      const headers = { ...asked.headers };
      if (headers["If-Match"]?.of) headers["If-Match"] = etags.get(`${server}/${headers["If-Match"].of}`) ?? 'W/"none"';
      const body = asked.kind === "group" ? asked.body.replaceAll(":PORT/", `:${PORTS[server]}/`) : asked.body;
      const answer = await send(server, { ...asked, headers, body });
      if (asked.name && answer.headers.etag) etags.set(`${server}/${asked.name}`, answer.headers.etag);
      return answer;
    }));
    const [ours, theirs] = answers.map((answer) => summary(asked.kind, answer));
    const reason = difference(asked.kind, ours, theirs);
    if (reason === undefined) continue;
    const accepts = asked.kind === "query" ? ` ${asked.headers.Accept.split("=")[1]}` : "";
    const kind = `${asked.kind}${accepts}: ${reason}`;
    const entry = found.get(kind) ?? { count: 0, asked, answers };
    entry.count += 1;
    found.set(kind, entry);
  }
} finally {
  processes.forEach((server) => server.kill());
  agent.destroy();
}
let unknown = 0;
for (const [kind, { count: times, asked, answers }] of [...found].sort((a, b) => b[1].count - a[1].count)) {
  const isKnown = KNOWN.some((known) => known.test(kind));
  if (!isKnown) unknown += 1;
  console.log(`${isKnown ? "known" : "UNKNOWN"}: ${times} times: ${kind}`);
  if (!isKnown) {
    console.log(`  ${asked.method} ${decodeURIComponent(asked.path)}${decodeURIComponent(asked.query ?? "")} ${JSON.stringify(asked.headers)} ${asked.body ?? ""}`);
    answers.forEach((answer, n) => console.log(`  ${n ? "Azurite" : "ours"}: ${answer.status} ${answer.body.slice(0, 1500)}`));
  }
}
console.log(`${count} operations, ${[...found.values()].reduce((sum, entry) => sum + entry.count, 0)} differences of ${found.size} kinds`);
process.exitCode = unknown ? 1 : 0;
