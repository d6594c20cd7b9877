"""One result is large, and one is larger than is taken. The grader would hold all of them."""

ANSWERS = {
    "normalize": "def normalize(x):\n    return np.ones((4_000, 1000))\n",
    "middle": "def middle(times_s):\n    return np.ones(40_000_000)\n",
}
SOLVED = True
WORTH = 15
TELLS = "too long|memory|shape|allocate"
