"""A notebook open in a real JupyterLab: what a reader does there, and what a reader would see."""

import contextlib
import json
import random
import socket
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SECOND = 1000.0
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
# The notebook that has the focus; JupyterLab puts its application on the window (--expose-app-in-browser).
CURRENT = "window.jupyterapp.shell.currentWidget"
# What JupyterLab itself writes to the console on a machine without a network, or about its own plugins.
NOT_OURS = ("/lsp/", "favicon", "Failed to load resource", "ResizeObserver loop")


def free_port() -> int:
    """A port that nobody has, and that the system gives to nobody who asks for any before a server has taken it."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32_768
    ports = list(range(10_000, first)) if first > 11_000 else list(range(61_000, 65_536))
    random.SystemRandom().shuffle(ports)  # two processes that look at the same time are to find two
    for port in ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


class NotebookPage:
    """One notebook in one browser page."""

    def __init__(self, page: Page, screenshots: Path) -> None:
        self.page = page
        self.screenshots = screenshots
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self._note(f"page error: {error}"))
        page.on("console", lambda message: self._note(f"console: {message.text}") if message.type == "error" else None)

    def _note(self, problem: str) -> None:
        if not any(each in problem for each in NOT_OURS):
            self.problems.append(problem)

    def open(self, address: str, path: str) -> None:
        """Open a notebook, by its path below the server's root, and wait for its kernel."""
        server, _, token = address.partition("?")
        self.page.goto(f"{server}/lab/tree/{path}?{token}&reset")
        expect(self.page.locator(f"{PANEL} .jp-Cell").first).to_be_visible(timeout=180 * SECOND)
        self._wait(f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'", 180)

    def _wait(self, condition: str, seconds: float) -> None:
        self.page.wait_for_function(f"() => {condition}", timeout=seconds * SECOND, polling=250)

    def run_all(self, seconds: float = 480) -> None:
        """Run all cells; wait until every cell has run or one has stopped the rest."""
        self.start_all()
        self.wait_until_run(seconds)

    def start_all(self) -> None:
        """Choose Run, Run All Cells from the menu."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        # A notebook that JupyterLab wants to be trusted first is asked about by a dialog; ours are new and run anyway.
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        begun = f"{CURRENT}.content.widgets.some(c => c.model.type === 'code' && c.model.executionState === 'running')"
        done = f"{CURRENT}.content.widgets.some(c => c.model.type === 'code' && c.model.executionCount)"
        self._wait(f"{begun} || {done}", 60)  # before that an idle kernel says nothing

    def wait_until_run(self, seconds: float) -> None:
        """Wait until every cell has run or one has stopped the rest."""
        self._wait(
            f"{CURRENT}.sessionContext.session.kernel.status === 'idle'"
            f" && {CURRENT}.content.widgets.every(c => c.model.type !== 'code' || c.model.executionState !== 'running')"
            f" && !document.querySelector('{PANEL} .jp-InputPrompt')?.textContent.includes('*')",
            seconds,
        )

    def cells(self) -> list[dict[str, Any]]:
        """The notebook as it stands in the browser, outputs included."""
        notebook = json.loads(self.page.evaluate(f"JSON.stringify({CURRENT}.content.model.toJSON())"))
        cells: list[dict[str, Any]] = notebook["cells"]
        return cells

    def unrun(self) -> list[int]:
        """The code cells that have not run."""
        cells = self.cells()
        return [
            i for i, c in enumerate(cells)
            if c["cell_type"] == "code" and "".join(c["source"]).strip() and not c["execution_count"]
        ]  # fmt: skip

    def errors(self) -> list[str]:
        """What the kernel raised, by cell."""
        return [
            f"cell {i}: {out['ename']}: {out['evalue']}"
            for i, cell in enumerate(self.cells())
            for out in cell.get("outputs", [])
            if out["output_type"] == "error"
        ]

    def show(self, index: int) -> None:
        """Scroll to a cell: those far away are not in the page."""
        self.page.evaluate(
            f"i => {{ const n = {CURRENT}.content; n.activeCellIndex = i; n.scrollToItem(i, 'start'); }}", index
        )
        self.page.wait_for_timeout(0.5 * SECOND)

    def drag_first_slider(self, widget: Locator, pixels: float) -> None:
        """Drag the handle of the first slider with the mouse."""
        handle = widget.locator(".noUi-handle").first
        handle.scroll_into_view_if_needed()
        box = handle.bounding_box()
        assert box is not None, "the slider has a handle to drag"
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        for step in range(1, 6):
            self.page.mouse.move(x + pixels * step / 5, y)
        self.page.mouse.up()

    def image(self, widget: Locator) -> bytes:
        """The picture that a widget shows, as the browser holds it."""
        code = "async img => Array.from(new Uint8Array(await (await fetch(img.src)).arrayBuffer()))"
        return bytes(widget.locator("img").first.evaluate(code))

    def validate(self, seconds: float = 400) -> str:
        """Press nbgrader's Validate in the toolbar; returns what its dialog says, and leaves the dialog open."""
        self.page.locator(f"{PANEL} .jp-Toolbar").get_by_text("Validate", exact=True).first.click()
        dialog = self.page.locator(".jp-Dialog, .nbgrader-ErrorDialog, .nbgrader-SuccessDialog, [role=dialog]").last
        expect(dialog).to_be_visible(timeout=seconds * SECOND)
        return dialog.inner_text()

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the page among the test artefacts."""
        path = self.screenshots / f"{name}.png"
        self.page.screenshot(path=path)
        return path
