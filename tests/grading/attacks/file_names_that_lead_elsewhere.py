"""Marks, tags and identifiers are paths that lead out of the course's folder. Files of these names would be written."""

from arena import code


def hand_in(notebook):
    for number, name in enumerate(
        ["../../@MARK@", "/tmp/@MARK@", "..", "\u0000", "a" * 5000, "\ud800", "primes-1/../x"]
    ):
        cell = code(
            "1", nbgrader={"grade_id": name, "grade": True, "solution": True, "points": 50, "schema_version": 3}
        )
        notebook["cells"].append(cell | {"id": name})
        notebook["cells"][number]["id"] = name
    return notebook


TELLS = "does not know the mark"
