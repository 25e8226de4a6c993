// A reporter for mocha (azurite-suite.mjs): a line of JSON for each test in the file of the environment variable REPORT.
"use strict";
const { appendFileSync } = require("node:fs");

module.exports = class {
  constructor(runner) {
    const write = (state) => (test, error) =>
      appendFileSync(process.env.REPORT, `${JSON.stringify({ state, name: test.fullTitle(), message: String(error?.message ?? "") })}\n`);
    for (const state of ["pass", "fail", "pending"]) runner.on(state, write(state));
  }
};
