// Runs one command of the interoperability suite with the Node client.
//
// The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_ENDPOINT, INTEROP_ACCOUNT, INTEROP_KEY, INTEROP_SAMPLE, the path of
// the sample, and INTEROP_NODE_CLIENT, the folder of the installed client. `read`, `write`, `read_orders` and `use` print `[{"check", "problem"}]`,
// `update` the new ETag, `sign` the three signatures, and `write_orders` null.
//
// client.mjs read TABLE | write TABLE | write_orders TABLE | read_orders TABLE | update TABLE PARTITION ROW ETAG
//          | use TABLE TOKEN RANGE_TOKEN ACCOUNT_TOKEN | sign TABLE FIRST_PARTITION LAST_PARTITION

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect, isDeepStrictEqual } from "node:util";

// The client is installed below target/, not in the folder of this file.
const require = createRequire(join(process.env.INTEROP_NODE_CLIENT, "package.json"));
const tables = require("@azure/data-tables");
const { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, odata } = tables;

const ENDPOINT = process.env.INTEROP_ENDPOINT;
const KEY = new AzureNamedKeyCredential(process.env.INTEROP_ACCOUNT, process.env.INTEROP_KEY);
const SAMPLE = JSON.parse(readFileSync(process.env.INTEROP_SAMPLE, "utf8"));
const OPTIONS = { allowInsecureConnection: true };
const TYPES = "types";

// The native value that a program passes to the client for each EDM type. The client infers the type of plain values; others are wrapped.
const toNative = {
  "Edm.Binary": (text) => new Uint8Array(Buffer.from(text, "base64")),
  "Edm.Boolean": (value) => value,
  "Edm.DateTime": (value) => ({ type: "DateTime", value }),
  "Edm.Double": (value) => ({ type: "Double", value }),
  "Edm.Guid": (value) => ({ type: "Guid", value }),
  "Edm.Int32": (value) => value,
  "Edm.Int64": (text) => BigInt(text),
  "Edm.String": (value) => value,
};

function toNativeEntity(entity) {
  const values = Object.entries(entity.properties).map(([name, [type, value]]) => [name, toNative[type](value)]);
  return { ...keysOnly(entity), ...Object.fromEntries(values) };
}

const keysOnly = (entity) => ({ partitionKey: entity.partition, rowKey: entity.row });

const finite = (value) => (["NaN", "Infinity", "-Infinity"].includes(value) ? value : Number(value));

// A time with seven decimals, as the service writes it.
function withSevenDecimals(text) {
  const [seconds, decimals = ""] = text.replace(/Z$/, "").split(".");
  return `${seconds}.${decimals.padEnd(7, "0")}Z`;
}

// The values that the client read without conversions, in the form of the sample.
const toSample = {
  Binary: (value) => value,
  Boolean: (value) => String(value) === "true",
  DateTime: withSevenDecimals,
  Double: finite,
  Guid: (value) => value,
  Int32: Number,
  Int64: (value) => value,
  String: (value) => value,
};

const toSampleValue = ({ type, value }) => [`Edm.${type}`, toSample[type](value)];

// The client reads a whole Double as an Int32: JSON does not contain its type, and JavaScript has one number type.
const asRead = ([type, value]) => [type === "Edm.Double" && Number.isSafeInteger(value) ? "Edm.Int32" : type, value];

// An error of the service with its code, or another error.
const describe = (error) => (error.code ? `${error.code}: ${error.message}` : String(error)).replaceAll(/\s+/g, " ").slice(0, 200);

const SYSTEM = ["odata.metadata", "etag", "partitionKey", "rowKey", "timestamp"];

function differences(expected, found) {
  if (found.partitionKey !== expected.partition || found.rowKey !== expected.row) {
    return [`${JSON.stringify([found.partitionKey, found.rowKey])} is another entity`];
  }
  const names = Object.keys(found).filter((name) => !SYSTEM.includes(name));
  const all = [...new Set([...names, ...Object.keys(expected.properties)])].sort();
  return all.flatMap((name) => {
    const wanted = expected.properties[name] && JSON.stringify(asRead(expected.properties[name]));
    const got = found[name] === undefined ? undefined : JSON.stringify(toSampleValue(found[name]));
    return wanted === got ? [] : [`${name}: ${wanted} found as ${got}`.slice(0, 200)];
  });
}

async function problemsOf(expected, read) {
  try {
    return differences(expected, await read());
  } catch (error) {
    return [`${JSON.stringify(keysOnly(expected))}: ${describe(error)}`];
  }
}

const check = (name, problems) => ({ check: name, problem: problems.join("; ") || null });

const isSingle = (entity) => entity.partition === TYPES || entity.partition === entity.row;

async function each(entities, job) {
  const problems = [];
  for (const entity of entities) problems.push(...(await job(entity)));
  return problems;
}

const get = (table, { partition, row }) => table.getEntity(partition, row, { disableTypeConversion: true });

async function byFilter(table, { partition, row }) {
  const filter = odata`PartitionKey eq ${partition} and RowKey eq ${row}`;
  const entities = table.listEntities({ queryOptions: { filter }, disableTypeConversion: true });
  for await (const found of entities) return found;
  return { partitionKey: "nothing", rowKey: "found" };
}

const text = (partition, row) => JSON.stringify([partition, row]);

async function checkWholeTable(table) {
  const found = new Map();
  for await (const page of table.listEntities({ disableTypeConversion: true }).byPage({ maxPageSize: 100 })) {
    for (const entity of page) found.set(text(entity.partitionKey, entity.rowKey), entity);
  }
  const expected = new Map(SAMPLE.map((entity) => [text(entity.partition, entity.row), entity]));
  const more = [...found.keys()].filter((key) => !expected.has(key)).map((key) => `${key} is unexpected`);
  const missing = [...expected.keys()].filter((key) => !found.has(key)).map((key) => `${key} is missing`);
  const both = [...expected.keys()].filter((key) => found.has(key));
  return [...more, ...missing, ...both.flatMap((key) => differences(expected.get(key), found.get(key)))];
}

async function read(table) {
  const types = SAMPLE.filter((entity) => entity.partition === TYPES);
  const keys = SAMPLE.filter((entity) => entity.partition !== TYPES && isSingle(entity));
  const point = (entity) => problemsOf(entity, () => get(table, entity));
  const checks = [];
  for (const entity of types) checks.push(check(entity.row, await point(entity)));
  checks.push(check("point reads", await each(keys, point)));
  checks.push(check("filters", await each(keys, (entity) => problemsOf(entity, () => byFilter(table, entity)))));
  checks.push(check("whole table", await checkWholeTable(table).catch((error) => [describe(error)])));
  return checks;
}

async function writeOne(table, number, entity) {
  switch (number % 4) {
    case 0:
      return table.createEntity(toNativeEntity(entity));
    case 1:
      return table.upsertEntity(toNativeEntity(entity), "Replace");
    default: {
      const { etag } = await table.createEntity(keysOnly(entity));
      return table.updateEntity(toNativeEntity(entity), number % 4 === 2 ? "Merge" : "Replace", { etag });
    }
  }
}

async function writeGroup(table, partition, entities) {
  const gone = { partitionKey: partition, rowKey: "gone" };
  await table.submitTransaction([...entities.map(keysOnly), gone].map((entity) => ["create", entity]));
  const ways = [["upsert", "Merge"], ["upsert", "Replace"], ["update", "Merge"], ["update", "Replace"]];
  const change = (entity, n) => [ways[n % 4][0], toNativeEntity(entity), ways[n % 4][1]];
  await table.submitTransaction([...entities.map(change), ["delete", gone]]);
}

async function attempt(which, job) {
  try {
    await job();
    return [];
  } catch (error) {
    return [`${JSON.stringify(which)}: ${describe(error)}`];
  }
}

async function write(table) {
  await table.createTable();
  const singles = SAMPLE.filter(isSingle);
  const single = ([n, entity]) => attempt(keysOnly(entity), () => writeOne(table, n, entity));
  const others = SAMPLE.filter((entity) => !isSingle(entity));
  const partitions = [...new Set(others.map((entity) => entity.partition))];
  const inside = (partition) => others.filter((entity) => entity.partition === partition);
  const group = (partition) => attempt(partition, () => writeGroup(table, partition, inside(partition)));
  return [
    check("single operations", await each(singles.entries(), single)),
    check("group transactions", await each(partitions, group)),
  ];
}

// The values of the orders (`tests/examples/interop/orders.rs`) that this client writes and reads alike.
const ORDER = {
  Price: 120,
  Status: "Open",
  Priority: 2,
  Placed: new Date("2024-05-01T12:00:00Z"),
  Customer: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
  Tags: '["new"]',
};
const CLOSED = { ...ORDER, Price: 0.5, Priority: 9, Paid: true, Picture: new Uint8Array([1, 2]) };

const orderKey = (n) => String(n).padStart(10, "0");

// Writes rows from native values; the client infers the EDM types. The second row has former names of a property and of a value.
async function writeOrders(table) {
  await table.createTable();
  const create = (n, Count, values) => table.createEntity({ partitionKey: "all", rowKey: orderKey(n), Count, ...values });
  await create(1, 3, ORDER);
  const { Status, ...closed } = CLOSED;
  await create(2, 5000000000n, { ...closed, State: "closed" });
  await create(3, 3n, { ...ORDER, Status: "Reopened" });
}

// Reads the rows of the typed program as native values.
async function readOrders(table) {
  const order = { ...ORDER, Count: 3n, Paid: false };
  const closed = { ...order, ...CLOSED, Count: 5000000000n, Status: "Closed" };
  const wanted = [order, closed, { ...order, Status: "Reopened" }];
  const problems = async (rowKey, values) => {
    const found = await table.getEntity("all", rowKey);
    const names = Object.keys(found).filter((name) => !SYSTEM.includes(name));
    const all = [...new Set([...names, ...Object.keys(values)])].sort();
    // The client returns bytes in a subclass of `Uint8Array`.
    const plain = (value) => (value instanceof Uint8Array ? Uint8Array.from(value) : value);
    const differing = all.filter((name) => !isDeepStrictEqual(plain(found[name]), values[name]));
    return differing.map((name) => `${name}: ${inspect(values[name])} found as ${inspect(found[name])}`);
  };
  const checks = [];
  for (const [n, values] of wanted.entries()) {
    checks.push(check(`order ${n + 1}`, await problems(orderKey(n + 1), values).catch((error) => [describe(error)])));
  }
  return checks;
}

// Writes under the ETag that the other client received and returns the new ETag. Fails if the old ETag is still accepted.
async function update(table, partitionKey, rowKey, etag) {
  const change = { partitionKey, rowKey, Writer: "Node" };
  const written = await table.updateEntity(change, "Replace", { etag });
  const again = await table.updateEntity(change, "Replace", { etag }).catch((error) => error);
  if (again.statusCode !== 412) throw new Error("a write under the old ETag was not refused");
  return written.etag;
}

const expected = () => SAMPLE.find((entity) => entity.partition === "it's" && entity.row === "it's");

const mayRead = (table) => problemsOf(expected(), () => get(table, expected()));

async function mayNotWrite(table) {
  const answer = await table.createEntity({ partitionKey: "a", rowKey: "guest" }).catch((error) => error);
  return answer.statusCode === 403 ? [] : [`was not refused with 403: ${answer instanceof Error ? describe(answer) : JSON.stringify(answer)}`];
}

async function lists(token, name) {
  const service = new TableServiceClient(ENDPOINT, new AzureSASCredential(token), OPTIONS);
  try {
    for await (const table of service.listTables()) if (table.name === name) return [];
    return ["not listed"];
  } catch (error) {
    return [describe(error)];
  }
}

async function use(table, tableToken, rangeToken, accountToken) {
  const withSas = (token) => new TableClient(ENDPOINT, table.tableName, new AzureSASCredential(token), OPTIONS);
  return [
    check("table SAS: a read is allowed", await mayRead(withSas(tableToken))),
    check("table SAS: a write is refused", await mayNotWrite(withSas(tableToken))),
    check("range SAS: a read is allowed", await mayRead(withSas(rangeToken))),
    check("account SAS: a list is allowed", await lists(accountToken, table.tableName)),
    check("account SAS: a write is refused", await mayNotWrite(withSas(accountToken))),
  ];
}

function sign(table, startPartitionKey, endPartitionKey) {
  const range = { startPartitionKey, endPartitionKey };
  return {
    table: tables.generateTableSas(table.tableName, KEY),
    range: tables.generateTableSas(table.tableName, KEY, range),
    account: tables.generateAccountSas(KEY),
  };
}

const commands = { read, write, write_orders: writeOrders, read_orders: readOrders, update, use, sign };
const [command, name, ...rest] = process.argv.slice(2);
const answer = await commands[command](new TableClient(ENDPOINT, name, KEY, OPTIONS), ...rest);
process.stdout.write(JSON.stringify(answer ?? null));
