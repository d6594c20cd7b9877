"""Cells have attachments: a picture that is none, of a type that is none, and of a name that leads elsewhere."""


def hand_in(notebook):
    for cell in notebook["cells"]:
        cell["attachments"] = {
            "../../@MARK@.png": {"image/png": "bm8gcGljdHVyZQ=="},
            "x.html": {"text/html": "<script>@MARK@</script>"},
            "y": 5,
        }
    notebook["cells"][0]["source"] = ["![](attachment:x.html) ![](attachment:../../@MARK@.png)"]
    return notebook


TELLS = "No response"
