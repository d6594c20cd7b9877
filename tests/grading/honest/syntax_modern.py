"""Walrus, match, f-strings, positional-only and starred arguments, and a lambda as an answer."""

ANSWERS = {
    "middle": """def middle(times_s, /):
    match sorted(times_s):
        case []:
            raise ValueError(f"{times_s!r} holds {(n := len(times_s))} times, not {n + 1:>3}")
        case [only]:
            return only
        case [first, second]:
            return (first + second) / 2
        case [_, *inner, _]:
            return middle(inner)
""",
    "nearest": "nearest = lambda values, target, *_, **__: min(values, key=lambda v: (abs(v - target), v))\n",
}
