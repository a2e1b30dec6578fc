// Drives Pyodide on node: reads one JSON request a line, does it, and answers with one line.
//
// Usage: node pyodide.mjs PYODIDE. A new place is a new node process, because Pyodide is one interpreter in the memory
// of the process that loads it; this program starts itself again for that, with the word "inside". See src/peers.rs.

import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, own, library, role] = process.argv;

async function inside() {
  const { loadPyodide } = await import(pathToFileURL(library));
  const pyodide = await loadPyodide({ indexURL: dirname(library) });
  let printed = "";
  pyodide.setStdout({ batched: (text) => { printed += text + "\n"; } });
  console.log(JSON.stringify({ version: `pyodide ${pyodide.version}` }));
  for await (const line of createInterface({ input: process.stdin })) {
    printed = "";
    try {
      const code = JSON.parse(line);
      await pyodide.loadPackagesFromImports(code, { messageCallback: () => {} });
      await pyodide.runPythonAsync(code);
      console.log(JSON.stringify({ output: printed }));
    } catch (error) {
      console.log(JSON.stringify({ error: reason(String(error)) }));
    }
  }
}

// The last line that names an error, which is where Python puts the reason, or else the last.
function reason(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line);
  const named = lines.filter((line) => /^[\w.]*(Error|Exception): /.test(line) && !line.startsWith("Error: "));
  return named[named.length - 1] ?? lines[lines.length - 1] ?? "no reason";
}

class Place {
  constructor() {
    this.process = spawn(process.execPath, [own, library, "inside"], { stdio: ["pipe", "pipe", "ignore"] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async answer() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error("node ended");
    const answer = JSON.parse(value);
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  async ready() {
    this.version = (await this.answer()).version;
    return this;
  }

  async run(code) {
    this.process.stdin.write(JSON.stringify(code) + "\n");
    return (await this.answer()).output;
  }

  close() {
    this.process.stdin.end();
    return new Promise((resolve) => this.process.once("exit", resolve));
  }
}

const seconds = (began) => (performance.now() - began) / 1000;
const sessions = new Map();
let next = 0;

const acts = {
  async fresh({ code }) {
    const began = performance.now();
    const place = await new Place().ready();
    try {
      const output = await place.run(code);
      return { seconds: seconds(began), output };
    } finally {
      await place.close();
    }
  },
  async open() {
    next += 1;
    sessions.set(next, await new Place().ready());
    return { session: next };
  },
  async run({ session, code }) {
    const began = performance.now();
    const output = await sessions.get(session).run(code);
    return { seconds: seconds(began), output };
  },
  async close({ session }) {
    await sessions.get(session).close();
    sessions.delete(session);
    return {};
  },
  async crowd({ count, code }) {
    const began = performance.now();
    const places = await Promise.all(Array.from({ length: count }, async () => {
      const place = await new Place().ready();
      await place.run(code);
      return place;
    }));
    const took = seconds(began);
    await Promise.all(places.map((place) => place.close()));
    return { seconds: took };
  },
  async rate({ clients, code, for: time }) {
    const began = performance.now();
    let count = 0;
    await Promise.all(Array.from({ length: clients }, async () => {
      while (seconds(began) < time) {
        const place = await new Place().ready();
        await place.run(code);
        await place.close();
        count += 1;
      }
    }));
    return { seconds: seconds(began), count };
  },
};

async function main() {
  const first = await new Place().ready();
  await first.close();
  console.log(JSON.stringify({ version: `${first.version}, node ${process.version}` }));
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    try {
      console.log(JSON.stringify(await acts[request.do](request)));
    } catch (error) {
      console.log(JSON.stringify({ error: reason(String(error)) }));
    }
  }
  await Promise.all([...sessions.values()].map((place) => place.close()));
}

if (role === "inside") await inside();
else await main();
