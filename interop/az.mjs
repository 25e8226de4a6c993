// The Azure CLI on this library's server: `node interop/az.mjs TABLES [AZ]`, with the path of the program `tables`, and of `az` if it is not on the
// PATH (`pip install azure-cli` in a virtual environment). Each check prints a line; the run fails if a check fails.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Checks, serveMemory, usage } from "./shared.mjs";

const [tables, az = "az"] = process.argv.slice(2);
if (!tables) usage("node interop/az.mjs TABLES [AZ]");
const checks = new Checks();
const configuration = mkdtempSync(join(tmpdir(), "az-"));
const { server, connection } = await serveMemory(tables);

function run(...parameters) {
  const environment = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: connection, AZURE_CONFIG_DIR: configuration, AZURE_CORE_COLLECT_TELEMETRY: "0" };
  const { status, stdout, stderr, error } = spawnSync(az, ["storage", ...parameters, "--output", "json"], { encoding: "utf8", env: environment });
  if (error) throw new Error(`${az} does not start: ${error.message}`);
  return { status, stderr, value: status === 0 && stdout ? JSON.parse(stdout) : null };
}

const details = ({ status, value, stderr }) => `status ${status} ${JSON.stringify(value)} ${stderr.slice(0, 600)}`;

// The command succeeds.
const succeeds = (name, result) => checks.check(name, result.status === 0, details(result));

// The command fails with a text of the error of the service.
const refuses = (name, result, text) => checks.check(name, result.status > 0 && result.stderr.includes(text), details(result));

// The command succeeds, and `select` of its output has the expected value.
function equals(name, result, select, expected) {
  let found;
  try {
    found = select(result.value);
  } catch (error) {
    found = error;
  }
  checks.check(name, result.status === 0 && isDeepStrictEqual(found, expected), details(result));
}

const people = ["--table-name", "People"];
const key = (row) => [...people, "--partition-key", "p", "--row-key", row];
const entity = (row, ...more) => [...people, "--entity", "PartitionKey=p", `RowKey=${row}`, ...more];
const show = (row) => run("entity", "show", ...key(row));
const properties = ({ Age, Name }) => ({ Age, Name });
try {
  equals("table create", run("table", "create", "--name", "People"), (value) => value.created, true);
  equals("table list", run("table", "list"), (value) => value.map((table) => table.name), ["People"]);
  equals("table exists", run("table", "exists", "--name", "People"), (value) => value.exists, true);
  equals("table exists, of a missing table", run("table", "exists", "--name", "Missing"), (value) => value.exists, false);
  succeeds("entity insert", run("entity", "insert", ...entity("1", "Age=41", "Age@odata.type=Edm.Int32", "Name=Ken")));
  refuses("entity insert of an entity that exists is refused", run("entity", "insert", ...entity("1")), "The specified entity already exists");
  equals("entity show", show("1"), properties, { Age: 41, Name: "Ken" });
  succeeds("entity merge", run("entity", "merge", ...entity("1", "Name=Jo")));
  equals("the merged entity keeps the other property", show("1"), properties, { Age: 41, Name: "Jo" });
  refuses("entity replace of an entity that does not exist is refused", run("entity", "replace", ...entity("2", "Name=Li"), "--if-match", "*"), "ResourceNotFound");
  succeeds("entity insert or replace", run("entity", "insert", ...entity("2", "Name=Li", "Age=7", "Age@odata.type=Edm.Int32"), "--if-exists", "replace"));
  succeeds("entity replace", run("entity", "replace", ...entity("2", "Name=Lee"), "--if-match", "*"));
  equals("the replaced entity has only the new property", show("2"), properties, { Age: undefined, Name: "Lee" });
  equals("entity query", run("entity", "query", ...people, "--filter", "Age eq 41"), (value) => value.items.map(properties), [{ Age: 41, Name: "Jo" }]);
  const page = run("entity", "query", ...people, "--num-results", "1");
  equals("entity query, the first page", page, (value) => value.items.map((item) => item.RowKey), ["1"]);
  const marker = Object.entries(page.value?.nextMarker ?? {}).map(([name, value]) => `${name}=${value}`);
  equals("entity query, the next page", run("entity", "query", ...people, "--num-results", "1", "--marker", ...marker), (value) => value.items.map((item) => item.RowKey), ["2"]);
  succeeds("entity delete", run("entity", "delete", ...key("2")));
  refuses("entity show of a deleted entity is refused", show("2"), "ResourceNotFound");
  succeeds("table policy create", run("table", "policy", "create", ...people, "--name", "reader", "--permissions", "r"));
  equals("table policy list", run("table", "policy", "list", ...people), (value) => Object.keys(value), ["reader"]);
  const signature = run("table", "generate-sas", "--name", "People", "--permissions", "r", "--expiry", "2100-01-01");
  equals("table generate-sas", signature, (value) => /(^|&)sig=[^&]+/.test(value), true);
  succeeds("cors add", run("cors", "add", "--services", "t", "--methods", "GET", "--origins", "https://a.example"));
  equals("cors list", run("cors", "list", "--services", "t"), (value) => value.map((rule) => rule.AllowedOrigins), ["https://a.example"]);
  equals("table delete", run("table", "delete", "--name", "People"), (value) => value.deleted, true);
  equals("the deleted table is not listed", run("table", "list"), (value) => value, []);
} finally {
  server.stdin.end();
  rmSync(configuration, { recursive: true, force: true });
}
process.exitCode = checks.failed ? 1 : 0;
