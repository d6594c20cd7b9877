"""An answer works in threads, all of which are joined."""

ANSWERS = {
    "pairs": """from concurrent.futures import ThreadPoolExecutor


def pairs(values, total):
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(lambda k: values[:k].count(total - values[k]), range(len(values))))
""",
}
