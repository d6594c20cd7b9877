"""Warnings are issued, and text is written to stderr, in cells and in calls."""

ANSWERS = {
    "normalize": """import sys
import warnings

print("a note", file=sys.stderr)
warnings.warn("careful")


def normalize(x):
    warnings.warn("this is slow", RuntimeWarning)
    sys.stderr.write("dividing\\n")
    np.float64(1) / np.float64(0)
    return x / x.sum(1, keepdims=True)
""",
}
