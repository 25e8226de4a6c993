// Functions of the Node scripts of this folder: usage, results of checks, the program `tables serve`, and SharedKey signatures.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";

// The public account of the emulators.
export const ACCOUNT = "devstoreaccount1";
export const KEY = Buffer.from("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", "base64");

export const sign = (text, key = KEY) => createHmac("sha256", key).update(text).digest("base64");

// The signature of a request by SharedKey, with the date of x-ms-date. `resource` is `/account/account/path`.
export const sharedKey = ({ method, type = "", date, resource, key = KEY }) => sign(`${method}\n\n${type}\n${date}\n${resource}`, key);

// Prints the usage and ends the script with 2.
export function usage(text) {
  console.error(`usage: ${text}`);
  process.exit(2);
}

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Starts `tables serve memory` on a free port. It ends when its standard input is closed, at the latest with this script.
export async function serveMemory(tables, ...parameters) {
  const server = spawn(tables, ["serve", "memory", "--listen", "127.0.0.1:0", "--until-eof", ...parameters], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(server, "exit").then(([code]) => Promise.reject(new Error(`tables serve ended with ${code} before it listened`)));
  const [connection] = await Promise.race([once(createInterface(server.stdout), "line"), ended]);
  // After the start, an end is no error of this function.
  ended.catch(() => {});
  const endpoint = /TableEndpoint=([^;]+)/.exec(connection)[1];
  return { server, connection, endpoint, port: Number(new URL(endpoint).port) };
}

// Prints a line for each check. `failed` counts the failures.
export class Checks {
  failed = 0;

  check(name, passed, details = "") {
    console.log(`${passed === true ? "ok" : "FAILED"}: ${name}`);
    if (passed === true) return;
    this.failed += 1;
    if (details) console.log(`    ${details}`);
  }
}

// Runs asynchronous checks and prints `[{"check", "problem"}]`, as the example `interop` reads it.
export async function runChecks(checks) {
  const results = [];
  for (const [check, job] of Object.entries(checks)) {
    const problem = await job().then(() => null, (error) => String(error.message ?? error).replaceAll(/\s+/g, " ").slice(0, 300) || "an error without a message");
    results.push({ check, problem });
  }
  process.stdout.write(JSON.stringify(results));
}

export const uniqueName = (prefix) => `${prefix}${randomUUID().replaceAll("-", "")}`;

// Fails unless the service refuses a request with this status and code.
export async function refused(job, status, code) {
  const error = await job.then(() => assert.fail(`not refused with ${status}`), (error) => error);
  assert.equal(error.statusCode, status, `${error.statusCode} instead of ${status}: ${error.message ?? error}`);
  if (code) assert.equal(error.details?.odataError?.code ?? error.code, code);
}
