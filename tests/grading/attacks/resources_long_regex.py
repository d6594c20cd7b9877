"""A regular expression takes longer than the universe exists, inside of a C function that looks at no signal."""

ANSWERS = {
    "pairs": "import re\n\n\ndef pairs(values, total):\n    return re.match('(a|a)*b', 'a' * 60) is None\n",
}
SOLVED = True
WORTH = 18
TELLS = "took longer than the 2 s"
