// Runs operations of a Node program on this library's server. Prints `[{"check", "problem"}]`.
//
// The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_CONNECTION, INTEROP_ENDPOINT, INTEROP_ACCOUNT, INTEROP_KEY and
// INTEROP_NODE_CLIENT, the folder of the installed client.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { refused, runChecks, uniqueName } from "./shared.mjs";

// The client is installed below target/, not in the folder of this file.
const require = createRequire(join(process.env.INTEROP_NODE_CLIENT, "package.json"));
const { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, TableTransaction, generateTableSas, odata } =
  require("@azure/data-tables");

const { INTEROP_CONNECTION, INTEROP_ENDPOINT, INTEROP_ACCOUNT, INTEROP_KEY } = process.env;
const KEY = new AzureNamedKeyCredential(INTEROP_ACCOUNT, INTEROP_KEY);
const OPTIONS = { allowInsecureConnection: true };
const service = TableServiceClient.fromConnectionString(INTEROP_CONNECTION, OPTIONS);

const name = () => uniqueName("Node");
const entity = (rowKey, more) => ({ partitionKey: "p", rowKey: String(rowKey), ...more });

async function created() {
  const table = TableClient.fromConnectionString(INTEROP_CONNECTION, name(), OPTIONS);
  await table.createTable();
  return table;
}

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

const withSas = (table, token) => new TableClient(INTEROP_ENDPOINT, table.tableName, new AzureSASCredential(token), OPTIONS);
const inOneHour = () => new Date(Date.now() + 3_600_000);

const CHECKS = {
  async tables() {
    const names = [name(), name(), name()].sort();
    for (const each of names) await service.createTable(each);
    const listed = (await all(service.listTables())).map((table) => table.name);
    assert.deepEqual(names.filter((each) => !listed.includes(each)), []);
    const found = await all(service.listTables({ queryOptions: { filter: odata`TableName eq ${names[1]}` } }));
    assert.deepEqual(found.map((table) => table.name), [names[1]]);
    const pages = await all(service.listTables().byPage({ maxPageSize: 2 }));
    assert.ok(pages.length > 1, `${pages.length} pages of 2 tables for ${listed.length} tables`);
    for (const each of names) await service.deleteTable(each);
    const left = (await all(service.listTables())).map((table) => table.name);
    assert.deepEqual(names.filter((each) => left.includes(each)), []);
  },

  async entities() {
    const table = await created();
    const { etag } = await table.createEntity(entity(1, { age: 41, name: "Ken" }));
    await refused(table.createEntity(entity(1)), 409, "EntityAlreadyExists");
    const read = await table.getEntity("p", "1");
    assert.equal(read.age, 41);
    assert.equal(read.name, "Ken");
    assert.equal(read.etag, etag);
    assert.ok(read.timestamp, "no timestamp");
    await table.updateEntity(entity(1, { age: 42 }), "Merge");
    const merged = await table.getEntity("p", "1");
    assert.equal(merged.age, 42);
    assert.equal(merged.name, "Ken");
    await refused(table.updateEntity(entity(1), "Replace", { etag }), 412, "UpdateConditionNotSatisfied");
    await table.upsertEntity(entity(1, { age: 43 }), "Replace");
    const replaced = await table.getEntity("p", "1");
    assert.equal(replaced.age, 43);
    assert.equal(replaced.name, undefined);
    await refused(table.deleteEntity("p", "1", { etag }), 412, "UpdateConditionNotSatisfied");
    await table.deleteEntity("p", "1");
    await refused(table.getEntity("p", "1"), 404, "ResourceNotFound");
  },

  async queries() {
    const table = await created();
    const rows = Array.from({ length: 100 }, (_, n) => entity(String(n).padStart(3, "0"), { n, odd: n % 2 === 1 }));
    await table.submitTransaction(rows.map((row) => ["create", row]));
    const filter = odata`n ge ${90} and odd eq ${true}`;
    const found = await all(table.listEntities({ queryOptions: { filter, select: ["n"] } }));
    assert.deepEqual(found.map((each) => each.n), [91, 93, 95, 97, 99]);
    const pages = await all(table.listEntities().byPage({ maxPageSize: 30 }));
    assert.deepEqual(pages.map((page) => page.length), [30, 30, 30, 10]);
    const token = pages[0].continuationToken;
    const rest = await all(table.listEntities().byPage({ maxPageSize: 30, continuationToken: token }));
    assert.deepEqual(rest.map((page) => page.length), [30, 30, 10]);
    await refused(all(table.listEntities({ queryOptions: { filter: "n ge" } })), 400, "InvalidInput");
  },

  async transactions() {
    const table = await created();
    await table.createEntity(entity("old", { a: 1 }));
    const transaction = new TableTransaction();
    transaction.createEntity(entity("new"));
    transaction.updateEntity(entity("old", { b: 2 }), "Merge");
    transaction.upsertEntity(entity("more", { b: 2 }), "Replace");
    const answer = await table.submitTransaction(transaction.actions);
    assert.deepEqual(answer.subResponses.map((each) => each.status), [204, 204, 204]);
    assert.ok(answer.subResponses.every((each) => each.etag), "an answer without an ETag");
    const old = await table.getEntity("p", "old");
    assert.equal(old.a, 1);
    assert.equal(old.b, 2);
    assert.equal(answer.getResponseForEntity("new").etag, (await table.getEntity("p", "new")).etag);
    const both = [["create", entity("x")], ["create", entity("old")]];
    await refused(table.submitTransaction(both), 409, "EntityAlreadyExists");
    await refused(table.submitTransaction([["upsert", entity("x")], ["upsert", entity("x")]]), 400, "InvalidDuplicateRow");
    await refused(table.getEntity("p", "x"), 404, "ResourceNotFound");
    await table.submitTransaction([["delete", entity("new")]]);
    await refused(table.getEntity("p", "new"), 404, "ResourceNotFound");
  },

  async policies() {
    const table = await created();
    await table.createEntity(entity(1));
    const accessPolicy = { expiry: inOneHour(), start: new Date(Date.now() - 3_600_000), permission: "r" };
    await table.setAccessPolicy([{ id: "readers", accessPolicy }]);
    const [policy] = await table.getAccessPolicy();
    assert.equal(policy.id, "readers");
    assert.equal(policy.accessPolicy.permission, "r");
    const reader = withSas(table, generateTableSas(table.tableName, KEY, { identifier: "readers" }));
    assert.equal((await reader.getEntity("p", "1")).rowKey, "1");
    await refused(reader.createEntity(entity(2)), 403);
    await table.setAccessPolicy([]);
    await refused(reader.getEntity("p", "1"), 403);
  },

  async ranges() {
    const table = await created();
    for (const row of "abc") await table.createEntity(entity(row));
    const keys = { startPartitionKey: "p", startRowKey: "b", endPartitionKey: "p", endRowKey: "b" };
    const permissions = { query: true, delete: true };
    const token = generateTableSas(table.tableName, KEY, { permissions, expiresOn: inOneHour(), ...keys });
    const inRange = withSas(table, token);
    assert.deepEqual((await all(inRange.listEntities())).map((each) => each.rowKey), ["b"]);
    await refused(inRange.getEntity("p", "a"), 404);
    await refused(inRange.deleteEntity("p", "a"), 403);
    await inRange.deleteEntity("p", "b");
    assert.deepEqual((await all(table.listEntities())).map((each) => each.rowKey), ["a", "c"]);
  },

  async serviceProperties() {
    const rule = { allowedOrigins: "https://a.example", allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 5 };
    await service.setProperties({ cors: [rule] });
    assert.deepEqual((await service.getProperties()).cors, [rule]);
    const secondary = new TableServiceClient(`${INTEROP_ENDPOINT}-secondary`, KEY, OPTIONS);
    assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
  },

  async wrongAccountKey() {
    const wrong = new AzureNamedKeyCredential(INTEROP_ACCOUNT, "d3Jvbmc=");
    await refused(all(new TableServiceClient(INTEROP_ENDPOINT, wrong, OPTIONS).listTables()), 403, "AuthenticationFailed");
  },
};

await runChecks(CHECKS);
