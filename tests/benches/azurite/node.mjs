// The rounds of the Node client: for each line `Operation count partition`, runs the operations and prints their cost.
//
// node.mjs ENDPOINT ACCOUNT KEY TABLE

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

// The client is installed below target/, not in the directory of this file.
const require = createRequire(join(process.env.BENCH_NODE_CLIENT, "package.json"));
const { AzureNamedKeyCredential, TableClient, odata } = require("@azure/data-tables");

const [endpoint, account, key, table] = process.argv.slice(2);
const credential = new AzureNamedKeyCredential(account, key);
const client = new TableClient(endpoint, table, credential, { allowInsecureConnection: true });

const IN_FLIGHT = 32;
const LOADED = 10_000;
const SALES = "Sales";
const PHOTO = new Uint8Array(32).map((_, n) => n);

const rowKey = (n) => `empid_${String(n).padStart(8, "0")}`;

// The employee of the other clients, with `Hired` in milliseconds, the precision of `Date`.
function row(partitionKey, n) {
  const firstName = ["Ken", "Robin", "Maria"][n % 3];
  return {
    partitionKey,
    rowKey: rowKey(n),
    FirstName: firstName,
    LastName: "Kwok",
    Email: `${firstName}.kwok@example.com`.toLowerCase(),
    Age: 18 + (n % 50),
    Active: n % 7 !== 0,
    Salary: 84250.75 + n,
    Rating: (n % 6) + 0.5,
    Visits: 9007199254740993n + BigInt(n),
    Id: { type: "Guid", value: `67e55044-10b1-426f-9247-bb68${n.toString(16).padStart(8, "0")}` },
    Hired: new Date(1357017300123 + n),
    Photo: PHOTO,
  };
}

async function inFlight(count, work) {
  const task = async (first) => {
    for (let n = first; n < count; n += IN_FLIGHT) await work(n);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, first) => task(first)));
}

const OPERATIONS = {
  Get: (count) => () => inFlight(count, (n) => client.getEntity(SALES, rowKey((n * 7919) % LOADED))),
  Insert(count, partition) {
    const rows = Array.from({ length: count }, (_, n) => row(partition, n));
    return () => inFlight(count, (n) => client.createEntity(rows[n]));
  },
  Group(count, partition) {
    const rows = Array.from({ length: count }, (_, n) => ["create", row(partition, n)]);
    return async () => {
      for (let n = 0; n < count; n += 100) await client.submitTransaction(rows.slice(n, n + 100));
    };
  },
  Scan: (count) => async () => {
    const rows = [];
    const filter = odata`PartitionKey eq ${SALES}`;
    for await (const row of client.listEntities({ queryOptions: { filter } })) rows.push(row);
    if (rows.length !== count) throw new Error(`${rows.length} rows`);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, count, partition] = line.split(" ");
  const run = OPERATIONS[name](Number(count), partition);
  const [cpu, wall] = [process.cpuUsage(), process.hrtime.bigint()];
  await run();
  const { user, system } = process.cpuUsage(cpu);
  const wallMicroseconds = Number(process.hrtime.bigint() - wall) / 1000;
  console.log(JSON.stringify({ cpu_microseconds: user + system, wall_microseconds: wallMicroseconds }));
}
