"""CT-07: Wait for many things at once.

Claim: Event loops, servers on loopback, subprocesses and top-level await work.
Technique: An asyncio server and clients on loopback, a subprocess, a thread, and await in a cell.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""


def inside():
    import asyncio

    async def work():
        async def answer(reader, writer):
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def ask(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"hello {number}\n".encode())
            return (await reader.readline()).decode().strip()

        said = await asyncio.gather(*(ask(number) for number in range(20)))
        process = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return said[19], out.decode().strip(), await asyncio.to_thread(lambda: "thread")

    loop = asyncio.new_event_loop()
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(loop.run_until_complete(work())))
    thread.start()
    thread.join()
    attack.say("said", found)


def outside(trial):
    trial.equal(trial.found.get("said"), [["HELLO 19", "sub", "thread"]], "what it says")
    trial.equal(trial.ask("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')"), "awaited", "await in a cell")
