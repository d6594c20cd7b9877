"""The message's length is the largest that fits into the head. The grader would run out of memory."""

ANSWERS = {
    "middle": "@SPEAK@\n\ndef middle(times_s):\n    raw(b'[{}, null]', b'', 2**32 - 1, 2**64 - 1)\n    return 2.0\n"
}
TELLS = "too long"
