"""The generated parts of the README."""

import json
from pathlib import Path

import pytest

import readme

PARTS = ("badges", "install", "units", "hardware")
ROOT = Path(__file__).resolve().parents[2]


def a_record(name: str, unit: str, date: str, **versions: str) -> dict[str, object]:
    return {
        "unit": f"s1_measurement/{unit}", "date": f"{date}T10:00:00+00:00", "commit": "0123456789abcdef",
        "device": {"name": name, "kind": "cuda"}, "versions": versions, "values": {},
    }  # fmt: skip


def test_a_part_is_replaced_and_nothing_else():
    text = "before\n<!-- units -->\nold\n<!-- /units -->\nafter\n"
    assert readme.replace(text, "units", "new | \\1") == "before\n<!-- units -->\nnew | \\1\n<!-- /units -->\nafter\n"


def test_a_missing_place_is_named():
    with pytest.raises(readme.PartMissing, match="<!-- hardware -->"):
        readme.replace("nothing here", "hardware", "x")


def test_the_hardware_table_has_a_row_for_each_device_with_its_latest_run():
    table = readme.hardware(
        [
            a_record("NVIDIA H200", "u1_step_cost", "2026-11-28", torch="2.11.0"),
            a_record("NVIDIA H200", "u2_roofline", "2026-11-29", torch="2.13.0", jax="0.11.2"),
            a_record("AMD EPYC", "u1_step_cost", "2026-11-27"),
        ]
    )
    rows = table.splitlines()[2:]
    assert rows == [
        "| AMD EPYC | cuda | u1_step_cost | 2026-11-27 |  | 0123456 |",
        "| NVIDIA H200 | cuda | u1_step_cost, u2_roofline | 2026-11-29 | torch 2.13.0, jax 0.11.2 | 0123456 |",
    ]


def test_records_of_kernels_are_told_by_their_number():
    names = ("u1_step_cost", "kernels_softmax", "kernels_matmul", "ladder_softmax")
    row = readme.hardware([a_record("NVIDIA H200", name, "2026-11-28") for name in names]).splitlines()[2]
    cell = row.split("|")[3].strip()
    assert cell == "u1_step_cost, [2 kernels](docs/kernels.md), [1 ladders](docs/kernels.md)"


def test_without_records_a_sentence_stands_there():
    assert "make record" in readme.hardware([])


def small_book(root: Path) -> Path:
    notebook = {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# A | title\n", "\n", "How fast is it?\n"]}],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    path = root / "chapters" / "s1_first" / "u1_thing.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook))
    (root / "shared" / "rooflab").mkdir(parents=True)
    (root / "shared" / "rooflab" / "__init__.py").write_text("")
    (root / "pyproject.toml").write_text('[tool.rooflab]\nowner = "ada"\nrepository = "engine"\nbranch = "trunk"\n')
    return root


def test_units_and_badges_come_from_the_book_and_from_pyproject(tmp_path):
    parts = "".join(f"<!-- {part} --><!-- /{part} -->\n" for part in ("badges", "install", "units", "hardware"))
    text = readme.generate(parts, small_book(tmp_path))
    assert "| s1 u1 | [A \\| title](chapters/s1_first/u1_thing.ipynb) | How fast is it? |" in text
    assert "https://colab.research.google.com/github/ada/engine/blob/trunk/chapters/index.ipynb" in text
    assert "https://mybinder.org/v2/gh/ada/engine/trunk?urlpath=lab/tree/chapters/index.ipynb" in text
    assert 'pip install "rooflab @ git+https://github.com/ada/engine@trunk"' in text
    assert readme.generate(text, tmp_path) == text


def test_the_check_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(readme, "ROOT", small_book(tmp_path))
    path = tmp_path / "README.md"
    old = "".join(f"<!-- {part} --><!-- /{part} -->\n" for part in ("badges", "install", "units", "hardware"))
    path.write_text(old)
    assert readme.main(["--check"]) == 1
    assert path.read_text() == old
    assert "make build" in capsys.readouterr().err
    assert readme.main([]) == 0
    assert readme.main(["--check"]) == 0


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"device": {"name": 1}}', "\xff", '{"device": 3}'])
def test_a_damaged_record_is_one_sentence(tmp_path, monkeypatch, capsys, text):
    monkeypatch.setattr(readme, "ROOT", small_book(tmp_path))
    (tmp_path / "README.md").write_text("".join(f"<!-- {p} --><!-- /{p} -->\n" for p in PARTS))
    path = tmp_path / "records" / "chip" / "u1_thing.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="latin-1")
    assert readme.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("records/chip/u1_thing.json is no record (")
    assert "make record" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("content", [None, b"\xff", b"\xef\xbb\xbfx"])
def test_a_readme_that_is_no_text_is_one_sentence(tmp_path, monkeypatch, capsys, content):
    monkeypatch.setattr(readme, "ROOT", small_book(tmp_path))
    if content is not None:
        (tmp_path / "README.md").write_bytes(content)
    assert readme.main([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("README.md:")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("notebook", ["{", "[]", '{"cells": [1]}', '{"cells": [{"metadata": 3, "source": [4]}]}'])
def test_a_damaged_notebook_of_the_book_is_passed_over(tmp_path, notebook):
    root = small_book(tmp_path)
    for place in ("chapters/s1_first/u1_thing.ipynb", "labs/s1_first/lab1_thing.ipynb"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(notebook)
    text = "".join(f"<!-- {p} --><!-- /{p} -->\n" for p in PARTS)
    assert "[u1_thing](chapters/s1_first/u1_thing.ipynb)" in readme.generate(text, root)


def test_wrong_usage_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "ROOT", small_book(tmp_path))
    path = tmp_path / "README.md"
    path.write_text("".join(f"<!-- {p} --><!-- /{p} -->\n" for p in PARTS))
    before = path.read_text()
    with pytest.raises(SystemExit):
        readme.main(["--chek"])
    assert path.read_text() == before


def test_a_readme_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(readme, "ROOT", small_book(tmp_path))
    path = tmp_path / "README.md"
    path.write_text("".join(f"<!-- {p} --><!-- /{p} -->\n" for p in PARTS))
    path.with_suffix(".part").mkdir()  # root may write everywhere, so a folder stands in the way
    assert readme.main([]) == 1
    assert capsys.readouterr().err == "README.md cannot be written: Is a directory.\n"
