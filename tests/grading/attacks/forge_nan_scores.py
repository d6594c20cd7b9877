"""Results are NaN, infinite, complex and negative, as numbers and as words in JSON that no JSON has."""

ANSWERS = {
    "nearest": """@SPEAK@

def nearest(values, target):
    if len(values) == 1:
        raw(b'[{"kind":"done","error":null},{"~":"tuple","v":[NaN,null]}]')
    return float("nan")
""",
    "middle": "def middle(times_s):\n    return float('inf')\n",
    "pairs": "def pairs(values, total):\n    return complex('nan')\n",
}
TELLS = "does not hold|nan"
