"""Lines and cells with %timeit, %time and %%time."""

from arena import code

ANSWERS = {"primes": "%time PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nCOUNT = len(PRIMES)\n"}


def hand_in(notebook):
    added = [
        "%timeit -n 2 -r 2 sum(range(100))",
        "%%time\ntotal = sum(range(100))",
        "%%timeit -n 1 -r 1\npairs([1], 2)",
    ]
    notebook["cells"] += [code(source) for source in added]
    return notebook
