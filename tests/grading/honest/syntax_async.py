"""An answer works with asyncio in a loop of its own, and a cell awaits at its top level."""

from arena import code

ANSWERS = {
    "pairs": """import asyncio
import threading


async def count(values, total):
    await asyncio.sleep(0)
    return sum(a + b == total for k, a in enumerate(values) for b in values[:k])


def pairs(values, total):
    found = []
    worker = threading.Thread(target=lambda: found.append(asyncio.run(count(values, total))))
    worker.start()
    worker.join()
    return found[0]
""",
}


def hand_in(notebook):
    notebook["cells"].append(code("await count([1, 2], 3)"))
    return notebook
