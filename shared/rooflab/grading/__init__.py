"""How is a class graded? Courses, checks that run apart from the code they check, and results in nbgrader's forms.

>>> from rooflab import grading
>>> grading.__all__
[]
"""

__all__ = []
