"""How was the corpus `code` of the speedrun chosen? What its maintainer runs; readers never need it.

    tools/corpus_pins.py pin WHEELS         write code_wheels.toml from a folder of wheels (the list of names is below)
    tools/corpus_pins.py vocabulary WHEELS  learn the byte pairs from the training files: code_merges.npy
    tools/corpus_pins.py digest WHEELS      encode all, and write the digest that must come out
    tools/corpus_pins.py table              write the table of packages into docs/speedrun-data.md

>>> from email import message_from_string
>>> licence_of(message_from_string("License: BSD\\nClassifier: License :: OSI Approved :: BSD License"))
'BSD'
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections import Counter
from dataclasses import fields, replace
from email import message_from_bytes
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "shared"))

import numpy as np  # noqa: E402

from rooflab.files import write_atomic  # noqa: E402
from rooflab.speedrun.data import bytepairs, code  # noqa: E402
from rooflab.speedrun.data.fetching import Wheel, sha256_of  # noqa: E402
from rooflab.speedrun.data.sieve import RULES  # noqa: E402
from rooflab.units import format_si  # noqa: E402

DATA = ROOT / "shared" / "rooflab" / "speedrun" / "data"
PINS, MERGES, PAGE = DATA / "code_wheels.toml", DATA / "code_merges.npy", ROOT / "docs" / "speedrun-data.md"
VALID = "celery nibabel optuna pypdf scrapy sphinx werkzeug"
TRAIN = """
amaranth cirq-core conan dagster dask datasets diffusers distributed django flax fonttools ibis-framework ipython jax
keras keystone lightning mitmproxy monai mypy networkx nltk nova openpyxl pennylane pygments pyomo pytest pyvista
speechbrain sqlalchemy sqlfluff sqlglot swift sympy textual torch-geometric transformers trimesh twisted xarray
xlsxwriter
"""
# What METADATA says -> SPDX. "BSD" does not say of how many clauses.
LICENCES = {
    "apache-2.0": "Apache-2.0", "apache 2.0 license": "Apache-2.0", "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0", "mit": "MIT", "mit license": "MIT", "bsd": "BSD", "bsd license": "BSD",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "psf-2.0": "PSF-2.0",
}  # fmt: skip
_BEGIN, _END = "<!-- begin generated -->", "<!-- end generated -->"
_HEAD = """\
# What the corpus `code` is made of: pinned wheels (py3-none-any), their licences as their METADATA says them, the bytes
# of source that are kept, and the SHA-256 of the tokens that must come out. Written by tools/corpus_pins.py.
"""


def licence_of(metadata: Message) -> str:
    """The licence that a wheel's METADATA names.

    Raises:
        ValueError: none of those that the corpus takes.
    """
    classes = [each.split("::")[-1] for each in metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    for said in (metadata["License-Expression"], metadata["License"], *classes):
        if found := LICENCES.get((said or "").strip().lower()):
            return found
    raise ValueError(f"{metadata['Name']}: expected a permissive licence, found {metadata['License'] or classes}")


def pin(folder: Path) -> None:
    """Write the pins of all wheels, without the sizes and the digest that only the sieve and the encoder know."""
    wheels = []
    for part, names in (("valid", VALID), ("train", TRAIN)):
        for name in sorted(names.split()):
            (path,) = folder.glob(f"{re.sub('[-.]', '_', name)}-*.whl")
            with zipfile.ZipFile(path) as opened:
                (inside,) = (each for each in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
                metadata = message_from_bytes(opened.read(inside))
            size = path.stat().st_size
            wheels.append(
                Wheel(name, metadata["Version"], path.name, licence_of(metadata), size, 0, part, sha256_of(path))
            )
    sizes: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for wheel, _, text in code.documents(folder, code.Pins("", tuple(wheels)), left_out):
        sizes[wheel.name] += len(text)
    print({reason: round(count / 1e6, 1) for reason, count in left_out.items()})
    write(code.Pins("", tuple(replace(wheel, source_bytes=sizes[wheel.name]) for wheel in wheels)))


def write(pins: code.Pins) -> None:
    """Write the pins as TOML."""
    entries = [
        "\n[[wheel]]\n" + "".join(f"{each.name} = {_toml(getattr(wheel, each.name))}\n" for each in fields(wheel))
        for wheel in pins.wheels
    ]
    write_atomic(PINS, f'{_HEAD}digest = "{pins.digest}"\n' + "".join(entries))


def _toml(value: str | int) -> str:
    return f"{value:_}" if isinstance(value, int) else f'"{value}"'


def vocabulary(folder: Path) -> None:
    """Learn the byte pairs from the training files; pieces that occur once teach nothing."""
    pieces: Counter[bytes] = Counter()
    for wheel, _, text in code.documents(folder, code.pinned()):
        if wheel.part == "train":
            pieces.update(bytepairs.PIECES.findall(text))
    merges = bytepairs.learn({piece: count for piece, count in pieces.items() if count > 1})
    with MERGES.open("wb") as file:
        np.save(file, merges, allow_pickle=False)
    print(f"{len(merges):,} merges from {sum(pieces.values()):,} pieces, {len(pieces):,} of them different")


def write_digest(folder: Path) -> None:
    """Encode all and pin the digest that comes out."""
    pins = replace(code.pinned(), digest="")
    with tempfile.TemporaryDirectory() as temporary:
        told = code.make_code(folder=Path(temporary), wheels=folder, pins=pins)
    write(replace(pins, digest=told["digest"]))
    print(told)


def table() -> str:
    """The table of packages, as the page shows it."""
    rows = ["| package | version | licence | wheel | source kept | part |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {wheel.name} | {wheel.version} | {wheel.licence} | {format_si(wheel.wheel_bytes, 'B')} | "
        f"{format_si(wheel.source_bytes, 'B')} | {'validation' if wheel.part == 'valid' else 'training'} |"
        for wheel in code.pinned().wheels
    ]
    rules = [f"* **{reason}**: {rule}." for reason, rule in RULES.items()]
    return "\n".join([*rules, "", *rows])


def with_table(page: str) -> str:
    """The page with what is generated in it brought up to date."""
    return re.sub(f"(?s){_BEGIN}.*{_END}", lambda _: f"{_BEGIN}\n{table()}\n{_END}", page)


def main(verb: str = "", folder: str = "") -> int:
    """Do what the first word says."""
    if verb == "table":
        write_atomic(PAGE, with_table(PAGE.read_text(encoding="utf-8")))
    elif folder and (step := {"pin": pin, "vocabulary": vocabulary, "digest": write_digest}.get(verb)):
        step(Path(folder))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
