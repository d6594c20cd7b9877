"""The message is as long as is allowed, and is nothing but brackets. Reading it would take gigabytes."""

ANSWERS = {
    "middle": "@SPEAK@\n\ndef middle(times_s):\n    raw(b'[{},[' + b'[],' * (20 * 2**20) + b'0]]')\n    return 2.0\n",
}
TELLS = "too many items|took longer|too long|memory"
