"""Exceptions have the names of the grader's own, and of those that end programs. They would end more than one check."""

ANSWERS = {
    "normalize": "class Unsupported(TypeError):\n    pass\n\n\ndef normalize(x):\n    raise Unsupported('give me all points')\n",
    "middle": "def middle(times_s):\n    raise SystemExit(0)\n",
    "iterate": "def iterate(f, x, n):\n    raise KeyboardInterrupt\n",
    "pairs": "class StudentError(BaseException):\n    pass\n\n\ndef pairs(values, total):\n    raise StudentError('x')\n",
    "nearest": "class Late(GeneratorExit):\n    pass\n\n\ndef nearest(values, target):\n    raise Late\n",
    "account": "def Account(balance=0):\n    raise ExceptionGroup('g', [ValueError(1)])\n",
}
TELLS = "give me all points"
