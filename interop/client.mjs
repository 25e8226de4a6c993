// The Node client's half of the interoperability suite. Prints what came of it as JSON.
//
// client.mjs read TABLE | write TABLE | orders TABLE | read_orders TABLE | update TABLE PARTITION ROW ETAG
//          | use TABLE TOKEN RANGE_TOKEN ACCOUNT_TOKEN | sign TABLE FIRST_PARTITION LAST_PARTITION

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect, isDeepStrictEqual } from "node:util";

// The client is installed below target/, not beside this file.
const require = createRequire(join(process.env.INTEROP_NODE_CLIENT, "package.json"));
const tables = require("@azure/data-tables");
const { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, odata } = tables;

const ENDPOINT = process.env.INTEROP_ENDPOINT;
const KEY = new AzureNamedKeyCredential(process.env.INTEROP_ACCOUNT, process.env.INTEROP_KEY);
const SAMPLE = JSON.parse(readFileSync(process.env.INTEROP_SAMPLE, "utf8"));
const OPTIONS = { allowInsecureConnection: true };
const TYPES = "types";

// What a program gives the client for each type; it finds out the type itself where it can.
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

function native(entity) {
  const values = Object.entries(entity.properties).map(([name, [type, value]]) => [name, toNative[type](value)]);
  return { ...empty(entity), ...Object.fromEntries(values) };
}

const empty = (entity) => ({ partitionKey: entity.partition, rowKey: entity.row });

const finite = (value) => (["NaN", "Infinity", "-Infinity"].includes(value) ? value : Number(value));

// A moment with seven decimals, as the service writes it.
function ticks(text) {
  const [seconds, decimals = ""] = text.replace(/Z$/, "").split(".");
  return `${seconds}.${decimals.padEnd(7, "0")}Z`;
}

// The type and value that the client found without conversions, as the sample has them.
const toNeutral = {
  Binary: (value) => value,
  Boolean: (value) => String(value) === "true",
  DateTime: ticks,
  Double: finite,
  Guid: (value) => value,
  Int32: Number,
  Int64: (value) => value,
  String: (value) => value,
};

const neutral = ({ type, value }) => [`Edm.${type}`, toNeutral[type](value)];

// The client calls a whole Double an Int32: JSON does not give its type, and JavaScript has one kind of number.
const asSeen = ([type, value]) => [type === "Edm.Double" && Number.isSafeInteger(value) ? "Edm.Int32" : type, value];

const SYSTEM = ["odata.metadata", "etag", "partitionKey", "rowKey", "timestamp"];

function differences(expected, found) {
  if (found.partitionKey !== expected.partition || found.rowKey !== expected.row) {
    return [`${JSON.stringify([found.partitionKey, found.rowKey])} is another entity`];
  }
  const names = Object.keys(found).filter((name) => !SYSTEM.includes(name));
  const all = [...new Set([...names, ...Object.keys(expected.properties)])].sort();
  return all.flatMap((name) => {
    const wanted = expected.properties[name] && JSON.stringify(asSeen(expected.properties[name]));
    const got = found[name] === undefined ? undefined : JSON.stringify(neutral(found[name]));
    return wanted === got ? [] : [`${name}: ${wanted} found as ${got}`.slice(0, 200)];
  });
}

async function problemsOf(expected, read) {
  try {
    return differences(expected, await read());
  } catch (error) {
    return [`${JSON.stringify(empty(expected))}: ${error.code ?? error}`.slice(0, 200)];
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

async function whole(table) {
  const found = new Map();
  for await (const page of table.listEntities({ disableTypeConversion: true }).byPage({ maxPageSize: 100 })) {
    for (const entity of page) found.set(text(entity.partitionKey, entity.rowKey), entity);
  }
  const expected = new Map(SAMPLE.map((entity) => [text(entity.partition, entity.row), entity]));
  const more = [...found.keys()].filter((key) => !expected.has(key)).map((key) => `${key} is too much`);
  const missing = [...expected.keys()].filter((key) => !found.has(key)).map((key) => `${key} is missing`);
  const both = [...expected.keys()].filter((key) => found.has(key) && expected.get(key).partition !== TYPES);
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
  checks.push(check("whole table", await whole(table)));
  return checks;
}

async function writeOne(table, number, entity) {
  switch (number % 4) {
    case 0:
      return table.createEntity(native(entity));
    case 1:
      return table.upsertEntity(native(entity), "Replace");
    default: {
      const { etag } = await table.createEntity(empty(entity));
      return table.updateEntity(native(entity), number % 4 === 2 ? "Merge" : "Replace", { etag });
    }
  }
}

async function writeGroup(table, partition, entities) {
  const gone = { partitionKey: partition, rowKey: "gone" };
  await table.submitTransaction([...entities.map(empty), gone].map((entity) => ["create", entity]));
  const ways = [["upsert", "Merge"], ["upsert", "Replace"], ["update", "Merge"], ["update", "Replace"]];
  const change = (entity, n) => [ways[n % 4][0], native(entity), ways[n % 4][1]];
  await table.submitTransaction([...entities.map(change), ["delete", gone]]);
}

async function attempt(which, job) {
  try {
    await job();
    return [];
  } catch (error) {
    return [`${JSON.stringify(which)}: ${error.code ?? error}`.slice(0, 200)];
  }
}

async function write(table) {
  await table.createTable();
  const singles = SAMPLE.filter(isSingle);
  const single = (entity) => attempt(empty(entity), () => writeOne(table, singles.indexOf(entity), entity));
  const others = SAMPLE.filter((entity) => !isSingle(entity));
  const partitions = [...new Set(others.map((entity) => entity.partition))];
  const inside = (partition) => others.filter((entity) => entity.partition === partition);
  const group = (partition) => attempt(partition, () => writeGroup(table, partition, inside(partition)));
  return [
    check("single operations", await each(singles, single)),
    check("group transactions", await each(partitions, group)),
  ];
}

// Rows as a program writes them by its own types; the client finds out the types of the service.
async function orders(table) {
  await table.createTable();
  const order = {
    partitionKey: "all",
    Price: 120,
    Status: "Open",
    Priority: 2,
    Placed: new Date("2024-05-01T12:00:00Z"),
    Customer: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    Tags: JSON.stringify(["new"]),
  };
  await table.createEntity({ ...order, rowKey: "0000000001", Count: 3 });
  const { Status, ...closed } = { ...order, State: "closed", Priority: 9, Paid: true, Price: 0.5 };
  const picture = new Uint8Array([1, 2]);
  await table.createEntity({ ...closed, rowKey: "0000000002", Count: 5000000000n, Picture: picture });
  await table.createEntity({ ...order, rowKey: "0000000003", Count: 3n, Status: "Reopened" });
  return [];
}

// Rows of a typed program, as values of this language: the opposite of `orders`.
async function readOrders(table) {
  const order = {
    Count: 3n,
    Price: 120,
    Status: "Open",
    Priority: 2,
    Placed: new Date("2024-05-01T12:00:00Z"),
    Customer: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    Paid: false,
    Tags: '["new"]',
  };
  const closed = { ...order, Count: 5000000000n, Price: 0.5, Status: "Closed", Priority: 9, Paid: true };
  const wanted = [order, { ...closed, Picture: new Uint8Array([1, 2]) }, { ...order, Status: "Reopened" }];
  const problems = async (rowKey, values) => {
    const found = await table.getEntity("all", rowKey);
    const names = Object.keys(found).filter((name) => !SYSTEM.includes(name));
    const all = [...new Set([...names, ...Object.keys(values)])].sort();
    // Bytes may come in a type of Node that extends this language's.
    const plain = (value) => (value instanceof Uint8Array ? Uint8Array.from(value) : value);
    const differing = all.filter((name) => !isDeepStrictEqual(plain(found[name]), values[name]));
    return differing.map((name) => `${name}: ${inspect(values[name])} found as ${inspect(found[name])}`);
  };
  const checks = [];
  for (const [n, values] of wanted.entries()) {
    checks.push(check(`order ${n + 1}`, await problems(String(n + 1).padStart(10, "0"), values)));
  }
  return checks;
}

// Writes by a version of another client's and returns the new one.
async function update(table, partitionKey, rowKey, etag) {
  const change = { partitionKey, rowKey, Writer: "Node" };
  const written = await table.updateEntity(change, "Replace", { etag });
  const again = await table.updateEntity(change, "Replace", { etag }).catch((error) => error);
  if (again.statusCode !== 412) throw new Error("the old version still holds");
  return written.etag;
}

const expected = () => SAMPLE.find((entity) => entity.partition === "it's" && entity.row === "it's");

const mayRead = (table) => problemsOf(expected(), () => get(table, expected()));

async function mayNotWrite(table) {
  const answer = await table.createEntity({ partitionKey: "a", rowKey: "guest" }).catch((error) => error);
  return answer.statusCode === 403 ? [] : [`was not refused: ${answer.code ?? answer}`];
}

async function lists(token, name) {
  const service = new TableServiceClient(ENDPOINT, new AzureSASCredential(token), OPTIONS);
  try {
    for await (const table of service.listTables()) if (table.name === name) return [];
    return ["not listed"];
  } catch (error) {
    return [String(error.code ?? error)];
  }
}

async function use(table, tableToken, rangeToken, accountToken) {
  const guest = (token) => new TableClient(ENDPOINT, table.tableName, new AzureSASCredential(token), OPTIONS);
  return [
    check("a table's allows to read", await mayRead(guest(tableToken))),
    check("a table's does not allow to write", await mayNotWrite(guest(tableToken))),
    check("a range's allows to read", await mayRead(guest(rangeToken))),
    check("an account's allows to list", await lists(accountToken, table.tableName)),
    check("an account's does not allow to write", await mayNotWrite(guest(accountToken))),
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

const commands = { read, write, orders, read_orders: readOrders, update, use, sign };
const [command, name, ...rest] = process.argv.slice(2);
const answer = await commands[command](new TableClient(ENDPOINT, name, KEY, OPTIONS), ...rest);
process.stdout.write(JSON.stringify(answer));
