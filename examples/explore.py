"""A session branches: one loaded table, eight models tried on it at once, the best one kept, a mistake undone.

Needs `pip install ./sdk/python`, SILICA_URL and SILICA_KEY.
"""

from concurrent.futures import ThreadPoolExecutor

from silica import Sandbox

LOAD = """
import numpy as np
x = np.linspace(0, 6, 400)
y = np.sin(x) + np.random.default_rng(7).normal(0, 0.1, 400)
train, test = np.arange(400) % 4 != 0, np.arange(400) % 4 == 0
"""
FIT = """
model = np.polynomial.Polynomial.fit(x[train], y[train], {degree})
error = float(np.mean((model(x[test]) - y[test]) ** 2))
error
"""

with Sandbox.create(limits={"memory_bytes": 1 << 30}) as sandbox:
    sandbox.run_code(LOAD)  # loaded once
    twins = sandbox.fork(8)
    print("twins:", len(twins), "left behind:", twins[0].left_behind)

    with ThreadPoolExecutor(8) as pool:
        fits = list(pool.map(lambda twin, degree: twin.run_code(FIT.format(degree=degree)), twins, range(8)))
    errors = [float(fit.text) for fit in fits]
    best = min(range(8), key=errors.__getitem__)
    print("best degree:", best, "better than a line:", errors[best] < errors[1] / 10)

    for degree, twin in enumerate(twins):
        if degree != best:
            twin.delete()
    with twins[best] as kept:
        mark = kept.mark()
        kept.run_code("y[:] = 0  # a mistake")
        kept.undo(mark)
        print("undone:", kept.run_code("bool(abs(y).max() > 0.5)").text)
