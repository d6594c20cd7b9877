"""The limit of recursion is lifted, and a function calls itself without end. The stack runs over."""

ANSWERS = {
    "middle": """import sys

sys.setrecursionlimit(10**9)


def middle(times_s):
    return middle(times_s)
""",
}
SOLVED = True
WORTH = 18
TELLS = "ended|took longer|memory|Recursion"
