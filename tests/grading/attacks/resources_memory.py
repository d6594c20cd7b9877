"""Memory is taken piece by piece until there is none, and written to. Other students' processes would be killed."""

ANSWERS = {
    "middle": "def middle(times_s):\n    kept = []\n    while True:\n        kept.append(bytearray(b'x' * 2**24))\n",
}
SOLVED = True
WORTH = 18
TELLS = "MemoryError|memory|took longer"
