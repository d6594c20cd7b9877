"""Each answer imports what it needs, some under other names."""

ANSWERS = {
    "normalize": "import numpy as xp\n\n\ndef normalize(x):\n    return xp.divide(x, xp.add.reduce(x, 1)[:, None])\n",
    "middle": "import statistics as st\n\n\ndef middle(times_s):\n    if not times_s:\n        raise ValueError\n"
    "    return st.median(times_s)\n",
}
