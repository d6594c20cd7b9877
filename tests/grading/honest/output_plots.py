"""Figures of matplotlib are drawn, in a cell that was added and in an answer."""

from arena import code

ANSWERS = {
    "normalize": """import matplotlib.pyplot as plt


def normalize(x):
    return x / x.sum(axis=-1, keepdims=True)


plt.plot(normalize(np.ones((2, 3))).T)
plt.title("rows")
plt.show()
""",
}


def hand_in(notebook):
    notebook["cells"].append(code("plt.hist(TIMES_S)\nplt.show()"))
    return notebook
