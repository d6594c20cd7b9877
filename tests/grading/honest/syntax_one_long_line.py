"""An answer is one line of ten thousand characters."""

ANSWERS = {
    "pairs": "def pairs(values, total): return sum(a + b == total for k, a in enumerate(values) for b in values[:k]) + ["
    + "0, " * 3000
    + "0][-1]\n",
}
