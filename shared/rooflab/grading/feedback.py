"""The page that a student gets back, made with nbgrader's own feedback template.

It shows the graded notebook with scores and comments. Hidden checks are left out: of a check that failed, the comment
on the answer says why.

>>> FeedbackWriter().exporter.template_name
'feedback'
"""

from __future__ import annotations

import functools
import json
import re
import warnings
from html import escape
from typing import Any

from .lab import LabNotebook

__all__ = ["FeedbackWriter"]

_MOST_HIGHLIGHTED = 500_000  # characters of a page: a second or two for each megabyte would keep the class waiting


class FeedbackWriter:
    """Turns graded notebooks into pages; the template is read once."""

    def __init__(self) -> None:
        from nbgrader.converters import GenerateFeedback
        from nbgrader.coursedir import CourseDirectory

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converter = GenerateFeedback(coursedir=CourseDirectory())
            self.exporter = _exporter()(config=converter.config)
        for preprocessor in converter.preprocessors[1:]:  # the first one asks the gradebook, which is done here
            self.exporter.register_preprocessor(preprocessor, enabled=True)

    def page(self, notebook: str, lab: LabNotebook, submission: Any) -> str:
        """Return a page.

        Args:
            notebook: a graded notebook, as JSON.
            lab: the instructor's notebook.
            submission: nbgrader's SubmittedNotebook, whose scores and comments are shown.
        """
        from nbformat.notebooknode import from_dict
        from nbformat.v4.rwbase import rejoin_lines

        nb = rejoin_lines(from_dict(json.loads(notebook)))
        grades = {grade.name: grade for grade in submission.grades}
        comments = {comment.name: comment.comment for comment in submission.comments}
        for cell in nb.cells:
            marks = cell.metadata.get("nbgrader")
            if not marks:
                continue
            name = marks.get("grade_id")
            if name in grades:
                marks["score"], marks["points"] = grades[name].score, grades[name].max_score
            if name in comments:
                marks["comment"] = comments[name]
            own = lab.cell(name)
            if own.kind == "check" and own.source != own.released:
                cell.source, cell.outputs = own.released, []  # what was asked there may stand in what was printed
        penalty = submission.late_submission_penalty or 0
        resources = {
            "unique_key": lab.name,
            "nbgrader": {
                "notebook": lab.name,
                "score": submission.score - penalty,
                "max_score": submission.max_score,
                "late_penalty": penalty,
            },
            "metadata": {"name": lab.name},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            html, _ = self.exporter.from_notebook_node(nb, resources=resources)
        return re.sub(r"[\ud800-\udfff]", "?", html)


@functools.cache
def _exporter() -> Any:
    """nbconvert's exporter, without its second parsing of the whole page (most of its time), and with a memory.

    Nearly all cells of a class are the same: what was highlighted once is kept.
    """
    from nbconvert.exporters import HTMLExporter
    from nbconvert.exporters.templateexporter import TemplateExporter
    from nbconvert.filters.highlight import Highlight2HTML
    from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter

    class Exporter(HTMLExporter):
        def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[str, Any]:
            resources = self._init_resources(resources)
            if not hasattr(self, "highlight"):
                highlight = Highlight2HTML(pygments_lexer="python", parent=self)
                self.highlight = functools.lru_cache(4096)(lambda source, metadata=None: highlight(source))
            room = _MOST_HIGHLIGHTED

            def highlighted(source: str, metadata: Any = None, **_: Any) -> str:
                nonlocal room
                room -= len(source)
                return self.highlight(source) if room > 0 else f"<pre>{escape(source)}</pre>"

            self.register_filter("highlight_code", highlighted)
            data_type = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
            self.register_filter("filter_data_type", data_type)
            html, resources = TemplateExporter.from_notebook_node(self, nb, resources, **kw)
            picture = "A picture that this cell has drawn"
            return re.sub(r"<img(?![^>]*\balt=)", f'<img alt="{picture}"', html), resources

    return Exporter
