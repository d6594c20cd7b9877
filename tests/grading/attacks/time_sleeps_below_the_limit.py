"""Each call takes a little less than is allowed for one. All together they would take minutes."""

ANSWERS = {
    "pairs": "import time\n\n\ndef pairs(values, total):\n    time.sleep(1.7)\n    return 2\n",
    "nearest": "import time\n\n\ndef nearest(values, target):\n    time.sleep(1.7)\n    return 1\n",
}
WORTH = 1
TELLS = "everything together|for everything|expected"
