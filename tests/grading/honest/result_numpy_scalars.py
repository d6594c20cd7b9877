"""Results are numpy's scalars where numbers are wanted."""

ANSWERS = {
    "middle": "def middle(times_s):\n    if len(times_s) == 0:\n        raise ValueError\n    return np.median(times_s)\n",
    "pairs": "def pairs(values, total):\n    v = np.asarray(values)\n"
    "    return np.int64(np.triu(v[:, None] + v == total, 1).sum())\n",
    "primes": "PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nCOUNT = np.uint8(10)\n",
}
