"""The student wrote a name into the title, tagged cells, and collapsed some."""


def hand_in(notebook):
    notebook["cells"][0]["source"] = ["# The arena, by Zoë <zoe@example.org>"]
    for cell in notebook["cells"]:
        cell["metadata"] |= {"tags": ["mine"], "collapsed": True, "jupyter": {"source_hidden": True}}
    return notebook
