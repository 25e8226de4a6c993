// Runs operations of a Node program with the retired client `azure-storage` on this library's server. Prints `[{"check", "problem"}]`.
//
// The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_CONNECTION, INTEROP_ENDPOINT and INTEROP_NODE_CLIENT, the folder of
// the installed client.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { refused, runChecks, uniqueName } from "./shared.mjs";

const require = createRequire(join(process.env.INTEROP_NODE_CLIENT, "package.json"));
const azure = require("azure-storage");

const service = azure.createTableService(process.env.INTEROP_CONNECTION);
const call = (name, ...parameters) => promisify(service[name]).call(service, ...parameters);
const make = azure.TableUtilities.entityGenerator;
const entity = (row, more = {}) => ({ PartitionKey: make.String("p"), RowKey: make.String(row), ...more });

async function created() {
  const name = uniqueName("AzureStorage");
  await call("createTable", name);
  return name;
}

const CHECKS = {
  async tables() {
    const name = await created();
    const { entries } = await call("listTablesSegmentedWithPrefix", name, null);
    assert.deepEqual(entries, [name]);
    assert.equal((await call("createTableIfNotExists", name)).created, false);
    await call("deleteTable", name);
    assert.equal((await call("doesTableExist", name)).exists, false);
  },

  async "entities of every type"() {
    const name = await created();
    const time = new Date("2013-01-01T05:15:00.123Z");
    const properties = {
      Text: make.String("it's <ü>"),
      Flag: make.Boolean(true),
      Small: make.Int32(-7),
      Big: make.Int64("9007199254740993"),
      Real: make.Double(0.5),
      Time: make.DateTime(time),
      Id: make.Guid("6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1"),
      Bytes: make.Binary(Buffer.from([0, 255])),
    };
    await call("insertEntity", name, entity("o'r & 1", properties));
    const found = await call("retrieveEntity", name, "p", "o'r & 1");
    assert.equal(found.Text._, "it's <ü>");
    assert.equal(found.Flag._, true);
    assert.equal(found.Small._, -7);
    assert.equal(String(found.Big._), "9007199254740993");
    assert.equal(found.Real._, 0.5);
    assert.equal(new Date(found.Time._).getTime(), time.getTime());
    assert.equal(found.Id._, "6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1");
    assert.deepEqual(Buffer.from(found.Bytes._), Buffer.from([0, 255]));
    // The client leaves out the types that JSON shows.
    const types = Object.fromEntries(Object.keys(properties).map((property) => [property, found[property].$]));
    assert.deepEqual(types, { Text: undefined, Flag: undefined, Small: undefined, Big: "Edm.Int64", Real: undefined, Time: "Edm.DateTime", Id: "Edm.Guid", Bytes: "Edm.Binary" });
    const names = Object.keys(found).filter((property) => property !== ".metadata").sort();
    assert.deepEqual(names, ["PartitionKey", "RowKey", "Timestamp", ...Object.keys(properties)].sort());
    await refused(call("insertEntity", name, entity("o'r & 1")), 409, "EntityAlreadyExists");
  },

  async conditions() {
    const name = await created();
    const inserted = await call("insertEntity", name, entity("1", { N: make.Int32(1) }));
    const etag = inserted[".metadata"].etag;
    await call("replaceEntity", name, { ...entity("1", { N: make.Int32(2) }), ".metadata": { etag } });
    await refused(call("replaceEntity", name, { ...entity("1"), ".metadata": { etag } }), 412, "UpdateConditionNotSatisfied");
    await call("insertOrMergeEntity", name, entity("1", { M: make.Int32(3) }));
    const found = await call("retrieveEntity", name, "p", "1");
    assert.equal(found.N._, 2);
    assert.equal(found.M._, 3);
    await call("deleteEntity", name, entity("1"));
    await refused(call("retrieveEntity", name, "p", "1"), 404, "ResourceNotFound");
  },

  async "groups and pages"() {
    const name = await created();
    for (let start = 0; start < 1100; start += 100) {
      const group = new azure.TableBatch();
      for (let n = start; n < start + 100; n += 1) group.insertEntity(entity(String(n).padStart(4, "0"), { N: make.Int32(n) }), { echoContent: false });
      await call("executeBatch", name, group);
    }
    const query = new azure.TableQuery().where("PartitionKey eq ? and N ge ?int32?", "p", 50);
    const first = await call("queryEntities", name, query, null);
    assert.equal(first.entries.length, 1000);
    const second = await call("queryEntities", name, query, first.continuationToken);
    assert.equal(second.entries.length, 50);
    assert.equal(second.continuationToken, null);
    const failed = new azure.TableBatch();
    failed.insertEntity(entity("new"));
    failed.insertEntity(entity("0001"));
    await refused(call("executeBatch", name, failed), 409, "EntityAlreadyExists");
    await refused(call("retrieveEntity", name, "p", "new"), 404, "ResourceNotFound");
  },

  async signatures() {
    const name = await created();
    await call("insertEntity", name, entity("1"));
    const policy = { AccessPolicy: { Permissions: "r", Expiry: azure.date.minutesFromNow(10), StartPk: "p", EndPk: "p" } };
    const guest = azure.createTableServiceWithSas(process.env.INTEROP_ENDPOINT, service.generateSharedAccessSignature(name, policy));
    const found = await promisify(guest.retrieveEntity).call(guest, name, "p", "1");
    assert.equal(found.RowKey._, "1");
    await refused(promisify(guest.insertEntity).call(guest, name, entity("2")), 403, "AuthorizationPermissionMismatch");
  },

  async "properties and policies"() {
    const properties = await call("getServiceProperties");
    properties.Cors = { CorsRule: [{ AllowedOrigins: ["https://a.example"], AllowedMethods: ["GET"], AllowedHeaders: ["*"], ExposedHeaders: ["*"], MaxAgeInSeconds: 60 }] };
    await call("setServiceProperties", properties);
    assert.equal((await call("getServiceProperties")).Cors.CorsRule.length, 1);
    const name = await created();
    await call("setTableAcl", name, { reader: { Permissions: "r", Expiry: azure.date.minutesFromNow(10) } });
    assert.deepEqual(Object.keys((await call("getTableAcl", name)).signedIdentifiers), ["reader"]);
  },
};

await runChecks(CHECKS);
