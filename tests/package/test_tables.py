"""Numbers side by side: in text, in HTML, in the unit that the column's name says."""

import math
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from rooflab import costs
from rooflab.measurement import Measurement
from rooflab.tables import cell, heading, render_html, render_text, table


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("median_s", 0.00234, "2.34 ms"),
        ("bytes", 2e9, "2 GB"),
        ("derived_bytes", 1000, "1 kB"),
        ("bytes_per_s", 4.28e12, "4.28 TB/s"),
        ("copy_flops_per_s", 1e12, "1 TFLOP/s"),
        ("counted_flops", 2000.0, "2 kFLOP"),
        ("intensity", 12.5, "12.5 FLOP/byte"),
        ("calls", 12345, "12,345"),
        ("torch / bound", 1.2345, "1.23"),
        ("bound by", "overhead", "overhead"),
        ("median_s", None, "–"),
        ("median_s", math.nan, "–"),
        ("median_s", np.float64(math.nan), "–"),
        ("share", np.float32(math.nan), "–"),
        ("median_s", np.float32(0.5), "500 ms"),
        ("n", np.int64(4096), "4,096"),
        ("settled", True, "yes"),
        ("settled", np.bool_(False), "no"),
    ],
)
def test_cells(column, value, text):
    assert cell(column, value) == text


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("median_s", "median"),
        ("bytes_per_s", "bandwidth"),
        ("copy_bytes_per_s", "copy bandwidth"),
        ("measured_flops_per_s", "measured rate"),
        ("derived_flops", "derived FLOPs"),
        ("fp32_flops_per_s", "fp32 rate"),
        ("torch / bound", "torch / bound"),
        ("bound by", "bound by"),
    ],
)
def test_headings(column, text):
    assert heading(column) == text


def test_text():
    assert render_text(["", "a", "long"], [["x", "1", "2"], ["longer", "100", "–"]]) == (
        "       |   a | long\nx      |   1 |    2\nlonger | 100 |    –"
    )


def test_without_a_header():
    rows = [["device", "AMD"], ["note", "a longer text"]]
    assert render_text(["", ""], rows) == "device | AMD\nnote   | a longer text"
    html = render_html(["", ""], rows)
    assert "<thead>" not in html
    assert "text-align:right" not in html


def test_a_text_as_long_as_a_book_is_cut_soon():
    begun = time.process_time()
    shown = render_text(["", "remark"], [["ada", "\u4e2d" * 10**6]], width=40)
    assert shown.splitlines()[1] == f"ada | {chr(0x4E2D) * 15}..."
    assert time.process_time() - begun < 5


def test_what_does_not_fit_goes_on_below():
    shown = render_text(["step", "why"], [["1 naive", "one two three four five six"]], width=30, wrap=True)
    assert shown.splitlines() == ["step    | why", "1 naive | one two three four", "        | five six"]


def test_no_rows():
    assert render_text(["", "a"], []) == " | a"
    assert "<tbody></tbody>" in render_html(["", "a"], [])


class Strict(HTMLParser):
    """Sees to it that every tag is closed in order; collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_escaped_and_well_formed():
    nasty = "<script>\"&'"
    html = render_html([nasty, nasty], [[nasty, nasty]], caption=nasty)
    page = Strict()
    page.feed(html)
    page.close()
    assert page.open == []
    assert page.texts == [nasty] * 5
    assert '<th scope="row"' in html
    assert '<th scope="col"' in html


def test_rows_may_be_objects_or_mappings(capsys):
    m = Measurement("m", (1e-3, 1e-3), work=costs.copy(1000, "fp32"))
    table({"object": m, "mapping": {"median_s": 2e-3}}, columns=["median_s", "bytes_per_s"], caption="Two <rows>")
    assert capsys.readouterr().out == (
        "Two <rows>\n        | median | bandwidth\nobject  |   1 ms |    8 MB/s\nmapping |   2 ms |         –\n"
    )
    with pytest.raises(AttributeError, match="no_such"):
        table({"object": m}, columns=["no_such"])


def test_odd_values_stay_on_their_line(capsys):
    row = {"list_s": [1, 2], "array": np.ones(2), "lines": "a\nb", "number": 10**400, "map": {"x": 1}}
    table({1: row}, columns=list(row))
    head, line = capsys.readouterr().out.splitlines()
    assert [text.strip() for text in line.split("|")] == ["1", "[1, 2]", "[1. 1.]", "a b", "inf", "{'x': 1}"]
    assert len(head.split("|")) == 6


@pytest.mark.parametrize(
    ("rows", "columns", "says"),
    [
        ([{"a": 1}], ["a"], "expected rows as name and values, .*; found a list"),
        ({"r": {"a": 1}}, "a", "expected names of columns in a list, .*; found 'a'"),
        ({"r": {1: 1}}, [1], "expected names of columns in a list"),
        ({"r": 1j}, ["colour"], "expected rows that have 'colour'; 'r' is a complex, which has none"),
    ],
)
def test_what_is_no_table(rows, columns, says, capsys):
    with pytest.raises((TypeError, AttributeError), match=says):
        table(rows, columns=columns)
    assert capsys.readouterr().out == ""


def test_an_empty_table(capsys):
    table({}, columns=[])
    table({}, columns=["a"])
    assert capsys.readouterr().out.split() == ["|", "a"]


def test_measurements_that_something_disturbed_are_said_to_be(capsys):
    steady, wide = Measurement("a", (1.0, 1.0, 1.0)), Measurement("b", (1.0, 2.0, 3.0))
    table({"a": steady}, columns=["median_s"])
    assert "Disturbed" not in capsys.readouterr().out
    table({"a": steady, "b": wide, "c": {"median_s": 1}}, columns=["median_s"])
    assert "Disturbed: 1 of 2 measurements, spread up to 60% of the median." in capsys.readouterr().out
