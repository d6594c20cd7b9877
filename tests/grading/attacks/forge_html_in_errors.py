"""Error messages and results are HTML with scripts. They would run in the browser of whoever reads the comments."""

ANSWERS = {
    "middle": "def middle(times_s):\n    raise TypeError('<script>@MARK@</script><img src=x onerror=@MARK@>')\n",
    "pairs": "def pairs(values, total):\n    return '<script>@MARK@</script>'\n",
    "nearest": "class Shown:\n    def _repr_html_(self):\n        return '<script>@MARK@</script>'\n\n\nShown()\n",
}
TELLS = "TypeError"
