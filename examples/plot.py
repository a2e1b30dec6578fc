"""A plot, as in a notebook: every open figure is saved in the current directory, without `savefig`.

    silica run examples/plot.py
"""

import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 200)
plt.plot(x, np.sin(x), label="sine")
plt.plot(x, np.cos(x), label="cosine")
plt.legend();
