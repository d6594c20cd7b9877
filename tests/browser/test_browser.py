"""A reader and a student in a real JupyterLab: nothing breaks, dragging moves the figure, Validate tells the truth."""

import time

import pytest
from playwright.sync_api import expect

# One server for all of them, so one worker.
pytestmark = pytest.mark.xdist_group("browser")

UNIT = "chapters/s1_measurement/u2_roofline.ipynb"
LAB = "s1_measurement/lab1_timer.ipynb"
EXPLORER = ".rooflab-explorer"


def last_explorer(page) -> int:
    """The cell that shows the unit's widget."""
    return max(
        i
        for i, cell in enumerate(page.cells())
        for output in cell.get("outputs", [])
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        and "widgets." in "".join(cell["source"])
    )


def test_a_unit_runs_and_its_widget_follows_the_mouse(jupyterlab, notebook_page):
    page = notebook_page
    page.open(jupyterlab, UNIT)
    page.run_all()
    assert not page.errors()
    assert not page.unrun()
    page.show(last_explorer(page))
    explorer = page.page.locator(EXPLORER).last
    expect(explorer.locator("img").first).to_be_visible(timeout=120_000)
    before, said = page.image(explorer), explorer.locator("[role=status]").inner_text()
    page.screenshot("u2_roofline_before")
    page.drag_first_slider(explorer, 120)
    expect(explorer.locator("[role=status]")).not_to_have_text(said, timeout=120_000)
    limit = time.monotonic() + 60
    while (after := page.image(explorer)) == before and time.monotonic() < limit:
        page.page.wait_for_timeout(250)
    page.screenshot("u2_roofline_after")
    assert before[:8] == after[:8] == b"\x89PNG\r\n\x1a\n"
    assert before != after
    assert not page.problems


def test_the_map_of_the_book_opens(jupyterlab, notebook_page):
    page = notebook_page
    page.open(jupyterlab, "chapters/index.ipynb")
    page.run_all(120)
    assert not page.errors()
    assert not page.unrun()
    page.show(0)
    page.screenshot("index")
    assert not page.problems


def test_a_live_plot_grows_while_a_run_trains(jupyterlab, notebook_page):
    page = notebook_page
    page.open(jupyterlab, "fixtures/live.ipynb")
    page.start_all()
    plot = page.page.locator(".rooflab-live")
    expect(plot.locator("polyline")).to_be_visible(timeout=120_000)
    said = plot.locator("[role=status]").inner_text()
    expect(plot.locator("[role=status]")).not_to_have_text(said, timeout=60_000)
    page.screenshot("live_plot_under_way")
    page.wait_until_run(300)
    assert not page.errors()
    expect(plot.locator("[role=status]")).to_contain_text("bits per byte after 195 steps")
    assert plot.locator("circle").count() > 3  # evaluations, and their sign in the legend
    page.screenshot("live_plot_at_its_end")
    assert not page.problems


def test_an_error_in_the_kernel_is_seen(jupyterlab, notebook_page):
    """The test above could fail: a notebook with an error in it is told apart."""
    page = notebook_page
    page.open(jupyterlab, "fixtures/broken.ipynb")
    assert page.unrun() == [0, 1]
    page.run_all(60)
    # The second cell may run all the same: a kernel drops only what has reached it when a cell fails.
    assert page.errors() == ["cell 0: ZeroDivisionError: division by zero"]
    assert 0 not in page.unrun()


def test_validate_shows_the_failure_of_the_untouched_lab(jupyterlab, notebook_page):
    page = notebook_page
    page.open(jupyterlab, f"labs/{LAB}")
    told = page.validate()
    page.screenshot("lab1_timer_validate_untouched")
    assert "failed" in told.lower()
    assert not page.problems


def test_validate_shows_the_success_of_the_solved_lab(jupyterlab, notebook_page):
    page = notebook_page
    page.open(jupyterlab, f"solved/{LAB}")
    told = page.validate()
    page.screenshot("lab1_timer_validate_solved")
    assert "passes all the tests" in told.lower()
    assert not page.problems
