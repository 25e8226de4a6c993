// Sends random operations to this library's server and to Azurite, and compares the answers:
//     node interop/differential.mjs TABLES AZURITE [OPERATIONS] [SEED]
// TABLES is the program `tables`; AZURITE is the `main.js` of Azurite's table service. Prints every kind of difference with its count and the
// first example. docs/server-compatibility.md explains the kinds; the run fails if a kind is not in the list below. A run of 100,000 operations
// or more also prints the entries of the list that it did not find.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { connect, createServer } from "node:net";
import { ACCOUNT, KEY, pause, serveMemory, sharedKey, sign, usage } from "./shared.mjs";

const [tables, azurite, count = "10000", seed = "1"] = process.argv.slice(2);
if (!azurite || !(Number(count) > 0)) usage("node interop/differential.mjs TABLES AZURITE [OPERATIONS] [SEED]");
// The port of each server, from its start on.
const PORTS = { ours: 0, azurite: 0 };

// The kinds that docs/server-compatibility.md explains: the operation, then the two answers.
const KNOWN = [
  /: body: null for a selected property that an entity has not$/,
  /: body: text of links$/,
  /: body: text of links, and null for a selected property$/,
  /^(insert|create table|delete table): type: {2}, Azurite application\/json $/,
  /^insert: applied: undefined , Azurite return-content $/,
  /^query .*: pages: one more, which is empty$/,
  // Codes of refusals.
  /^both refuse: JSON, Azurite XML$/,
  /^both refuse (SharedKey|SharedKeyLite|(\w+ by )?(table|account) signature with) .*: 403 AuthenticationFailed, Azurite 403 AuthorizationFailure$/,
  /^both refuse (\w+ by )?table signature with a policy\b.*: 403 AuthenticationFailed, Azurite 403 AuthorizationPermissionMismatch$/,
  /^both refuse no credential: 401 NoAuthenticationInformation, Azurite 403 AuthorizationFailure$/,
  /^both refuse (unknown scheme|malformed credential): 400 InvalidAuthenticationInfo, Azurite 403 AuthorizationFailure$/,
  /^both refuse policies by account signature.*: 403 AuthorizationFailure, Azurite 403 Authorization(ResourceType|Permission)Mismatch$/,
  // What Azurite does not check.
  /^Azurite takes .* by SharedKey that is 20 minutes old: AuthenticationFailed$/,
  /^Azurite takes .* signature with another address: AuthorizationSourceIPMismatch$/,
  /^both refuse .*signature with another address: 403 AuthorizationSourceIPMismatch, Azurite 403 Authorization(Failure|ResourceTypeMismatch|PermissionMismatch)$/,
  /^Azurite takes .* by table signature with a range: AuthorizationFailure$/,
  /^get by table signature with a range: status: 404 ResourceNotFound, Azurite 200 $/,
  /^query \w+ by table signature with a range: entities outside the range, Azurite returns them$/,
  /^Azurite takes upsert (replace|merge) by .*signature.*: AuthorizationPermissionMismatch$/,
  /^Azurite takes delete table by table signature.*: AuthorizationPermissionMismatch$/,
  /^Azurite takes .* by table signature with a policy\b.*: AuthenticationFailed$/,
  /^both refuse (\w+ by )?table signature with https: 403 AuthorizationProtocolMismatch, Azurite 403 AuthorizationFailure$/,
  // The resource type of a query of entities.
  /^Azurite (takes|refuses) query by account signature.*: AuthorizationResourceTypeMismatch$/,
  /^both refuse query by account signature.*: 403 Authorization(ResourceType|Permission)Mismatch, Azurite 403 Authorization(ResourceType|Permission)Mismatch$/,
  // Groups by signatures.
  /^Azurite refuses group by table signature.*: AuthorizationFailure$/,
  /^both refuse group by table signature.*: 403 Authorization\w+, Azurite 403 AuthorizationFailure$/,
  /^Azurite takes group by account signature.*: Authorization(ResourceType|Permission)Mismatch$/,
  // Policies and properties of the service.
  /^set policies: status: (204 |404 TableNotFound), Azurite 400 $/,
  /^set (policies|properties): code: InvalidXml(NodeValue|Document) InvalidXml(NodeValue|Document), Azurite undefined $/,
  /^set policies: code: InvalidXmlNodeValue InvalidXmlNodeValue, Azurite InvalidXmlDocument InvalidXmlDocument$/,
  /^set policies: status: 400 InvalidXmlNodeValue, Azurite (204|404 TableNotFound) ?$/,
  /^set properties: status: 400 InvalidXml(NodeValue|Document), Azurite 202 $/,
  /^set properties: status: 202 , Azurite 500 $/,
];

// Azurite accepts only the boundary names that Microsoft's clients send.
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
const pick = (list) => list[below(list.length)];
const chance = (p) => random() < p;

const agent = new Agent({ keepAlive: true });

const OTHER_KEY = Buffer.from("the key of no account");

// The URL of a request and its headers, with its credential.
function signed({ method, path, query = "", headers = {}, credential, account = ACCOUNT }, date) {
  const type = headers["Content-Type"] ?? "";
  const comp = /[?&](comp=[a-z]+)/.exec(query)?.[1];
  const resource = `/${ACCOUNT}/${account}/${path}${comp ? `?${comp}` : ""}`;
  const url = `/${account}/${path}${query}`;
  const dated = { "x-ms-date": date, "x-ms-version": "2019-02-02", ...headers };
  const full = (key, signedDate = date, signedResource = resource) => sharedKey({ method, type, date: signedDate, resource: signedResource, key });
  const as = (scheme, signature, name = ACCOUNT) => ({ url, headers: { ...dated, Authorization: `${scheme} ${name}:${signature}` } });
  const old = new Date(Date.parse(date) - 20 * 60_000).toUTCString();
  switch (credential.name) {
    case "SharedKey": return as("SharedKey", full(KEY));
    case "SharedKeyLite": return as("SharedKeyLite", sign(`${date}\n${resource}`));
    case "SharedKey of another key": return as("SharedKey", full(OTHER_KEY));
    case "SharedKeyLite of another key": return as("SharedKeyLite", sign(`${date}\n${resource}`, OTHER_KEY));
    case "SharedKey of another request": return as("SharedKey", full(KEY, date, `${resource}x`));
    case "SharedKey of another account": return as("SharedKey", full(KEY), "otheraccount");
    case "SharedKey under the other scheme": return as("SharedKeyLite", full(KEY));
    case "SharedKey that is 20 minutes old": return { url, headers: { ...as("SharedKey", full(KEY, old)).headers, "x-ms-date": old } };
    case "unknown scheme": return as("SharedSecret", full(KEY));
    case "malformed credential": return { url, headers: { ...dated, Authorization: "SharedKey" } };
    case "no credential": return { url, headers: dated };
    // The query of a signature.
    default: return { url: `${url}${query ? "&" : "?"}${credential.token}`, headers: { ...dated } };
  }
}

function send(server, request, date = new Date().toUTCString()) {
  const { method, body } = request;
  const { url, headers } = signed({ credential: OWNER, ...request }, date);
  if (body !== undefined) headers["Content-Length"] = Buffer.byteLength(body);
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: PORTS[server], method, path: url, headers, agent };
    const sent = httpRequest(options, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks).toString() }));
    });
    // A server may close an idle connection in the moment in which a request is sent. It has not read the request then.
    sent.on("error", (error) => (sent.reusedSocket && error.code === "ECONNRESET" ? resolve(send(server, request, date)) : reject(error)));
    sent.end(body);
  });
}

const OWNER = { name: "SharedKey" };
const REFUSED_CREDENTIALS = [
  "SharedKey of another key", "SharedKeyLite of another key", "SharedKey of another request", "SharedKey of another account",
  "SharedKey under the other scheme", "SharedKey that is 20 minutes old", "unknown scheme", "malformed credential", "no credential",
];

// A signature with a defect is refused, except by Azurite in the cases of the list of known differences. A policy and a range are no defects.
const isRefusedCredential = (name) => REFUSED_CREDENTIALS.includes(name) || / signature with (?!a (policy|range)$)/.test(name);

const subset = (text) => [...text].filter(() => chance(0.6)).join("");
const time = (minutes) => new Date(Date.now() + minutes * 60_000).toISOString().replace(/\.\d+/, "");

// A signature for a table: valid, by a policy, for a range of keys, or with one thing that the service must refuse.
function tableSignature(table) {
  const variant = pick(["", "", "", "another key", "changed", "expired", "not valid yet", "another table", "a policy", "a policy", "a policy and permissions", "a range", "another address", "https", "no expiry"]);
  const fields = { sv: pick(["2018-03-28", "2019-02-02", "2020-12-06"]), tn: table, sp: subset("raud") || "r", se: time(60) };
  if (chance(0.3)) fields.st = time(-60);
  if (chance(0.2)) fields.spr = "https,http";
  if (chance(0.2)) fields.sip = "127.0.0.1";
  if (variant === "expired") fields.se = time(-1);
  if (variant === "not valid yet") fields.st = time(30);
  if (variant === "another table") fields.tn = pick(TABLES.filter((name) => name !== table));
  if (variant === "another address") fields.sip = "10.0.0.1-10.0.0.9";
  if (variant === "https") fields.spr = "https";
  if (variant === "no expiry") delete fields.se;
  if (variant.startsWith("a policy")) {
    fields.si = pick(POLICIES);
    if (variant === "a policy") delete fields.sp;
    if (chance(0.8)) delete fields.se;
    delete fields.st;
  }
  if (variant === "a range") {
    // Azurite decodes the fields twice, so no percent signs.
    const [from, to] = [pick(["a", "it's", "p"]), pick(["p", "~", "ü €"])];
    Object.assign(fields, { spk: from, epk: to }, chance(0.3) ? { srk: pick(["1", "2"]), erk: pick(["2", "3"]) } : {});
  }
  const { sv, tn, sp = "", se = "", st = "", si = "", sip = "", spr = "", spk = "", srk = "", epk = "", erk = "" } = fields;
  const text = [sp, st, se, `/table/${ACCOUNT}/${tn.toLowerCase()}`, si, sip, spr, sv, spk, srk, epk, erk].join("\n");
  return token("table signature", variant, fields, text);
}

// A signature for the account.
function accountSignature() {
  const variant = pick(["", "", "", "another key", "changed", "expired", "not valid yet", "another service", "another address", "https"]);
  const fields = { sv: pick(["2018-03-28", "2019-02-02", "2020-12-06"]), ss: "t", srt: subset("sco") || "o", sp: subset("rwdlacu") || "r", se: time(60) };
  if (chance(0.3)) fields.st = time(-60);
  if (chance(0.2)) fields.spr = "https,http";
  if (variant === "expired") fields.se = time(-1);
  if (variant === "not valid yet") fields.st = time(30);
  if (variant === "another service") fields.ss = "bq";
  if (variant === "another address") fields.sip = "10.0.0.1-10.0.0.9";
  if (variant === "https") fields.spr = "https";
  const { sv, ss, srt, sp, se, st = "", sip = "", spr = "" } = fields;
  const text = [ACCOUNT, sp, ss, srt, st, se, sip, spr, sv, ...(sv >= "2020-12-06" ? [""] : []), ""].join("\n");
  return token("account signature", variant, fields, text);
}

function token(name, variant, fields, text) {
  const sig = sign(text, variant === "another key" ? OTHER_KEY : KEY);
  // More rights than were signed.
  if (variant === "changed") fields.sp = name.startsWith("table") ? `${fields.sp}raud` : `${fields.sp}rwdlacu`;
  const query = Object.entries({ ...fields, sig }).map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  return { name: variant ? `${name} with ${variant}` : name, token: query, range: variant === "a range" ? fields : undefined };
}

// Whether a key is in the range of a signature.
function inRange({ spk, srk, epk, erk }, [partition, row]) {
  const isFromStart = partition > spk || (partition === spk && (srk === undefined || row >= srk));
  return isFromStart && (partition < epk || (partition === epk && (erk === undefined || row <= erk)));
}

// The name of a credential. A signature with a range must allow requests for keys inside.
function credentialName({ credential: { name, range }, keys }) {
  return range && keys?.every((key) => inRange(range, key)) ? `${name}, for keys inside` : name;
}

// The owner mostly, so that there is data for the others.
function credential(table) {
  const kind = below(100);
  if (kind < 65) return OWNER;
  if (kind < 72) return { name: "SharedKeyLite" };
  if (kind < 80) return { name: pick(REFUSED_CREDENTIALS) };
  return kind < 91 ? tableSignature(table) : accountSignature();
}

const POLICIES = ["p1", "p2", "ü & <p>"];
const TABLES = ["Alpha", "Beta", "Gamma"];
const PARTITIONS = ["", "p", "it's", "ü €", "a b+c%", "~"];
const ROWS = ["", "1", "2", "3", "o''r", "😀", "x&y=z"];
const NAMES = ["Age", "Name", "Big", "Real", "Flag", "Time", "Id", "Bytes"];
const VALUES = {
  Age: () => [below(100) - 50],
  Name: () => [pick(["", "Ken", "it's", "<b>&\"", "日本"])],
  Big: () => [String(pick([0, 7, -7, 9007199254740993n, -9223372036854775808n])), "Edm.Int64"],
  Real: () => [pick([0.5, -1.25, 1e300, 3.5]), "Edm.Double"],
  Flag: () => [chance(0.5)],
  Time: () => [pick(["2013-01-01T05:15:00.1234567Z", "1999-12-31T23:59:59Z", "2024-02-29T00:00:00Z"]), "Edm.DateTime"],
  Id: () => [pick(["6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1", "00000000-0000-0000-0000-000000000000"]), "Edm.Guid"],
  Bytes: () => [pick(["", "AAE=", "/w=="]), "Edm.Binary"],
};
const LITERALS = {
  Age: () => String(below(100) - 50),
  Name: () => pick(["''", "'Ken'", "'it''s'"]),
  Big: () => pick(["7L", "-7L", "9007199254740993L"]),
  Real: () => pick(["0.5", "3.5", "-1.25"]),
  Flag: () => pick(["true", "false"]),
  Time: () => pick(["datetime'1999-12-31T23:59:59Z'", "datetime'2013-01-01T05:15:00.1234567Z'"]),
  Id: () => "guid'6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1'",
  Bytes: () => "X'0001'",
};

const literal = (text) => `'${text.replaceAll("'", "''")}'`;
const encode = (key) => encodeURIComponent(key.replaceAll("'", "''"));
const entityPath = (table, partition, row) =>
  `${table}(PartitionKey='${encode(partition)}',RowKey='${encode(row)}')`.replaceAll("'", "%27");

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
  if (depth < 2 && chance(0.3)) return `(${filter(depth + 1)}) ${pick(["and", "or"])} (${filter(depth + 1)})`;
  if (depth < 2 && chance(0.1)) return `not (${filter(depth + 1)})`;
  const compare = pick(["eq", "ne", "gt", "ge", "lt", "le"]);
  if (chance(0.3)) return `PartitionKey ${compare} ${literal(pick(PARTITIONS))}`;
  if (chance(0.2)) return `RowKey ${compare} ${literal(pick(ROWS))}`;
  const name = pick(NAMES);
  // Order of GUIDs and bytes is not documented.
  return `${name} ${["Id", "Bytes", "Flag"].includes(name) ? pick(["eq", "ne"]) : compare} ${LITERALS[name]()}`;
}

// The last ETag of each entity, for each server.
const etags = new Map();
const accept = () => `application/json;odata=${pick(["nometadata", "minimalmetadata", "fullmetadata"])}`;
const XML_TYPE = { "Content-Type": "application/xml", Accept: "application/xml" };
const JSON_TYPE = { "Content-Type": "application/json", Accept: "application/json;odata=nometadata" };

function write(table, partition, row) {
  const at = entityPath(table, partition, row);
  const keys = { PartitionKey: partition, RowKey: row };
  const name = `${table}/${partition}/${row}`;
  const condition = () => pick([{ "If-Match": "*" }, { "If-Match": { of: name } }, { "If-Match": 'W/"stale"' }]);
  const body = () => JSON.stringify({ ...keys, ...properties() });
  const prefer = chance(0.7) ? { Prefer: pick(["return-no-content", "return-content"]) } : {};
  switch (below(7)) {
    case 0: case 1: return { kind: "insert", name, method: "POST", path: table, headers: { ...JSON_TYPE, Accept: accept(), ...prefer }, body: body() };
    case 2: return { kind: "upsert replace", name, method: "PUT", path: at, headers: JSON_TYPE, body: body() };
    case 3: return { kind: "upsert merge", name, method: pick(["MERGE", "PATCH"]), path: at, headers: JSON_TYPE, body: body() };
    case 4: return { kind: "replace", name, method: "PUT", path: at, headers: { ...JSON_TYPE, ...condition() }, body: body() };
    case 5: return { kind: "merge", name, method: "MERGE", path: at, headers: { ...JSON_TYPE, ...condition() }, body: body() };
    default: return { kind: "delete", name, method: "DELETE", path: at, headers: { Accept: "application/json;odata=nometadata", ...condition() } };
  }
}

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// A policy with every field: Azurite takes no others.
function complete(id, permissions) {
  return `<SignedIdentifier><Id>${escape(id)}</Id><AccessPolicy><Start>2020-01-01T00:00:00Z</Start><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>${permissions}</Permission></AccessPolicy></SignedIdentifier>`;
}

// The XML of a table's policies, sometimes of a form that the service refuses.
function policies() {
  const ids = POLICIES.filter(() => chance(0.7));
  const variant = below(20);
  if (variant === 0) return "<SignedIdentifiers><SignedIdentifier>";
  if (variant === 1) ids.push("p1", "p1");
  if (variant === 2) ids.push("q1", "q2", "q3", "q4", "q5", "q6");
  const permissions = variant === 3 ? "rx" : subset("raud") || "r";
  const isComplete = variant > 4 && chance(0.6);
  const policy = (id) => {
    if (isComplete) return complete(id, permissions);
    const start = chance(0.4) ? `<Start>${pick(["2020-01-01", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.0000000Z"])}</Start>` : "";
    const expiry = variant === 4 ? "<Expiry>soon</Expiry>" : chance(0.7) ? `<Expiry>${pick(["2099-01-01", "2099-01-01T00:00:00.0000000Z", "2020-06-01T00:00:00Z"])}</Expiry>` : "";
    const permission = chance(0.8) ? `<Permission>${permissions}</Permission>` : "";
    return `<SignedIdentifier><Id>${escape(id)}</Id><AccessPolicy>${start}${expiry}${permission}</AccessPolicy></SignedIdentifier>`;
  };
  return `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>${ids.map(policy).join("")}</SignedIdentifiers>`;
}

// The XML of the properties of the service.
function serviceProperties() {
  const variant = below(20);
  const retention = () => (chance(0.5) ? "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>" : `<RetentionPolicy><Enabled>true</Enabled><Days>${variant === 0 ? 400 : 7}</Days></RetentionPolicy>`);
  const flag = () => String(chance(0.5));
  const version = variant === 1 ? "9.0" : "1.0";
  const metrics = (name) => `<${name}><Version>${version}</Version>${chance(0.5) ? `<Enabled>true</Enabled><IncludeAPIs>${flag()}</IncludeAPIs>` : "<Enabled>false</Enabled>"}${retention()}</${name}>`;
  const rule = () => `<CorsRule><AllowedOrigins>${pick(["*", "http://a.example,http://b.example"])}</AllowedOrigins><AllowedMethods>${variant === 2 ? "STEAL" : pick(["GET", "GET,PUT,MERGE"])}</AllowedMethods><AllowedHeaders>${pick(["*", "x-ms-meta-*,accept"])}</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>${below(500)}</MaxAgeInSeconds></CorsRule>`;
  const parts = [
    chance(0.4) && `<Logging><Version>${version}</Version><Delete>${flag()}</Delete><Read>${flag()}</Read><Write>${flag()}</Write>${retention()}</Logging>`,
    chance(0.4) && metrics("HourMetrics"),
    chance(0.4) && metrics("MinuteMetrics"),
    chance(0.4) && `<Cors>${Array.from({ length: variant === 3 ? 6 : below(3) }, rule).join("")}</Cors>`,
  ];
  return variant === 4 ? "<StorageServiceProperties><Cors>" : `<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties>${parts.filter(Boolean).join("")}</StorageServiceProperties>`;
}

// The operations on a table, each with its weight.
const OPERATIONS = [
  [3, (table) => ({ kind: "create table", method: "POST", path: "Tables", headers: { ...JSON_TYPE, Accept: accept(), Prefer: "return-no-content" }, body: JSON.stringify({ TableName: table }) })],
  [1, (table) => ({ kind: "delete table", method: "DELETE", path: `Tables('${table}')`, headers: { Accept: "application/json;odata=nometadata" } })],
  [4, () => ({ kind: "query tables", method: "GET", path: "Tables", query: chance(0.5) ? `?$top=${1 + below(2)}` : "", headers: { Accept: accept() }, follow: true })],
  [17, (table) => {
    const [partition, row] = [pick(PARTITIONS), pick(ROWS)];
    return { kind: "get", method: "GET", path: entityPath(table, partition, row), headers: { Accept: accept() }, keys: [[partition, row]] };
  }],
  [25, query],
  [42, (table) => {
    const [partition, row] = [pick(PARTITIONS), pick(ROWS)];
    return { ...write(table, partition, row), keys: [[partition, row]] };
  }],
  [3, (table) => ({ kind: "set policies", method: "PUT", path: table, query: "?comp=acl", headers: XML_TYPE, body: policies() })],
  [3, (table) => ({ kind: "get policies", method: "GET", path: table, query: "?comp=acl", headers: { Accept: "application/xml" } })],
  [2, () => ({ kind: "set properties", method: "PUT", path: "", query: "?restype=service&comp=properties", headers: XML_TYPE, body: serviceProperties() })],
  [2, () => ({ kind: "get properties", method: "GET", path: "", query: "?restype=service&comp=properties", headers: { Accept: "application/xml" } })],
  [1, () => ({ kind: "statistics", method: "GET", account: chance(0.8) ? `${ACCOUNT}-secondary` : ACCOUNT, path: "", query: "?restype=service&comp=stats", headers: { Accept: "application/xml" } })],
  [7, group],
];
const WEIGHTS = OPERATIONS.reduce((sum, [weight]) => sum + weight, 0);

function operation() {
  const table = pick(TABLES);
  let place = below(WEIGHTS);
  const [, make] = OPERATIONS.find(([weight]) => (place -= weight) < 0);
  const request = { credential: credential(table), table, ...make(table) };
  // The comparison of a query with a range needs the keys of the entities.
  if (request.credential.range && request.kind === "query") {
    request.query = request.query.replace(/\$select=([^&]*)/, (_, names) => `$select=${[...new Set(["PartitionKey", "RowKey", ...names.split(",")])].join(",")}`);
  }
  return request;
}

function query(table) {
  const options = [];
  if (chance(0.7)) options.push(`$filter=${encodeURIComponent(filter())}`);
  if (chance(0.3)) options.push(`$select=${["PartitionKey", "RowKey", ...NAMES].filter(() => chance(0.4)).join(",") || "Age"}`);
  if (chance(0.4)) options.push(`$top=${1 + below(5)}`);
  return { kind: "query", method: "GET", path: `${table}()`, query: options.length ? `?${options.join("&")}` : "", headers: { Accept: accept() }, follow: true };
}

// A group of one partition. Its members have no condition on an ETag, because the ETags of the servers differ.
function group(table) {
  const partition = pick(PARTITIONS);
  const rows = ROWS.filter(() => chance(0.5));
  if (rows.length === 0) rows.push(pick(ROWS));
  const members = rows.map((row) => {
    const { headers, ...member } = write(table, partition, row);
    return { ...member, headers: headers["If-Match"] instanceof Object ? { ...headers, "If-Match": "*" } : headers };
  });
  return { kind: "group", method: "POST", path: "$batch", headers: { "Content-Type": `multipart/mixed; boundary=${BATCH}` }, body: groupBody(members), keys: rows.map((row) => [partition, row]) };
}

// The body of a group. `ask` replaces PORT by the port of each server.
function groupBody(members) {
  const part = ({ method, path, headers, body = "" }) =>
    [
      `--${CHANGES}`, "Content-Type: application/http", "Content-Transfer-Encoding: binary", "",
      `${method} http://127.0.0.1:PORT/${ACCOUNT}/${path} HTTP/1.1`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), `Content-Length: ${Buffer.byteLength(body)}`, "", body,
    ].join("\r\n");
  return `--${BATCH}\r\nContent-Type: multipart/mixed; boundary=${CHANGES}\r\n\r\n${members.map(part).join("\r\n")}\r\n--${CHANGES}--\r\n--${BATCH}--\r\n`;
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

// The JSON body without the properties that `drops(name, value)` selects.
function dropProperties(body, drops) {
  const clean = (value) => {
    if (Array.isArray(value)) return value.map(clean);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).filter(([key, inner]) => !drops(key, inner)).map(([key, inner]) => [key, clean(inner)]));
  };
  return body && JSON.stringify(clean(JSON.parse(body)));
}

// The answer to a query without the entities that are outside a range.
function entitiesInRange(body, range) {
  const { value, ...members } = JSON.parse(body);
  return JSON.stringify(sorted({ ...members, value: value.filter((entity) => inRange(range, [entity.PartitionKey, entity.RowKey])) }));
}

// XML without its declaration, the space between elements, the two forms of an empty element, and the order within rules.
function xml(text) {
  const rule = (_, inner) => `<CorsRule>${inner.split(/(?<=<\/\w+>)(?=<)/).sort().join("")}</CorsRule>`;
  return text.replace(/^<\?xml.*?\?>/, "").replaceAll(/>\s+</g, "><").replaceAll(/<(\w+)\s*\/>/g, "<$1></$1>").replaceAll(/<CorsRule>(.*?)<\/CorsRule>/g, rule).replace(/(<LastSyncTime>)[^<]*/, "$1T").trim();
}

function summary(kind, answer) {
  const type = (answer.headers["content-type"] ?? "").split(";")[0];
  if (kind === "group") {
    const statuses = [...answer.body.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((found) => found[1]).join(" ");
    const code = (/"code":"([^"]*)"/.exec(answer.body) ?? /<Code>([^<]*)/.exec(answer.body))?.[1];
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
    body = code ? "" : xml(body);
  }
  return {
    status: String(answer.status),
    code,
    type,
    applied: answer.headers["preference-applied"],
    etag: answer.headers.etag === undefined ? "no ETag" : "ETag",
    pages: answer.pages,
    body,
  };
}

// The codes of refusals for a credential.
const NO_RIGHT = /^(Auth|NoAuth|InvalidAuth)/;

// Describes a difference in authorization: which server refuses which credential. Returns undefined if neither server refuses the credential.
function authorizationDifference(request, ours, theirs) {
  const [refuses, refused] = [ours, theirs].map(({ code }) => NO_RIGHT.test(code ?? ""));
  // The status of the operation of a group, or of the request.
  const coded = ({ status, code }) => `${/\((\d+)\)/.exec(status)?.[1] ?? status.slice(0, 3)} ${code.replace(/ of operation \d+/, "")}`;
  const operation = { group: "group by ", query: "query by ", "set policies": "policies by ", "get policies": "policies by " }[request.kind] ?? "";
  const named = `${request.credential.token ? operation : ""}${credentialName(request)}`;
  if (refuses && refused) return coded(ours) === coded(theirs) ? "both refuse: JSON, Azurite XML" : `both refuse ${named}: ${coded(ours)}, Azurite ${coded(theirs)}`;
  if (refuses) return `Azurite takes ${request.kind} by ${credentialName(request)}: ${ours.code.replace(/ of operation \d+/, "")}`;
  return refused ? `Azurite refuses ${request.kind} by ${credentialName(request)}: ${theirs.code.replace(/ of operation \d+/, "")}` : undefined;
}

function difference(ours, theirs) {
  for (const field of ["status", "code", "applied", "etag", "type"]) {
    if (ours[field] !== theirs[field]) return `${field}: ${ours[field]} ${ours.code ?? ""}, Azurite ${theirs[field]} ${theirs.code ?? ""}`;
  }
  if (ours.body === theirs.body) return undefined;
  if (ours.body.startsWith("<") || theirs.body.startsWith("<")) return "body";
  const names = ["odata.metadata", "odata.id", "odata.editLink", "odata.type"];
  const kinds = [
    ["body: null for a selected property that an entity has not", (key, value) => value === null],
    ["body: text of links", (key) => names.includes(key)],
    ["body: text of links, and null for a selected property", (key, value) => value === null || names.includes(key)],
    ["body: text of links, and ETag, Timestamp and their types", (key, value) => value === null || names.includes(key) || key === "odata.etag" || key.startsWith("Timestamp")],
  ];
  for (const [kind, drops] of kinds) if (dropProperties(ours.body, drops) === dropProperties(theirs.body, drops)) return kind;
  return "body";
}

const isRefused = (answer) => answer.status >= 300 || /^HTTP\/1\.1 [45]/m.test(answer.body);

// The parameters of the next page, by the names of the headers.
const NEXT = { nextpartitionkey: "NextPartitionKey", nextrowkey: "NextRowKey", nexttablename: "NextTableName" };

// Sends a request to a server. A query is followed to its last page: the answer has the items of all pages.
async function ask(server, request, date) {
  const headers = { ...request.headers };
  if (headers["If-Match"]?.of) headers["If-Match"] = etags.get(`${server}/${headers["If-Match"].of}`) ?? 'W/"none"';
  const body = request.kind === "group" ? request.body.replaceAll(":PORT/", `:${PORTS[server]}/`) : request.body;
  const answer = await send(server, { ...request, headers, body }, date);
  if (request.name && answer.headers.etag) etags.set(`${server}/${request.name}`, answer.headers.etag);
  if (!request.follow || answer.status !== 200) return answer;
  const value = JSON.parse(answer.body);
  let [page, pages] = [answer, 1];
  for (;;) {
    const next = Object.entries(page.headers).filter(([name]) => name.startsWith("x-ms-continuation-next"));
    if (next.length === 0) break;
    const parameters = next.map(([name, text]) => `${NEXT[name.slice("x-ms-continuation-".length)]}=${encodeURIComponent(text)}`).join("&");
    page = await send(server, { ...request, query: `${request.query}${request.query ? "&" : "?"}${parameters}`, headers }, date);
    pages += 1;
    if (page.status !== 200 || pages > 100) return { ...page, pages };
    value.value.push(...JSON.parse(page.body).value);
  }
  return { ...answer, body: JSON.stringify(value), pages, isLastEmpty: JSON.parse(page.body).value.length === 0 };
}

const OFF = "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
const DEFAULTS = `<StorageServiceProperties><Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics>${OFF}</HourMetrics><MinuteMetrics>${OFF}</MinuteMetrics><Cors></Cors></StorageServiceProperties>`;

// Brings the servers to the same state after only one of them has executed a write.
async function repair({ kind, table, keys }) {
  const json = { ...JSON_TYPE, "If-Match": "*" };
  const steps = (keys ?? []).map(([partition, row]) => ({ method: "DELETE", path: entityPath(table, partition, row), headers: json }));
  if (kind.endsWith(" table")) steps.push({ method: "DELETE", path: `Tables('${table}')`, headers: json }, { method: "POST", path: "Tables", headers: JSON_TYPE, body: JSON.stringify({ TableName: table }) });
  if (kind === "set policies") steps.push({ method: "PUT", path: table, query: "?comp=acl", headers: XML_TYPE, body: `<SignedIdentifiers>${POLICIES.map((id, n) => complete(id, ["r", "raud", "au"][n])).join("")}</SignedIdentifiers>` });
  if (kind === "set properties") steps.push({ method: "PUT", path: "", query: "?restype=service&comp=properties", headers: XML_TYPE, body: DEFAULTS });
  for (const step of steps) for (const server of Object.keys(PORTS)) await send(server, step);
}

const listens = (port) => new Promise((resolve) => {
  const socket = connect(port, "127.0.0.1", () => { socket.end(); resolve(true); });
  socket.on("error", () => resolve(false));
});

// A port on which no program listens.
async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

async function startAzurite() {
  const port = await freePort();
  const server = spawn("node", [azurite, "--tablePort", String(port), "--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck"], { stdio: ["ignore", "ignore", "inherit"] });
  while (!(await listens(port))) {
    if (server.exitCode !== null) throw new Error(`Azurite ended with ${server.exitCode} before it listened`);
    await pause(100);
  }
  return { server, port };
}

const found = new Map();
// For each operation and credential: the requests that both servers accepted, and all requests.
const accepted = new Map();

function addAccepted(request, answers) {
  for (const name of [request.kind, request.credential.name]) {
    const [both, all] = accepted.get(name) ?? [0, 0];
    accepted.set(name, [both + Number(!answers.some(isRefused)), all + 1]);
  }
}

function addDifference(kind, request, answers) {
  const entry = found.get(kind) ?? { count: 0, request, answers };
  entry.count += 1;
  found.set(kind, entry);
}

// The kind of a difference: the operation, what its answer depends on, and the reason.
function describe(request, reason) {
  const accepts = request.kind === "query" ? ` ${request.headers.Accept.split("=")[1]}` : "";
  const within = request.credential.range && !/^(applied|type)/.test(reason) ? ` by ${credentialName(request)}` : "";
  return `${request.kind}${accepts}${within}: ${reason}`;
}

// Sends one random operation to both servers.
async function compareOnce() {
  const request = operation();
  const date = new Date().toUTCString();
  const answers = await Promise.all(Object.keys(PORTS).map((server) => ask(server, request, date)));
  const [ours, theirs] = answers.map((answer) => summary(request.kind, answer));
  addAccepted(request, answers);
  // Azurite does not enforce ranges: the entities inside must be equal.
  const everything = theirs.body;
  if (request.kind === "query" && request.credential.range && ours.status === "200" && theirs.status === "200") theirs.body = entitiesInRange(theirs.body, request.credential.range);
  const isOutside = theirs.body !== everything;
  const authorization = authorizationDifference(request, ours, theirs);
  const add = (reason) => addDifference(authorization ?? describe(request, reason), request, answers);
  const reason = difference(ours, theirs);
  if (reason !== undefined) add(reason);
  if (isOutside) add("entities outside the range, Azurite returns them");
  if (ours.pages !== theirs.pages && ours.status === theirs.status && !isOutside) {
    const isEmpty = answers[0].isLastEmpty && ours.pages === theirs.pages + 1;
    add(isEmpty ? "pages: one more, which is empty" : `pages: ${ours.pages}, Azurite ${theirs.pages}`);
  }
  // Only one server applied the write: delete the entities on both, so that one difference does not cause others.
  if (request.method !== "GET" && isRefused(answers[0]) !== isRefused(answers[1])) await repair(request);
}

const processes = [];
try {
  const ours = await serveMemory(tables);
  processes.push(ours.server);
  const theirs = await startAzurite();
  processes.push(theirs.server);
  Object.assign(PORTS, { ours: ours.port, azurite: theirs.port });
  // Azurite's logs are on in a new account.
  await repair({ kind: "set properties" });
  for (const table of TABLES) {
    for (const server of Object.keys(PORTS)) await send(server, { method: "POST", path: "Tables", headers: JSON_TYPE, body: JSON.stringify({ TableName: table }) });
  }
  for (let n = 0; n < Number(count); n += 1) await compareOnce();
} finally {
  processes.forEach((server) => server.kill());
  agent.destroy();
}
for (const [name, [both, all]] of accepted) console.log(`${name}: both servers accepted ${both} of ${all}`);
// If both servers refuse every request of a kind, the run compares refusals only.
const idle = [...accepted].filter(([name, [both, all]]) => both === 0 && all >= 100 && !isRefusedCredential(name));
for (const [name] of idle) console.log(`FAILED: both servers never accepted: ${name}`);
const never = new Set(KNOWN);
let unknown = 0;
for (const [kind, { count: times, request, answers }] of [...found].sort((a, b) => b[1].count - a[1].count)) {
  const explanations = KNOWN.filter((known) => known.test(kind));
  explanations.forEach((known) => never.delete(known));
  console.log(`${explanations.length ? "known" : "UNKNOWN"}: ${times} times: ${kind}`);
  if (explanations.length) continue;
  unknown += 1;
  console.log(`  ${request.method} ${decodeURIComponent(request.path)}${decodeURIComponent(request.query ?? "")} ${JSON.stringify(request.headers)} ${JSON.stringify(request.credential)} ${request.body ?? ""}`);
  answers.forEach((answer, n) => console.log(`  ${n ? "Azurite" : "ours"}: ${answer.status} ${answer.body.slice(0, 1500)}`));
}
if (Number(count) >= 100_000) for (const known of never) console.log(`never found: ${known}`);
console.log(`${count} operations with seed ${seed}, ${[...found.values()].reduce((sum, entry) => sum + entry.count, 0)} differences of ${found.size} kinds, ${unknown} unknown`);
process.exitCode = unknown || idle.length ? 1 : 0;
