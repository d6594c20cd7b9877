"""What a person does at JupyterHub in a browser: log in, fetch, write, submit, read feedback."""

from labpage import CURRENT, PANEL, SECOND, NotebookPage
from playwright.sync_api import expect

_WRITE = f"""answers => {{
  for (const cell of {CURRENT}.content.widgets) {{
    const marks = cell.model.getMetadata('nbgrader');
    if (marks?.solution && marks.grade_id in answers) cell.model.sharedModel.setSource(answers[marks.grade_id]);
  }}
}}"""


class Desk(NotebookPage):
    """One person's browser."""

    def __init__(self, browser, hub, user, screenshots):
        super().__init__(browser.new_context(viewport={"width": 1280, "height": 900}).new_page(), screenshots)
        self.user, self.server = user, f"{hub}/user/{user}"
        self.page.goto(f"{hub}/hub/login")
        self.page.get_by_label("Username").fill(user)
        self.page.get_by_label("Password").fill("secret")
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/lab**", timeout=120 * SECOND)
        self._settled()

    def _note(self, problem):
        if "the document's frame is sandboxed" not in problem:  # of feedback JupyterLab runs no script, and says so
            super()._note(problem)

    def _settled(self):
        self.page.wait_for_function("() => window.jupyterapp?.shell", timeout=90 * SECOND)
        self.page.evaluate("() => window.jupyterapp.restored")
        expect(self.page.locator(".jp-DirListing").first).to_be_visible(timeout=60 * SECOND)

    def close(self):
        """Put the browser away; the person's server goes on."""
        self.page.context.close()

    def menu(self):
        """Return what nbgrader's menu offers, and leave it open."""
        self.page.get_by_role("menuitem", name="Nbgrader", exact=True).click()
        items = self.page.locator(".lm-Menu .lm-Menu-itemLabel")
        expect(items.first).to_be_visible(timeout=10 * SECOND)
        return [each for each in items.all_inner_texts() if each.strip()]

    def choose(self, name):
        """Choose an item of nbgrader's menu."""
        self.menu()
        self.page.locator(".lm-Menu").get_by_text(name, exact=True).click()

    def button(self, name):
        """Return a button of the list of assignments."""
        return self.page.locator("button").get_by_text(name, exact=True).first

    def fetch(self):
        """Fetch the assignment that was handed out."""
        self.choose("Assignment List")
        expect(self.button("Fetch")).to_be_visible(timeout=60 * SECOND)
        self.button("Fetch").click()
        expect(self.button("Submit")).to_be_visible(timeout=60 * SECOND)

    def solve(self, path, answers):
        """Write answers into the notebook, by the names of its exercises, and save it."""
        self.open(f"{self.server}?", path)
        self.page.evaluate(_WRITE, answers)
        expect(self.page.locator(f"{PANEL} .jp-Cell").first).to_be_visible()
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        self._wait(f"!{CURRENT}.context.model.dirty", 30)

    def submit(self):
        """Submit the assignment from its list."""
        self.choose("Assignment List")
        expect(self.button("Submit")).to_be_visible(timeout=60 * SECOND)
        self.button("Submit").click()
        expect(self.button("Fetch Feedback")).to_be_visible(timeout=60 * SECOND)

    def fetch_feedback(self):
        """Fetch the feedback and open the page that the list leads to; returns the page's text."""
        self.page.goto(f"{self.server}/lab?reset")
        self._settled()
        self.choose("Assignment List")
        expect(self.button("Fetch Feedback")).to_be_visible(timeout=60 * SECOND)
        self.button("Fetch Feedback").click()
        link = self.page.get_by_text("(view feedback)")
        expect(link).to_be_visible(timeout=60 * SECOND)
        self.screenshot(f"hub_{self.user}_feedback_list")
        link.click()
        file = self.page.locator(".jp-DirListing-item", has_text=".html")
        expect(file).to_be_visible(timeout=30 * SECOND)
        file.dblclick()
        page = self.page.frame_locator(".jp-HTMLViewer iframe").locator("body")
        expect(page).to_contain_text("Your points", timeout=60 * SECOND)
        self.screenshot(f"hub_{self.user}_feedback")
        return page.inner_text()

    def formgrader(self):
        """Open Formgrader; returns the rows of its first page, that of all assignments."""
        self.choose("Formgrader")
        rows = self.page.frame_locator(".nbgrader-mainarea-widget iframe, iframe").locator("table tbody tr")
        expect(rows.first).to_contain_text("_", timeout=60 * SECOND)
        self.page.wait_for_timeout(SECOND)
        self.screenshot(f"hub_{self.user}_formgrader")
        return rows.all_inner_texts()

    def courses(self):
        """Open the list of courses; returns what it lists."""
        self.choose("Course List")
        listed = self.page.locator("#formgrader_list .list_item, .nbgrader-course-list .list_item, .list_item")
        expect(listed.last).to_be_visible(timeout=60 * SECOND)
        self.screenshot(f"hub_{self.user}_courses")
        return listed.all_inner_texts()
