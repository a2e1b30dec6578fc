// `@jupyterlab/services`, the client library of JupyterLab, with the subprotocol that it prefers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const WebSocket = require("ws");
const { KernelManager, KernelSpecManager, ServerConnection, SessionManager } = require("@jupyterlab/services");

const baseUrl = `${process.env.SILICA_URL}/jupyter/`;
const serverSettings = ServerConnection.makeSettings({
  baseUrl,
  wsUrl: baseUrl.replace("http", "ws"),
  token: process.env.SILICA_KEY,
  appendToken: true,
  WebSocket,
  fetch: globalThis.fetch,
  Request: globalThis.Request,
  Headers: globalThis.Headers,
});

async function run(kernel, code) {
  const future = kernel.requestExecute({ code });
  const seen = [];
  future.onIOPub = (message) => seen.push(message);
  const reply = await future.done;
  return { reply, seen, of: (type) => seen.filter((message) => message.header.msg_type === type) };
}

test("a session runs, fails, is interrupted, completes, inspects, restarts and ends", { timeout: 60_000 }, async () => {
  const specs = new KernelSpecManager({ serverSettings });
  await specs.ready;
  assert.equal(specs.specs.default, "python3");
  const kernelManager = new KernelManager({ serverSettings });
  const sessions = new SessionManager({ serverSettings, kernelManager });
  await sessions.ready;
  const session = await sessions.startNew({ path: "n.ipynb", name: "n", type: "notebook", kernel: { name: "python3" } });
  const kernel = session.kernel;
  const info = await kernel.info;
  assert.equal(info.language_info.name, "python");

  const ran = await run(kernel, "x = 6 * 7\nprint('hi')\nx");
  assert.equal(ran.reply.content.status, "ok");
  assert.equal(ran.of("stream")[0].content.text, "hi\n");
  assert.equal(ran.of("execute_result")[0].content.data["text/plain"], "42");

  const failed = await run(kernel, "1 / 0");
  assert.equal(failed.reply.content.ename, "ZeroDivisionError");

  const slow = run(kernel, "import time; time.sleep(60)");
  await new Promise((resolve) => setTimeout(resolve, 500));
  await kernel.interrupt();
  assert.equal((await slow).reply.content.ename, "KeyboardInterrupt");

  const completed = await kernel.requestComplete({ code: "prin", cursor_pos: 4 });
  assert.deepEqual(completed.content.matches, ["print"]);
  const inspected = await kernel.requestInspect({ code: "print", cursor_pos: 3, detail_level: 0 });
  assert.equal(inspected.content.found, true);
  const checked = await kernel.requestIsComplete({ code: "if x:" });
  assert.equal(checked.content.status, "incomplete");
  const history = await kernel.requestHistory({ output: false, raw: true, hist_access_type: "tail", n: 10 });
  assert.ok(history.content.history.length >= 2);
  assert.deepEqual((await kernel.requestCommInfo({})).content.comms, {});

  await kernel.restart();
  const after = await run(kernel, "'x' in globals()");
  assert.equal(after.of("execute_result")[0].content.data["text/plain"], "False");
  await session.shutdown();
  sessions.dispose();
  kernelManager.dispose();
  specs.dispose();
});
