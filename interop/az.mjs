// The Azure CLI on this library's server: `node interop/az.mjs TABLES [AZ]`, with the path of the program `tables`, and of `az` if it is not on the
// PATH (`pip install azure-cli` in a virtual environment). Each check prints a line; the run fails if a check fails.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [tables, az = "az"] = process.argv.slice(2);
if (!tables) throw new Error("usage: node interop/az.mjs TABLES [AZ]");
const configuration = mkdtempSync(join(tmpdir(), "az-"));
const server = spawn(tables, ["serve", "memory", "--listen", "127.0.0.1:0", "--until-eof"], { stdio: ["pipe", "pipe", "inherit"] });
let failed = 0;

function run(...parameters) {
  const environment = { ...process.env, AZURE_STORAGE_CONNECTION_STRING: connection, AZURE_CONFIG_DIR: configuration, AZURE_CORE_COLLECT_TELEMETRY: "0" };
  const { status, stdout, stderr } = spawnSync(az, ["storage", ...parameters, "--output", "json"], { encoding: "utf8", env: environment });
  return { status, value: status === 0 && stdout ? JSON.parse(stdout) : null, stderr };
}

function check(name, { status, value, stderr }, condition) {
  const passed = condition(value, status);
  console.log(`${passed ? "ok" : "FAILED"}: ${name}`);
  if (!passed) {
    failed += 1;
    console.log(`    ${status} ${JSON.stringify(value)} ${stderr.slice(0, 600)}`);
  }
}

const connection = await new Promise((resolve) => createInterface(server.stdout).once("line", resolve));
const key = ["--table-name", "People", "--partition-key", "p", "--row-key"];
try {
  check("table create", run("table", "create", "--name", "People"), (value) => value.created === true);
  check("table list", run("table", "list"), (value) => value.map((table) => table.name).join() === "People");
  check("table exists", run("table", "exists", "--name", "People"), (value) => value.exists === true);
  const entity = (row, ...more) => ["--table-name", "People", "--entity", "PartitionKey=p", `RowKey=${row}`, ...more];
  check("entity insert", run("entity", "insert", ...entity("1", "Age=41", "Age@odata.type=Edm.Int32", "Name=Ken")), (_, status) => status === 0);
  check("entity insert again is refused", run("entity", "insert", ...entity("1")), (_, status) => status !== 0);
  check("entity show", run("entity", "show", ...key, "1"), (value) => value.Age === 41 && value.Name === "Ken");
  check("entity merge", run("entity", "merge", ...entity("1", "Name=Jo")), (_, status) => status === 0);
  check("entity replace", run("entity", "replace", ...entity("2", "Name=Li"), "--if-match", "*"), (_, status) => status !== 0);
  check("entity insert or replace", run("entity", "insert", ...entity("2", "Name=Li"), "--if-exists", "replace"), (_, status) => status === 0);
  check("entity query", run("entity", "query", "--table-name", "People", "--filter", "Age eq 41"), (value) => value.items.length === 1 && value.items[0].Name === "Jo");
  check("entity query by pages", run("entity", "query", "--table-name", "People", "--num-results", "1"), (value) => value.items.length === 1 && value.nextMarker !== undefined);
  check("entity delete", run("entity", "delete", ...key, "2"), (_, status) => status === 0);
  check("table policy create", run("table", "policy", "create", "--table-name", "People", "--name", "reader", "--permissions", "r"), (_, status) => status === 0);
  check("table policy list", run("table", "policy", "list", "--table-name", "People"), (value) => Object.keys(value).join() === "reader");
  check("table generate-sas", run("table", "generate-sas", "--name", "People", "--permissions", "r", "--expiry", "2100-01-01"), (value) => value.includes("sig="));
  check("cors add", run("cors", "add", "--services", "t", "--methods", "GET", "--origins", "https://a.example"), (_, status) => status === 0);
  check("cors list", run("cors", "list", "--services", "t"), (value) => value.length === 1);
  check("table delete", run("table", "delete", "--name", "People"), (value) => value.deleted === true);
} finally {
  server.stdin.end();
  rmSync(configuration, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
