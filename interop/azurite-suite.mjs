// Runs Azurite's own tests of its Table service on this library's server:
//     node interop/azurite-suite.mjs TABLES CHECKOUT [PATTERN]
// TABLES is the program `tables`, CHECKOUT a clone of Azurite's repository. The first run installs the packages of the clone; no file that git tracks
// changes. PATTERN selects tests by name. Only the start of the server is replaced (azurite-server.cjs). Tests that do not send a request are left
// out: they test the code of Azurite.
// The run fails if a test fails that azurite-failures.json does not explain, or if an explained test passes or does not exist.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { usage } from "./shared.mjs";

const [tables, checkout, pattern] = process.argv.slice(2);
if (!checkout) usage("node interop/azurite-suite.mjs TABLES CHECKOUT [PATTERN]");
const here = dirname(fileURLToPath(import.meta.url));
const { commit, failures } = JSON.parse(readFileSync(join(here, "azurite-failures.json"), "utf8"));
const explained = new Map(failures.flatMap(({ reason, tests }) => tests.map((name) => [name, reason])));

const run = (program, parameters, environment = {}) =>
  spawnSync(program, parameters, { cwd: checkout, stdio: "inherit", env: { ...process.env, ...environment } });
if (!existsSync(join(checkout, "node_modules")) && run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).status !== 0) {
  throw new Error(`npm ci failed in ${checkout}`);
}
const head = spawnSync("git", ["rev-parse", "HEAD"], { cwd: checkout, encoding: "utf8" }).stdout?.trim();
if (head !== commit) console.log(`note: azurite-failures.json explains the failures of the commit ${commit}; this checkout is of ${head}`);

// Azurite's own code: the parsers of queries and batches, its options.
const own = /^(unit\/|tableEnvironment\.test\.ts$)/;
const suite = join(checkout, "tests", "table");
const files = readdirSync(suite, { recursive: true }).filter((name) => name.endsWith(".test.ts") && !own.test(name.replaceAll("\\", "/")));
const directory = mkdtempSync(join(tmpdir(), "azurite-suite-"));
const report = join(directory, "report");
try {
  const parameters = ["--require", "ts-node/register", "--require", join(here, "azurite-server.cjs"), "--no-timeouts", "--exit"];
  parameters.push("--reporter", join(here, "azurite-reporter.cjs"));
  if (pattern) parameters.push("--grep", pattern);
  // Its clients trust every certificate, as in Azurite's own runs.
  const environment = { TABLES: resolve(tables), CERTIFICATE_DIRECTORY: directory, TS_NODE_TRANSPILE_ONLY: "1", TS_NODE_COMPILER_OPTIONS: `{"rootDir":"."}`, NODE_TLS_REJECT_UNAUTHORIZED: "0", AZURE_LOG_LEVEL: "error", REPORT: report };
  const { status } = run(process.execPath, [join("node_modules", "mocha", "bin", "mocha.js"), ...parameters, ...files.sort().map((name) => join("tests", "table", name))], environment);
  if (status === null || !existsSync(report)) throw new Error(`mocha ended with ${status} and without a complete report`);
  const tests = readFileSync(report, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const of = (state) => tests.filter((test) => test.state === state);
  const unexplained = of("fail").filter(({ name }) => !explained.has(name));
  const stale = of("pass").filter(({ name }) => explained.has(name));
  const names = new Set(tests.map(({ name }) => name));
  const gone = pattern ? [] : [...explained.keys()].filter((name) => !names.has(name));
  for (const { name, message } of unexplained) console.log(`FAILED: ${name}\n    ${message.split("\n").slice(0, 6).join("\n    ")}`);
  for (const { name } of stale) console.log(`PASSED, but azurite-failures.json explains a failure: ${name}`);
  for (const name of gone) console.log(`MISSING, but azurite-failures.json explains a failure: ${name}`);
  console.log(
    `${tests.length} tests: ${of("pass").length} passed, ${of("fail").length - unexplained.length} failed as explained, ${unexplained.length} failed without an explanation, ` +
      `${of("pending").length} are skipped by Azurite`,
  );
  process.exitCode = tests.length === 0 || unexplained.length + stale.length + gone.length > 0 ? 1 : 0;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
