"""RS-18: Show too much.

Claim: Results are bounded in number and size, whatever an object says about itself.
Technique: display() ten thousand times, a repr of 300 MB, a repr that recurses, one that raises and one that lies.
Source: -
Tiers: jail bounded
"""

TEMPLATE = "code-interpreter"
ENDS = ("ok", "raised", "out_of_memory")
TIMEOUT = 60
DRIVEN = True


def inside(way):
    from IPython.display import display

    attack.say(f"way {way}", True)

    class Evil:
        def __repr__(self):
            if way == 1:
                return "x" * (64 << 20)
            if way == 2:
                return repr(self)
            if way == 3:
                raise RuntimeError("no")
            return 7

        def _repr_mimebundle_(self, **_):
            return {f"text/x-{n}": "y" * 100_000 for n in range(500)} if way == 4 else None

    if way == 0:
        for number in range(10_000):
            display(number)
    else:
        display(Evil())


def outside(trial):
    for way in range(6):
        trial.run(f"inside({way})")
        cell = trial.cell
        trial.check(cell["outcome"] in ENDS, f"way {way}: {cell['outcome']}")
        trial.check(len(cell["results"]) <= 64, f"way {way}: {len(cell['results'])} results")
        size = sum(len(str(one)) for one in cell["results"])
        trial.check(size <= 24 << 20, f"way {way}: {size} bytes of results")
    trial.equal(trial.ask("print('again')"), "again", "afterwards")
