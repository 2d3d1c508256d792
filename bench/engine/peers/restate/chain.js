// A chain of no-op steps as one handler of a Restate service, each step a ctx.run whose result Restate keeps before the next begins.
"use strict";

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const restate = require("@restatedev/restate-sdk");

// The SDK wants this of Node 22.
Promise.withResolvers ??= function () {
  const it = {};
  it.promise = new this((resolve, reject) => Object.assign(it, { resolve, reject }));
  return it;
};

const [steps, samples] = [process.env.CHAIN_STEPS, process.env.CHAIN_SAMPLES].map(Number);
const modules = path.join(__dirname, "node_modules");

const chain = restate.service({
  name: "chain",
  handlers: {
    run: async (ctx) => {
      let n = 0;
      for (let i = 0; i < steps; i++) {
        n = await ctx.run(`s${i}`, () => n + 1);
      }
      return n;
    },
  },
});

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

// startServer starts Restate as it comes, but on loopback, with its data in this folder, and silent.
function startServer(ports) {
  return spawn(path.join(modules, ".bin", "restate-server"), ["--no-logo", "--listen-mode", "tcp"], {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      RESTATE_BASE_DIR: path.resolve("restate-data"),
      RESTATE_BIND_ADDRESS: `127.0.0.1:${ports.node}`,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ports.ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${ports.admin}`,
      RESTATE_LOG_FILTER: "error",
      RESTATE_DISABLE_TELEMETRY: "true",
    },
  });
}

async function post(url, body) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return JSON.parse(text);
}

// until tries again and again: a server needs a moment before it answers.
async function until(attempt) {
  for (let left = 300; ; left--) {
    try {
      return await attempt();
    } catch (err) {
      if (left === 0) throw err;
      await new Promise((passed) => setTimeout(passed, 200));
    }
  }
}

async function main() {
  const ports = { node: await freePort(), ingress: await freePort(), admin: await freePort(), service: await freePort() };
  const server = startServer(ports);
  try {
    await restate.endpoint().bind(chain).listen(ports.service);
    await until(() => post(`http://127.0.0.1:${ports.admin}/deployments`, { uri: `http://127.0.0.1:${ports.service}` }));
    const timed = async () => {
      const began = performance.now();
      const done = await post(`http://127.0.0.1:${ports.ingress}/chain/run`, null);
      const took = (performance.now() - began) / 1000;
      assert.strictEqual(done, steps);
      return took;
    };
    await until(timed); // warms up
    const seconds = [];
    for (let i = 0; i < samples; i++) seconds.push(await timed());
    const { version } = JSON.parse(fs.readFileSync(path.join(modules, "@restatedev", "restate-server", "package.json")));
    fs.writeFileSync("result.json", JSON.stringify({ version, seconds }));
  } finally {
    server.kill();
  }
}

main().then(
  () => process.exit(0),
  (err) => {
    console.error(err);
    process.exit(1);
  },
);
