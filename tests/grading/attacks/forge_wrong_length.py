"""The message's length is longer than what is sent. The grader would wait for the rest for ever."""

ANSWERS = {"middle": "@SPEAK@\n\ndef middle(times_s):\n    raw(b'[]', b'', 100, 100)\n    while True:\n        pass\n"}
TELLS = "took longer than the 2 s"
