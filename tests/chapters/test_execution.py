"""Every chapter, and every lab in its solution edition, runs from top to bottom on a CPU within Binder's memory."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rooflab import logbook
from rooflab.execute import execute

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("s*/u*.ipynb"))
OTHERS = [ROOT / "chapters" / "index.ipynb", *sorted((ROOT / "solutions").glob("s*/lab*.ipynb"))]
BINDER_BYTES = 2e9


def outputs_of(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.xdist_group("chapters")  # one after the other: they measure
@pytest.mark.parametrize("path", [*CHAPTERS, *OTHERS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_it_runs_on_a_cpu(path, tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLAB_LOGBOOK", str(tmp_path / "logbook.jsonl"))
    # What is measured beyond the caches is as large as the memory allows, which on Binder is this.
    environment = {"ROOFLAB_DEVICE": "cpu", "ROOFLAB_HOME": str(tmp_path / "home"), "ROOFLAB_MEMORY": str(BINDER_BYTES)}
    run = execute(path, tmp_path, environment=environment)
    assert run.ok, run.errors
    assert 0 < run.peak_memory_bytes < BINDER_BYTES
    outputs = outputs_of(run.path)
    assert not [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert all(len(picture.metadata["image/png"]["alt"]) > 40 for picture in pictures)
    if path in CHAPTERS:
        unit = path.relative_to(ROOT / "chapters").with_suffix("").as_posix()
        assert pictures
        logged = set(logbook.values_of(unit))
        for record in (ROOT / "records").glob(f"*/{path.stem}.json"):
            kept = json.loads(record.read_text(encoding="utf-8"))["values"]
            assert set(kept) == logged, f"{record} does not fit this unit any more: record it again"
