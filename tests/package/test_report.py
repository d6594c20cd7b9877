import base64
import json
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rooflab.classroom import ExerciseScore, Grade, Grading
from rooflab.execute import Execution, Failure
from rooflab.files import OutputError
from rooflab.reporting import write_report
from rooflab.reporting.cells import self_contained
from rooflab.reporting.mathml import to_html
from rooflab.reporting.roofsvg import roofline_svg

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
BADGE = "[![Open in Colab](https://colab.example.org/badge.svg)](https://colab.example.org/x.ipynb)"
DEVICE = {
    "rooflab": "0.1.0",
    "device": {"device": "NVIDIA H200", "kind": "cuda", "note": "a <note>"},
    "versions": {"torch": "2.11.0"},
    "ceilings": {
        "bytes_per_s": 4.28e12,
        "flops_per_s": {"fp32": 5.1e13, "bf16": 7.2e14},
        "launch_s": 1e-5,
        "date": "2026-11-29",
        "label": "NVIDIA H200",
        "measured": True,
    },
    "datasheet": {"bytes_per_s": 4.8e12, "flops_per_s": {"bf16": 9.89e14}},
    "missing": [],
}


def shown(metadata=None, **data):
    kinds = {"png": "image/png", "svg": "image/svg+xml", "html": "text/html", "text": "text/plain"}
    kinds["widget"] = "application/vnd.jupyter.widget-view+json"
    data = {kinds[name]: value for name, value in data.items()}
    return new_output("display_data", data, metadata=metadata or {})


def notebook():
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"
    table = (
        "<table onclick='x()' style='background:url(https://e.org/i.png)'><tr><td>cell</td></tr></table>"
        "<link rel=stylesheet href='https://e.org/s.css'>"
    )
    outputs = [
        new_output("stream", name="stdout", text="\x1b[31mred\x1b[0m <b>\n"),
        shown({"image/png": {"alt": 'It "grows". So.', "width": 640}}, png=PNG, text="x"),
        shown(png=PNG, text="<Figure size 640x480 with 1 Axes>"),
        shown(svg=drawing, text="a drawing"),
        shown(html="<script src='https://cdn.example.org/a.js'></script>", text="the fallback"),
        shown(widget={"model_id": "1"}, text="IntSlider(value=0)"),
        shown(html=table, text="a table"),
        new_output("execute_result", {"text/plain": "42 < 43"}),
        new_output("error", ename="ValueError", evalue="no", traceback=["Traceback", "\x1b[31mNo\x1b[0m: no <way>"]),
    ]
    ceilings = "$$t = \\max\\left(t_0, \\frac{B}{\\beta}\\right)$$\n\n### Deeper\n\n![p](https://e.org/p.png)"
    return new_notebook(
        cells=[
            new_markdown_cell(f"# What does it cost?\n\n{BADGE}\n\nText with $t_0 < 1$ and [a lab](../labs/x.ipynb)."),
            new_code_cell("x = 1 < 2\nprint('ü')", execution_count=1, outputs=outputs),
            new_markdown_cell(f"## Two ceilings\n\n{ceilings}"),
            new_code_cell("hidden()", metadata={"tags": ["hide-input"]}),
            new_markdown_cell("## Two ceilings"),
        ]
    )  # fmt: skip


def execution(*errors):
    return Execution(
        "u1_demo", Path("u1.ipynb"), Path("out/u1.ipynb"), notebook(), 83.0, (1.0, 2.0), 2, 1_500_000_000, errors
    )


def grading(points):
    exercises = [
        (ExerciseScore("a", "Exercise 1: a & b", got, 5), ExerciseScore("w", "Why", 0, 4, written=True))
        for got in (0, points)
    ]
    return Grading("s1/lab1", Grade("blank", exercises[0]), Grade("solved", exercises[1]), 9.0)


class Reader(HTMLParser):
    """Everything that a browser would load, and every anchor."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.ids, self.targets, self.images, self.open = [], [], [], [], []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        if tag == "a":
            self.targets.append(given["href"])
        elif tag == "img":
            self.images.append(given)
        assert not any(name.startswith("on") for name in given)
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        self.loads += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        assert "url(" not in given.get("style", "")
        if tag not in ("meta", "img", "br", "line", "circle", "mspace"):
            self.open.append(tag)

    handle_startendtag = None

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text += data


Reader.handle_startendtag = Reader.handle_starttag


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "deep" / "report.html"
    return write_report(
        path, title="A tour", device=DEVICE, executions=[execution()], gradings=[grading(5)], seconds=83.4
    )


def test_nothing_is_loaded_from_anywhere(page):
    text = page.read_text(encoding="utf-8")
    read = Reader(text)
    assert read.loads
    assert all(source.startswith("data:image/") for source in read.loads)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_every_anchor_exists_once_and_every_link_leads_somewhere(page):
    read = Reader(page.read_text(encoding="utf-8"))
    assert len(read.ids) == len(set(read.ids))
    for target in read.targets:
        assert target.startswith("https://") or target.removeprefix("#") in read.ids, target
    assert "u1_demo-1" in read.ids
    assert "u1_demo-2" in read.ids


def test_pictures_keep_their_alternative_text_in_gallery_and_notebook(page):
    images = Reader(page.read_text(encoding="utf-8")).images
    alts = [image["alt"] for image in images]
    assert alts == ['It "grows". So.', "Figure of What does it cost?", "a drawing"] * 2
    assert images[0]["style"] == "width:640px"


def test_what_the_page_says(page):
    text = Reader(page.read_text(encoding="utf-8")).text
    for said in (
        "all went well",
        "NVIDIA H200",
        "a <note>",
        "4.28 TB/s",
        "89 %",
        "2 of 2",
        "1:23",
        "1.50 GB",
        "untouched 0 / 5, solved 5 / 5",
        "by hand, 4",
        "Exercise 1: a & b",
        "red",
        "<b>",
        "the fallback",
        "An interactive widget stands here",
        "42 < 43",
        "no <way>",
        "print('ü')",
        "Open in Colab",
    ):
        assert said in text, said
    assert "IntSlider" not in text
    assert "cdn.example.org" not in text
    assert text.count("What does it cost?") == 5  # contents, what ran, figures, the notebook's own heading, one alt


def test_formulas_are_mathml_when_the_converter_is_there(page):
    pytest.importorskip("latex2mathml", reason="without latex2mathml formulas stay TeX, which the next test covers")
    text = page.read_text(encoding="utf-8")
    assert '<math alttext="t_0 &lt; 1"' in text
    assert "<mfrac>" in text
    assert "align*" in to_html(r"\begin{align*} a &= b \end{align*}", display=True)
    aligned = to_html(r"\begin{aligned} a &= b \\ &= c \end{aligned}", display=True)
    assert aligned.count("<mtr>") == 2
    assert to_html(r"\foo{x}", display=False) == '<code class="tex">\\foo{x}</code>'
    assert '<mi mathvariant="normal">bytes</mi>' in to_html(r"\mathrm{bytes}", display=False)


def test_without_the_converter_formulas_stay_legible(monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    assert to_html(" t_0 < 1 ", display=False) == '<code class="tex">t_0 &lt; 1</code>'
    assert to_html("x", display=True) == '<p><code class="tex">x</code></p>'


def test_what_went_wrong_stands_first(tmp_path):
    failure = Failure("u1_demo", 2, 2, "f(<x>)", "ValueError: no & no")
    failed = Grading("s1/lab2", Grade("blank", ()), Grade("solved", ()), 1.0, "nbgrader failed: no")
    path = write_report(
        tmp_path / "r.html",
        title="t",
        device=None,
        executions=[execution(failure)],
        gradings=[grading(4), failed],
        problems=["the device: gone"],
    )
    text = Reader(path.read_text(encoding="utf-8")).text
    assert "4 problems" in text
    for sentence in (
        "the device: gone",
        "FAILED u1_demo, code cell 2 of 2 (f(<x>)): ValueError: no & no",
        "s1/lab1: untouched 0 points (expected 0), solved 4 (expected 5)",
        "s1/lab2: nbgrader failed: no",
    ):
        assert text.index(sentence) < text.index("What ran", text.index("What went wrong")), sentence


def test_a_report_of_nothing_is_a_page_all_the_same(tmp_path):
    path = write_report(tmp_path / "r.html", title="t", device=None, executions=[])
    assert "No notebook was run." in path.read_text(encoding="utf-8")


def test_a_disk_that_fills_up_leaves_no_half_report(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="the disk is full"):
        write_report(tmp_path / "r.html", title="t", device=None, executions=[])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fragment", "kept"),
    [
        ("<a href='javascript:x()'>t</a>", "t"),
        ("<a href='other.ipynb'>t</a>", "t"),
        ("<a href='https://e.org'>t</a>", '<a href="https://e.org">t</a>'),
        ("<img src='data:image/png;base64,AA' alt='a'>", '<img alt="a" src="data:image/png;base64,AA"/>'),
        ("<svg><image href='https://e.org/i.png'></image></svg>", '<svg><span class="gone"></span></svg>'),
        ("<style>@import 'https://e.org'</style><b onmouseover=x()>t</b>", "<b>t</b>"),
    ],
)
def test_self_contained(fragment, kept):
    assert self_contained(fragment) == kept


def test_the_roofline_fits_into_its_frame():
    for factor in (1e-3, 1, 1e3):
        ceilings = {"bytes_per_s": 2e10 * factor, "flops_per_s": {"fp32": 1e11, "bf16": 4e12, "fp8": 8e12}}
        svg = roofline_svg(ceilings)
        numbers = [float(part.split('"')[1]) for name in ("x1=", "x2=", "cx=") for part in svg.split(name)[1:]]
        heights = [float(part.split('"')[1]) for name in ("y1=", "y2=", "cy=") for part in svg.split(name)[1:]]
        assert 0 <= min(numbers) <= max(numbers) <= 520
        assert 0 <= min(heights) <= max(heights) <= 300
        assert svg.count("<circle") == 3
    assert roofline_svg({"bytes_per_s": 1.0, "flops_per_s": {}}) == ""


def test_a_browser_loads_the_page_alone(page):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    loaded, said = [], []
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        )
        tab = browser.new_page(viewport={"width": 390, "height": 800})
        tab.on("request", lambda request: loaded.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(page.as_uri())
        width = tab.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert [url for url in loaded if not url.startswith("data:")] == [page.as_uri()]
    assert said == []
    assert width <= 390  # nothing sticks out on a phone


def test_the_page_is_one_document(page):
    text = page.read_text(encoding="utf-8")
    assert json.dumps(text)  # no lone surrogates
    assert Reader(text).open == []
    assert text.startswith("<!DOCTYPE html>")
