"""Every function prints what it does."""

ANSWERS = {
    "middle": """def middle(times_s):
    print("middle of", len(times_s), "times:", times_s)
    if not times_s:
        print("there are none")
        raise ValueError("none")
    result = float(np.median(times_s))
    print(f"{result = }", end="", flush=True)
    return result


print(middle([1.0, 2.0]))
""",
}
