// One conversation of the official TypeScript client with Proctor, its version 1 or 2: start a service, watch it, wait for it, kill the
// daemon in the middle and go on, stop it. What to speak to comes as JSON in the first argument; any surprise ends it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const told = JSON.parse(process.argv[2]);
const name = "ticker";
const logs = `proctor://services/${name}/logs`;
const status = `proctor://services/${name}/status`;

// Generous: machines are noisy, and only a failing conversation waits this long.
const limit = 30_000;

const overStdio = told.transport === "stdio";
const modern = told.era === "modern";
const isFirst = told.sdk === "1";

const module = (path) => import(pathToFileURL(`${told.modules}/@modelcontextprotocol/${path}`).href);

async function made() {
  if (isFirst) {
    const { Client } = await module("sdk/dist/esm/client/index.js");
    const { StdioClientTransport } = await module("sdk/dist/esm/client/stdio.js");
    const http = await module("sdk/dist/esm/client/streamableHttp.js");
    const { ResourceUpdatedNotificationSchema } = await module("sdk/dist/esm/types.js");
    const client = new Client({ name: "typescript", version: "1" });
    const hear = (heard) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, heard);
    return { client, hear, StdioClientTransport, HTTP: http.StreamableHTTPClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = await module("client/dist/index.mjs");
  const { StdioClientTransport } = await module("client/dist/stdio.mjs");
  const mode = modern ? { pin: "2026-07-28" } : "legacy";
  const client = new Client({ name: "typescript", version: "2" }, { versionNegotiation: { mode } });
  const hear = (heard) => client.setNotificationHandler("notifications/resources/updated", heard);
  return { client, hear, StdioClientTransport, HTTP: StreamableHTTPClientTransport };
}

const { client, hear, StdioClientTransport, HTTP } = await made();

function transport() {
  if (overStdio) {
    const args = ["--home", told.home, "mcp"];
    return new StdioClientTransport({ command: told.proctor, args });
  }
  const headers = { Authorization: `Bearer ${told.token}` };
  return new HTTP(new URL(told.url), { requestInit: { headers } });
}

const heard = [];
hear(({ params }) => heard.push(params.uri));

async function told_of(uri) {
  const count = () => heard.filter((one) => one === uri).length;
  const before = count();
  await until(`news of ${uri}`, () => count() > before);
}

async function until(what, holds) {
  const giveUp = Date.now() + limit;
  while (!(await holds())) {
    assert(Date.now() < giveUp, `waited too long: ${what}`);
    await sleep(20);
  }
}

function commandLine(...words) {
  const text = execFileSync(told.proctor, ["--home", told.home, "--json", ...words]);
  return JSON.parse(text);
}

const isAlive = (pid) => existsSync(`/proc/${pid}`);

async function call(tool, args) {
  const result = await client.callTool({ name: tool, arguments: args });
  const text = result.content.map((part) => part.text ?? "").join("");
  assert(!result.isError, `${tool}: ${text}`);
  assert(text, `${tool} said nothing to read`);
  // Tools whose answer is text have their facts beside it.
  return { ...(result.structuredContent ?? result._meta?.["proctor/facts"]), text };
}

async function service() {
  const { services } = await call("get_process_status", { names: [name] });
  assert.equal(services.length, 1);
  return services[0];
}

const lines = [];
let cursor;

// Only what is new, until there is something.
async function readOn() {
  const from = cursor === undefined ? { tail: 1000 } : { cursor, wait: 20 };
  const answer = await call("get_process_logs", { services: [name], ...from });
  for (const [, number] of answer.text.matchAll(/\bline (\d+)$/gm)) lines.push(Number(number));
  cursor = answer.cursor;
}

// Told of each change of the log, in the manner of the era.
async function watched() {
  if (!modern) {
    await client.subscribeResource({ uri: logs });
    await told_of(logs);
    await client.unsubscribeResource({ uri: logs });
    return;
  }
  const subscription = await client.listen({ resourceSubscriptions: [logs] });
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [logs]);
  await told_of(logs);
  await subscription.close();
}

async function begin() {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const tool of ["start_process", "wait_for_process", "stop_process", "get_process_logs"]) {
    assert(names.includes(tool), `${tool} is not among ${names}`);
  }
  const command = `${told.victim} --every 20 --lines 1000000`;
  // Over HTTP nobody knows where the client is.
  const place = overStdio ? {} : { working_dir: told.home };
  await call("start_process", { name, command, ...place });
  const waited = await call("wait_for_process", { names: [name], until: "running", timeout: 20 });
  assert(waited.reached);
  const { state, pid } = await service();
  assert(state === "running" && isAlive(pid));
  return pid;
}

async function watch() {
  await watched();
  for (let round = 0; round < 3; round++) await readOn();
  const { contents } = await client.readResource({ uri: status });
  assert(contents[0].text.includes(`"${name}"`), contents[0].text);
}

// The daemon is killed while somebody waits for what does not happen.
async function survive(pid) {
  const daemon = commandLine("daemon", "status").daemon.pid;
  const inVain = call("wait_for_process", { names: [name], until: "stopped", timeout: 3 }).then(
    (answer) => assert(!answer.reached),
    // Over HTTP the answer went with the daemon.
    (error) => assert(!overStdio, error),
  );
  await sleep(300);
  process.kill(daemon, "SIGKILL");
  // Over HTTP whoever asks while there is no daemon is refused.
  let after;
  await until("the service is seen again", async () => {
    after = await service().catch((error) => assert(!overStdio, error));
    return after;
  });
  assert.equal(after.pid, pid);
  assert.equal(after.restarts, 0);
  assert.notEqual(commandLine("daemon", "status").daemon.pid, daemon);
  // A request without an answer is given up by the client in its own time, which is too long here.
  await Promise.race([inVain, sleep(5_000)]);
  for (let round = 0; round < 3; round++) await readOn();
  const all = Array.from({ length: lines.at(-1) - lines[0] + 1 }, (_, index) => lines[0] + index);
  assert.deepEqual(lines, all, "lines are missing or doubled");
  await watched();
}

async function end(pid) {
  await call("stop_process", { names: [name] });
  assert(!isAlive(pid), "it says it is stopped and it runs");
  const waited = await call("wait_for_process", { names: [name], until: "stopped", timeout: 20 });
  assert(waited.reached);
  await call("remove_process", { names: [name] });
  const { services } = await call("list_processes", {});
  assert.deepEqual(services.map((one) => one.name), ["idle"]);
}

await client.connect(transport());
const pid = await begin();
await watch();
await survive(pid);
await end(pid);
await client.close();
process.exit(0);
