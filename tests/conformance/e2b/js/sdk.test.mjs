// The newest JavaScript SDK against the server that `run` has started; addresses and key are in the environment.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import {
  AuthenticationError,
  CommandExitError,
  InvalidArgumentError,
  NotEnoughSpaceError,
  NotFoundError,
  SandboxError,
  TimeoutError,
} from 'e2b'

const PATIENCE_MS = 60_000

async function eventually(look) {
  const until = Date.now() + PATIENCE_MS
  for (;;) {
    const found = await look()
    if (found) return found
    assert.ok(Date.now() < until, 'it never happened')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** A value that will be set later. */
function later() {
  let set
  const promise = new Promise((resolve) => (set = resolve))
  return { promise, set }
}

let sandbox
before(async () => (sandbox = await Sandbox.create({ timeoutMs: 300_000, metadata: { suite: 'js' }, envs: { K: 'V' } })))
after(async () => void (await sandbox.kill()))

describe('sandboxes', () => {
  test('info, list, connect, metrics', async () => {
    const info = await sandbox.getInfo()
    assert.equal(info.sandboxId, sandbox.sandboxId)
    assert.match(info.sandboxId, /^[a-z0-9]{20,}$/)
    assert.deepEqual(info.metadata, { suite: 'js' })
    assert.equal(info.state, 'running')
    assert.ok(Math.abs(info.endAt - info.startedAt - 300_000) < 5000)
    assert.equal(await sandbox.isRunning(), true)

    const pages = Sandbox.list({ query: { metadata: { suite: 'js' } }, limit: 1 })
    assert.deepEqual((await pages.nextItems()).map((one) => one.sandboxId), [sandbox.sandboxId])
    assert.equal(pages.hasNext, false)

    await sandbox.runCode('x = 41')
    const same = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 30_000 })
    assert.equal((await same.runCode('x + 1')).text, '42')
    assert.deepEqual((await sandbox.getInfo()).endAt, info.endAt)

    const metrics = await sandbox.getMetrics()
    assert.ok(metrics.at(-1).memUsed > 0 && metrics.at(-1).memTotal >= metrics.at(-1).memUsed)
    await sandbox.setTimeout(600_000)
    assert.ok((await sandbox.getInfo()).endAt > info.endAt)
  })

  test('a sandbox that is killed', async () => {
    const one = await Sandbox.create({ timeoutMs: 60_000 })
    assert.equal(await one.kill(), true)
    assert.equal(await one.kill(), false)
    assert.equal(await Sandbox.kill(one.sandboxId), false)
    assert.equal(await one.isRunning(), false)
    await assert.rejects(one.getInfo(), NotFoundError)
    await assert.rejects(Sandbox.connect(one.sandboxId), NotFoundError)
    await assert.rejects(one.runCode('1'), TimeoutError)
    await assert.rejects(one.commands.run('echo'), NotFoundError)
    await assert.rejects(one.files.list('.'), TimeoutError)
  })

  test('what is refused', async () => {
    await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
    await assert.rejects(Sandbox.create('nowhere'), /nowhere/)
    await assert.rejects(Sandbox.create({ network: { allowOut: ['1.1.1.1'] } }), /network/)
    await assert.rejects(sandbox.pause(), /not supported/)
    await assert.rejects(sandbox.createSnapshot(), /not supported/)
    assert.equal(await sandbox.isRunning(), true)
  })

  test('twenty at once', async () => {
    const work = async (number) => {
      const one = await Sandbox.create({ timeoutMs: 120_000 })
      await one.runCode(`secret = ${number}`)
      await one.files.write('mine', String(number))
      const { text } = await one.runCode("open('mine').read(), secret")
      const { stdout } = await one.commands.run('cat mine')
      assert.equal(await one.kill(), true)
      return [text, stdout]
    }
    const numbers = [...Array(20).keys()]
    const done = await Promise.all(numbers.map(work))
    assert.deepEqual(done, numbers.map((number) => [`('${number}', ${number})`, String(number)]))
  })
})

describe('code', () => {
  test('results and output in order', async () => {
    const said = []
    const execution = await sandbox.runCode(
      "import sys\nprint('one')\ndisplay('shown')\nprint('two', file=sys.stderr)\n6 * 7",
      {
        onStdout: (message) => void said.push(['out', message.line, message.error]),
        onStderr: (message) => void said.push(['err', message.line, message.error]),
        onResult: (result) => void said.push(['result', result.text, result.isMainResult]),
      },
    )
    assert.deepEqual(said, [
      ['out', 'one\n', false],
      ['result', 'shown', false],
      ['err', 'two\n', true],
      ['result', '42', true],
    ])
    assert.equal(execution.text, '42')
    assert.deepEqual(execution.logs, { stdout: ['one\n'], stderr: ['two\n'] })
    assert.ok(execution.executionCount >= 1)
  })

  test('errors, characters, variables', async () => {
    const failed = await sandbox.runCode('1 / 0')
    assert.equal(failed.error.name, 'ZeroDivisionError')
    assert.equal(failed.error.value, 'division by zero')
    assert.match(failed.error.traceback, /1 \/ 0/)
    const text = 'ä € 😀 \u2028 \u0085 漢字 '
    const echoed = await sandbox.runCode(`print(${JSON.stringify(text)} * 5000)`)
    assert.equal(echoed.logs.stdout.join(''), text.repeat(5000) + '\n')
    const show = "import os; print(os.environ['K'], os.environ.get('Q'), os.getcwd())"
    assert.deepEqual((await sandbox.runCode(show, { envs: { Q: '5' } })).logs.stdout, ['V 5 /home/user\n'])
    assert.deepEqual((await sandbox.runCode(show)).logs.stdout, ['V None /home/user\n'])
  })

  test('tables and charts', async () => {
    const table = await sandbox.runCode("import pandas as pd; pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
    assert.deepEqual(table.results[0].data, { a: [1, 2], b: ['x', 'y'] })
    const drawn = await sandbox.runCode(
      "import matplotlib.pyplot as plt\nplt.bar(['x', 'y'], [1, 2])\nplt.title('T')\nplt.xlabel('k')\nplt.ylabel('v (s)')\nplt.show()",
    )
    const { chart, png } = drawn.results[0]
    assert.equal(Buffer.from(png, 'base64').subarray(1, 4).toString(), 'PNG')
    assert.equal(chart.type, 'bar')
    assert.equal(chart.title, 'T')
    assert.equal(chart.y_unit, 's')
    assert.deepEqual(chart.elements.map((bar) => [bar.label, bar.value]), [['x', 1], ['y', 2]])
  })

  test('contexts', async () => {
    const context = await sandbox.createCodeContext({ cwd: '/tmp', language: 'python' })
    await sandbox.runCode('y = 2', { context })
    assert.equal((await sandbox.runCode('import os; (y, os.getcwd())', { context })).text, "(2, '/tmp')")
    const listed = await sandbox.listCodeContexts()
    assert.ok(listed.some((one) => one.id === context.id && one.cwd === '/tmp'))
    await sandbox.restartCodeContext(context)
    assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
    await sandbox.removeCodeContext(context)
    await assert.rejects(sandbox.runCode('1', { context }), NotFoundError)
    await assert.rejects(sandbox.runCode('1', { language: 'javascript' }), SandboxError)
  })

  test('code is interrupted when its client leaves', async () => {
    await assert.rejects(sandbox.runCode('import time\nwhile True: time.sleep(0.01)', { timeoutMs: 1000 }), TimeoutError)
    assert.equal((await sandbox.runCode("time.sleep(0); 'free'", { timeoutMs: PATIENCE_MS })).text, 'free')
  })

  test('a restart ends what runs', async () => {
    const context = await sandbox.createCodeContext()
    const begun = later()
    const running = sandbox.runCode("import time\nprint('begun', flush=True)\ntime.sleep(600)", {
      context,
      onStdout: () => begun.set(),
      timeoutMs: PATIENCE_MS,
    })
    await begun.promise
    await sandbox.restartCodeContext(context)
    const { error } = await running
    assert.deepEqual([error.name, error.value], ['ContextRestarting', 'Context was restarted'])
    await sandbox.removeCodeContext(context)
  })
})

describe('files', () => {
  test('write and read', async () => {
    const info = await sandbox.files.write('notes/ä b.txt', 'héllo\n')
    assert.deepEqual([info.name, info.path], ['ä b.txt', '/home/user/notes/ä b.txt'])
    assert.equal(await sandbox.files.read('notes/ä b.txt'), 'héllo\n')
    const bytes = new Uint8Array(300_000).map((_, at) => at % 256)
    await sandbox.files.write('/tmp/blob', bytes.buffer)
    assert.deepEqual(await sandbox.files.read('/tmp/blob', { format: 'bytes' }), bytes)
    const pieces = []
    for await (const piece of await sandbox.files.read('/tmp/blob', { format: 'stream' })) pieces.push(piece)
    assert.deepEqual(new Uint8Array(Buffer.concat(pieces)), bytes)
    await sandbox.files.write('/tmp/stream', new Blob(['streamed']).stream())
    assert.equal(await sandbox.files.read('/tmp/stream'), 'streamed')
    await sandbox.files.write('/tmp/packed', 'packed', { gzip: true })
    assert.equal(await sandbox.files.read('/tmp/packed', { gzip: true }), 'packed')
    await sandbox.files.write([
      { path: 'many/1', data: '1' },
      { path: 'many/2', data: '2' },
    ])
    assert.equal(await sandbox.files.read('many/2'), '2')
    await sandbox.files.write('empty', '')
    assert.equal(await sandbox.files.read('empty'), '')
    await sandbox.files.write('said', 'x', { metadata: { author: 'me' } })
    assert.deepEqual((await sandbox.files.getInfo('said')).metadata, { author: 'me' })
  })

  test('names and directories', async () => {
    const { files } = sandbox
    assert.equal(await files.makeDir('a/b'), true)
    assert.equal(await files.makeDir('a/b'), false)
    await files.write('a/b/f', 'abc')
    assert.deepEqual((await files.list('a', { depth: 2 })).map((one) => [one.path, one.type]), [
      ['/home/user/a/b', 'dir'],
      ['/home/user/a/b/f', 'file'],
    ])
    const info = await files.getInfo('a/b/f')
    assert.deepEqual([info.size, info.permissions, info.owner], [3, '-rw-r--r--', 'user'])
    assert.equal((await files.rename('a/b/f', 'c/g')).path, '/home/user/c/g')
    assert.equal(await files.exists('a/b/f'), false)
    await files.remove('a')
    assert.equal(await files.exists('a'), false)
  })

  test('outside home', async () => {
    const names = (await sandbox.files.list('/')).map((one) => one.name)
    assert.ok(['etc', 'home', 'usr'].every((name) => names.includes(name)))
    assert.match(await sandbox.files.read('/etc/os-release'), /NAME=/)
    await sandbox.files.write('real', 'abc')
    await sandbox.commands.run('ln -s real link')
    const info = await sandbox.files.getInfo('link')
    assert.deepEqual([info.type, info.symlinkTarget], ['file', '/home/user/real'])
    assert.equal(await sandbox.files.read('link'), 'abc')
  })

  test('what is refused', async () => {
    await assert.rejects(sandbox.files.read('none'), NotFoundError)
    await assert.rejects(sandbox.files.read('/etc/shadow'), NotFoundError)
    await assert.rejects(sandbox.files.list('none'), NotFoundError)
    await assert.rejects(sandbox.files.read('.'), InvalidArgumentError)
    await assert.rejects(sandbox.files.write('/etc/x', 'x'), SandboxError)
    await assert.rejects(sandbox.files.list('.', { user: 'root' }), AuthenticationError)
    const { diskTotal } = (await sandbox.getMetrics()).at(-1)
    await assert.rejects(sandbox.files.write('large', new ArrayBuffer(diskTotal + 1)), NotEnoughSpaceError)
  })

  test('signed addresses', async () => {
    await sandbox.files.write('plot.png', 'picture')
    const url = await sandbox.downloadUrl('plot.png')
    assert.equal(await (await fetch(url)).text(), 'picture')
    assert.equal((await fetch(url.replace('plot', 'other'))).status, 401)
    const body = new FormData()
    body.append('file', new Blob(['up']), 'whatever')
    const up = await sandbox.uploadUrl('up.txt', { useSignatureExpiration: 600 })
    assert.equal((await fetch(up, { method: 'POST', body })).status, 200)
    assert.equal(await sandbox.files.read('up.txt'), 'up')
  })

  test('watching', async () => {
    await sandbox.files.makeDir('watched')
    const seen = []
    const handle = await sandbox.files.watchDir('watched', (event) => void seen.push(`${event.name} ${event.type}`), {
      recursive: true,
      timeoutMs: 0,
    })
    await sandbox.files.write('watched/new', 'x')
    await eventually(() => seen.includes('new create') && seen.includes('new write'))
    await sandbox.commands.run('mkdir watched/d && echo x > watched/d/f && rm watched/new')
    await eventually(() => seen.includes('d/f create') && seen.includes('new remove'))
    await handle.stop()
    await assert.rejects(sandbox.files.watchDir('nowhere', () => {}), NotFoundError)
  })
})

describe('commands', () => {
  test('what a command says and how it ends', async () => {
    const out = []
    const result = await sandbox.commands.run('echo one; echo two >&2; pwd; echo $K $A', {
      envs: { A: 'b' },
      onStdout: (data) => void out.push(data),
    })
    assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['one\n/home/user\nV b\n', 'two\n', 0])
    assert.equal(out.join(''), result.stdout)
    await assert.rejects(sandbox.commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3)
    await assert.rejects(sandbox.commands.run('id', { user: 'root' }), AuthenticationError)
    await assert.rejects(sandbox.commands.run('pwd', { cwd: '/none' }), InvalidArgumentError)
    await assert.rejects(sandbox.commands.run('sleep 600', { timeoutMs: 1000 }), TimeoutError)
  })

  test('in the background, with input, by others', async () => {
    const handle = await sandbox.commands.run('read line; echo got $line; cat', { background: true, stdin: true, timeoutMs: 0 })
    const listed = await sandbox.commands.list()
    assert.deepEqual(listed.find((one) => one.pid === handle.pid).args, ['-l', '-c', 'read line; echo got $line; cat'])
    await handle.disconnect()
    const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 })
    await sandbox.commands.sendStdin(handle.pid, 'one\ntwo\n')
    await sandbox.commands.closeStdin(handle.pid)
    assert.equal((await again.wait()).stdout, 'got one\ntwo\n')
    const sleeper = await sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 })
    assert.equal(await sandbox.commands.kill(sleeper.pid), true)
    await assert.rejects(sleeper.wait(), CommandExitError)
    assert.equal(await sandbox.commands.kill(sleeper.pid), false)
  })

  test('terminal', async () => {
    let said = ''
    const decoder = new TextDecoder()
    const pty = await sandbox.pty.create({
      cols: 80,
      rows: 24,
      onData: (data) => void (said += decoder.decode(data, { stream: true })),
      timeoutMs: 0,
    })
    const type = (text) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(text))
    await type('echo $((6*7)) there\n')
    await eventually(() => said.includes('42 there'))
    await sandbox.pty.resize(pty.pid, { cols: 132, rows: 50 })
    await type('stty size\n')
    await eventually(() => said.includes('50 132'))
    assert.equal(await sandbox.pty.kill(pty.pid), true)
    await assert.rejects(pty.wait(), CommandExitError)
  })
})
