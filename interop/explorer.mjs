// The page of `tables serve --explorer` in a headless browser: `node interop/explorer.mjs TABLES`, with the path of the program `tables`.
// Needs chromium and chromedriver (Debian: chromium, chromium-driver), and no npm package: it speaks WebDriver.
// Each check prints a line; the run fails if a check fails.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ACCOUNT, Checks, pause, serveMemory, sharedKey, usage } from "./shared.mjs";

const [tables] = process.argv.slice(2);
if (!tables) usage("node interop/explorer.mjs TABLES");

const MARKUP = `</script><img src=x onerror="window.attacked=1"><svg onload="window.attacked=1">'"&`;
const profile = mkdtempSync(join(tmpdir(), "explorer-"));
const processes = [];
const checks = new Checks();
const check = (name, found, expected = true) => checks.check(name, found === expected, `${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);

async function send(endpoint, path, body) {
  const date = new Date().toUTCString();
  const signature = sharedKey({ method: "POST", type: "application/json", date, resource: `/${ACCOUNT}/${ACCOUNT}/${path}` });
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

// Checks that a value is as expected within 10 seconds.
async function until(name, read, expected) {
  let found;
  for (let n = 0; n < 200; n += 1) {
    found = await read();
    if (found === expected) break;
    await pause(50);
  }
  check(name, found, expected);
}

// Starts chromedriver on a free port, and returns the port.
async function startDriver() {
  const driver = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "inherit"] });
  processes.push(driver);
  const failed = once(driver, "exit").then(([code]) => Promise.reject(new Error(`chromedriver ended with ${code}`)));
  failed.catch(() => {});
  const started = (async () => {
    for await (const line of createInterface(driver.stdout)) {
      const port = /started successfully on port (\d+)/.exec(line)?.[1];
      if (port) return Number(port);
    }
    throw new Error("chromedriver did not print its port");
  })();
  const port = await Promise.race([started, failed]);
  driver.stdout.resume();
  return port;
}

try {
  const { server, endpoint } = await serveMemory(tables, "--explorer");
  processes.push(server);
  const origin = new URL(endpoint).origin;
  await send(endpoint, "Tables", { TableName: "Hostile" });
  for (let n = 0; n < 120; n += 1) {
    const entity = { PartitionKey: `p${n % 3}<b>`, RowKey: `${String(n).padStart(3, "0")}<i>`, Text: MARKUP, Number: n };
    await send(endpoint, "Hostile", entity);
  }

  const driverPort = await startDriver();
  const driver = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${driverPort}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(JSON.stringify(value).slice(0, 500));
    return value;
  };
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
  await until("the tables are listed", () => run("return document.querySelectorAll('#tables button').length"), 1);

  // By keyboard alone: the skip link, the account, the table.
  await press(TAB);
  check("the first stop is the skip link", await run("return document.activeElement.className"), "skip");
  await press(TAB + TAB);
  check("the table is reached by the keyboard", await run("return document.activeElement.textContent"), "Hostile");
  await press(ENTER);
  await until("the entities are shown", () => run("return document.querySelectorAll('#entities tbody tr').length"), 100);
  check("the status is announced", (await status()).startsWith("100 entities of 100 rows, by a table scan"));
  check("the explanation names the path", (await run("return document.getElementById('explanation').textContent")).includes("table scan"));

  check("markup is text", (await run("return [...document.querySelectorAll('#entities td')].filter((cell) => cell.textContent === arguments[0]).length", MARKUP)) === 100);
  check("no element comes from a value", await run("return document.querySelectorAll('main img, main b, main i, main svg, main script').length"), 0);
  await run("document.getElementById('more').click()");
  await until("the next page has the rest", () => run("return document.querySelectorAll('#entities tbody tr').length"), 20);
  await run("document.getElementById('filter').value = arguments[0]; document.getElementById('query').requestSubmit()", "PartitionKey eq 'p1<b>' and RowKey eq '001<i>'");
  await until("a filter is a point query", status, "1 entity of 1 row, by a point query");
  await run("document.getElementById('filter').value = arguments[0]; document.getElementById('query').requestSubmit()", `Text eq <img`);
  await until("a wrong filter is explained", async () => (await status()).startsWith("Failed: "), true);
  await run("document.getElementById('count').click()");
  await until("partitions are drawn", () => run("return document.querySelectorAll('#partitions svg[role=img] rect').length"), 3);
  check("the picture has a text", (await run("return document.querySelector('#partitions svg').getAttribute('aria-label')")).includes("120 rows in 3 partitions"));
  check("no value ran as a script", await run("return window.attacked === undefined"));

  const unlabelled = await run(`return [...document.querySelectorAll('input, select, button')].filter((control) =>
    !control.textContent.trim() && !control.labels?.length && !control.getAttribute('aria-label')).length`);
  check("every control has a label", unlabelled, 0);
  check("the policy forbids scripts in the page", (await run("const s = document.createElement('script'); s.textContent = 'window.attacked = 2'; document.body.append(s); return window.attacked === undefined")) === true);
  await page("DELETE", "");
} finally {
  processes.forEach((process_) => process_.kill());
  await pause(300);
  rmSync(profile, { recursive: true, force: true });
}
process.exitCode = checks.failed ? 1 : 0;
