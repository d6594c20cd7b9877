"""An answer works with arrays of 100 MB, and a global one of 40 MB stays."""

ANSWERS = {
    "normalize": """BIG = np.ones(5_000_000)


def normalize(x):
    work = np.ones(12_000_000)
    return x / x.sum(axis=1, keepdims=True) * work[0]
""",
}
