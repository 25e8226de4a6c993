// Loaded before Azurite's tests (azurite-suite.mjs): the module that starts their server starts `tables serve` in memory instead.
// Environment: TABLES is the program, CERTIFICATE_DIRECTORY the folder in which it writes its own certificate.
"use strict";
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { join } = require("node:path");
const { createInterface } = require("node:readline");

const [host, port] = ["127.0.0.1", 11002];

class TableTestServerFactory {
  static inMemoryPersistence() {
    return true;
  }

  createServer({ https }) {
    const parameters = ["serve", "memory", "--listen", `${host}:${port}`, "--until-eof"];
    if (https) parameters.push("--self-signed", join(process.env.CERTIFICATE_DIRECTORY, "tls"));
    let server, ended;
    return {
      config: { host, port },
      async start() {
        server = spawn(process.env.TABLES, parameters, { stdio: ["pipe", "pipe", "inherit"] });
        ended = once(server, "exit");
        const started = once(createInterface(server.stdout), "line");
        await Promise.race([started, ended.then(([code]) => Promise.reject(new Error(`tables serve ended with ${code}`)))]);
      },
      async close() {
        server.stdin.end();
        await ended;
      },
      async clean() {},
    };
  }
}

const replaced = join(process.cwd(), "tests", "table", "utils", "TableTestServerFactory.ts");
require.cache[replaced] = { id: replaced, filename: replaced, loaded: true, children: [], paths: [], exports: { __esModule: true, default: TableTestServerFactory } };
