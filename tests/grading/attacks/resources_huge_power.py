"""The answer is ten to the power of a hundred million, worked out in a single step that nothing interrupts."""

ANSWERS = {"pairs": "def pairs(values, total):\n    return 10 ** 10**8\n"}
SOLVED = True
WORTH = 18
TELLS = "took longer|too long|digits"
