"""How is a class graded fast, safely, and so that no submission can talk its way into a grade?

>>> from rooflab.grading.sandbox import Limits
>>> Limits().processes
64
"""

__all__ = ["sandbox"]
