"""The rows are divided in a narrower format, and in Fortran's order."""

ANSWERS = {
    "normalize": "def normalize(x):\n    return np.asfortranarray((x / x.sum(axis=1, keepdims=True)).astype(np.float64))[::1]\n",
}
