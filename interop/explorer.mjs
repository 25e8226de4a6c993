// The explorer page in a headless browser: `node interop/explorer.mjs TABLES`, with the path of the program `tables`.
// Needs chromium and chromedriver (Debian: chromium, chromium-driver), and no npm package: it speaks WebDriver.
// Each check prints a line; the run fails if a check fails.
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MARKUP = `</script><img src=x onerror="window.attacked=1"><svg onload="window.attacked=1">'"&`;
const ACCOUNT = "devstoreaccount1";
const KEY = Buffer.from("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", "base64");
const profile = mkdtempSync(join(tmpdir(), "explorer-"));
const processes = [];
let failed = 0;

function check(name, condition) {
  console.log(`${condition ? "ok" : "FAILED"}: ${name}`);
  if (!condition) failed += 1;
}

function start(program, ...parameters) {
  const process_ = spawn(program, parameters, { stdio: ["pipe", "pipe", "inherit"] });
  processes.push(process_);
  return process_;
}

const [tables] = process.argv.slice(2);
if (!tables) throw new Error("usage: node interop/explorer.mjs TABLES");

async function send(endpoint, path, body) {
  const date = new Date().toUTCString();
  const text = `POST\n\napplication/json\n${date}\n/${ACCOUNT}/${ACCOUNT}/${path}`;
  const signature = createHmac("sha256", KEY).update(text).digest("base64");
  const response = await fetch(`${endpoint}/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json;odata=nometadata",
      "x-ms-date": date,
      Authorization: `SharedKey ${ACCOUNT}:${signature}`,
    },
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function until(name, condition) {
  for (let n = 0; n < 200; n += 1) {
    if (await condition()) return check(name, true);
    await pause(50);
  }
  check(name, false);
}

try {
  const server = start(tables, "serve", "memory", "--listen", "127.0.0.1:0", "--explorer", "--until-eof");
  const [line] = await new Promise((resolve) => createInterface(server.stdout).once("line", (text) => resolve([text])));
  const endpoint = /TableEndpoint=([^;]+)/.exec(line)[1];
  const origin = new URL(endpoint).origin;
  await send(endpoint, "Tables", { TableName: "Hostile" });
  for (let n = 0; n < 120; n += 1) {
    const entity = { PartitionKey: `p${n % 3}<b>`, RowKey: `${String(n).padStart(3, "0")}<i>`, Text: MARKUP, Number: n };
    await send(endpoint, "Hostile", entity);
  }

  const driverPort = 20000 + (process.pid % 20000);
  start("chromedriver", `--port=${driverPort}`);
  const driver = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${driverPort}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(JSON.stringify(value).slice(0, 500));
    return value;
  };
  for (let n = 0; n < 200; n += 1) {
    if (await driver("GET", "/status").then(() => true, () => false)) break;
    await pause(50);
  }
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", `--user-data-dir=${profile}`];
  const { sessionId } = await driver("POST", "/session", { capabilities: { alwaysMatch: { "goog:chromeOptions": { args }, "goog:loggingPrefs": { browser: "ALL" } } } });
  const page = (method, path, body) => driver(method, `/session/${sessionId}${path}`, body);
  const run = (script, ...parameters) => page("POST", "/execute/sync", { script, args: parameters });
  const press = (text) => page("POST", "/actions", {
    actions: [{ type: "key", id: "keyboard", actions: [...text].flatMap((key) => [{ type: "keyDown", value: key }, { type: "keyUp", value: key }]) }],
  });
  const [TAB, ENTER] = ["\uE004", "\uE007"];
  const status = () => run("return document.getElementById('status').textContent");

  await page("POST", "/url", { url: `${origin}/_explorer/` });
  await until("the tables are listed", async () => (await run("return document.querySelectorAll('#tables button').length")) === 1);

  // By keyboard alone: the skip link, the account, the table.
  await press(TAB);
  check("the first stop is the skip link", (await run("return document.activeElement.className")) === "skip");
  await press(TAB + TAB);
  check("the table is reached by the keyboard", (await run("return document.activeElement.textContent")) === "Hostile");
  await press(ENTER);
  await until("the entities are shown", async () => (await run("return document.querySelectorAll('#entities tbody tr').length")) === 100);
  check("the status is announced", (await status()).startsWith("100 entities of 100 rows, by a table scan"));
  check("the explanation names the path", (await run("return document.getElementById('explanation').textContent")).includes("table scan"));

  check("markup is text", (await run("return [...document.querySelectorAll('#entities td')].some((cell) => cell.textContent === arguments[0])", MARKUP)) === true);
  check("no element comes from a value", (await run("return document.querySelectorAll('main img, main b, main i, main svg, main script').length")) === 0);
  await run("document.getElementById('more').click()");
  await until("the next page has the rest", async () => (await run("return document.querySelectorAll('#entities tbody tr').length")) === 20);
  await run("document.getElementById('filter').value = arguments[0]; document.getElementById('query').requestSubmit()", "PartitionKey eq 'p1<b>' and RowKey eq '001<i>'");
  await until("a filter is a point query", async () => (await status()) === "1 entities of 1 rows, by a point query");
  await run("document.getElementById('filter').value = arguments[0]; document.getElementById('query').requestSubmit()", `Text eq <img`);
  await until("a wrong filter is explained", async () => (await status()).startsWith("Failed: "));
  await run("document.getElementById('count').click()");
  await until("partitions are drawn", async () => (await run("return document.querySelectorAll('#partitions svg[role=img] rect').length")) === 3);
  check("the picture has a text", (await run("return document.querySelector('#partitions svg').getAttribute('aria-label')")).includes("120 rows in 3 partitions"));
  check("no value ran as a script", (await run("return window.attacked === undefined")) === true);

  const unlabelled = await run(`return [...document.querySelectorAll('input, select, button')].filter((control) =>
    !control.textContent.trim() && !control.labels?.length && !control.getAttribute('aria-label')).length`);
  check("every control has a label", unlabelled === 0);
  check("the policy forbids scripts in the page", (await run("const s = document.createElement('script'); s.textContent = 'window.attacked = 2'; document.body.append(s); return window.attacked === undefined")) === true);
  await page("DELETE", "");
} finally {
  processes.forEach((process_) => process_.kill());
  await pause(300);
  rmSync(profile, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
