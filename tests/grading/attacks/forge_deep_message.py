"""The message is nested a million deep. A parser that calls itself would crash."""

ANSWERS = {
    "middle": "@SPEAK@\n\ndef middle(times_s):\n    raw(b'[{},' + b'[' * 10**6 + b']' * 10**6 + b']')\n    return 2.0\n"
}
TELLS = "no message|nested"
