"""The process reads the address zero, in a call and in a cell. It ends without a word."""

CRASH = "ctypes.string_at(0)"
ANSWERS = {
    "middle": f"import ctypes\n\n\ndef middle(times_s):\n    return {CRASH}\n",
    "pairs": f"import ctypes\n\n{CRASH}\n",
}
SOLVED = True
WORTH = 15
TELLS = "SIGSEGV|signal 11|egmentation|ended|crashed"
