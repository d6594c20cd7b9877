"""What the tests of the speedrun's data share: small wheels, made here, and their pins."""

import random
import zipfile
from pathlib import Path

from rooflab.speedrun.data.code import Pins
from rooflab.speedrun.data.fetching import Wheel, sha256_of

WORDS = ("array", "batch", "cache", "device", "entry", "field", "graph", "handle", "index", "join", "kernel", "layer")


def source(seed: int, functions: int = 12) -> str:
    """Python source that no other seed gives."""
    draw = random.Random(seed)
    lines = ['"""A module of its own."""', ""]
    for _ in range(functions):
        a, b, c = (draw.choice(WORDS) for _ in range(3))
        number = draw.randrange(10**6)
        lines += [f"def {a}_{b}_{number}({a}, {b}):", f"    {c} = {a}.{b}_{c}({b}, key={number}, mode='{a}-{c}')"]
        lines += [f"    return [{c}.{a}(item) for item in {b} if item > {number}]", "", ""]
    return "\n".join(lines)


def make_wheel(folder: Path, name: str, files: dict[str, str], *, part: str = "train", licence: str = "MIT") -> Wheel:
    """Write a wheel that pip takes, and return its pin."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    told = {
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nLicense-Expression: {licence}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in [*files, *told, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as out:
        for inside, text in {**files, **told, f"{info}/RECORD": record}.items():
            out.writestr(zipfile.ZipInfo(inside), text)
    return Wheel(name, "1.0", path.name, licence, path.stat().st_size, 0, part, sha256_of(path))


def small_pins(folder: Path) -> Pins:
    """Three small wheels: one for validation; training holds a copy of a file of it, and one of an own file."""
    copied = source(1)
    return Pins(
        "",
        (
            make_wheel(folder, "alpha", {f"alpha/m{i}.py": source(100 + i) for i in range(4)}),
            make_wheel(folder, "beta", {"beta/a.py": copied, "beta/b.py": source(100), "beta/c.py": source(3)}),
            make_wheel(folder, "gamma", {"gamma/a.py": copied, "gamma/b.py": source(2)}, part="valid"),
        ),
    )
