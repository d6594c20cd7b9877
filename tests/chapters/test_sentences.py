"""Titles that a chapter makes from what it has measured: cells of its source, run on measurements that are given."""

from pathlib import Path
from types import SimpleNamespace

import pytest

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"


def cell(unit, holding):
    """The cell of a chapter's source that holds this text."""
    (found,) = [part for part in (CHAPTERS / f"{unit}.py").read_text().split("\n# %%\n") if holding in part]
    return found


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ((1, 5, 9.5, 9.8, 10), "near its peak from n = 256 on"),
        ((1, 5, 10, 6, 9.5), "near its peak from n = 1,024 on"),
        ((1, 5, 10, 6, 5), "below its peak again at n = 1,024"),
    ],
)
def test_a_product_is_near_its_peak_where_all_larger_ones_are(rates, message):
    source = cell("s1_measurement/u2_roofline", "products = {fmt:")
    values = dict(zip((64, 128, 256, 512, 1024), rates, strict=True))
    names = {"FORMATS": ["fp32"], "DTYPE": "fp32", "SIDES": list(values), "device": None,
             "matmul_rate": lambda device, fmt, n: SimpleNamespace(flops_per_s=values[n])}  # fmt: skip
    exec(source, names)
    assert names["message"] == message
