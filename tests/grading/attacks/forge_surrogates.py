"""Error messages, outputs and results hold characters that no encoding can write. The gradebook would refuse them."""

ANSWERS = {
    "middle": "def middle(times_s):\n    print('\\ud800')\n    raise ValueError('half a character: \\ud800 \\x00 \\x1b]8;;x')\n",
    "pairs": "def pairs(values, total):\n    return '\\udfff' * 3\n",
    "normalize": "print('\\ud83d')\nraise NameError('\\ud83d')\n",
}
TELLS = "half a character"
