"""The notebook was saved by VS Code: sources as one string, its own metadata, no kernel's name."""


def hand_in(notebook):
    notebook["metadata"] = {
        "language_info": {"name": "python", "version": "3.11.2", "codemirror_mode": {"name": "ipython", "version": 3}},
        "kernelspec": {"display_name": ".venv", "language": "python", "name": "python3"},
        "vscode": {"interpreter": {"hash": "0" * 64}},
        "orig_nbformat": 4,
    }
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        cell["metadata"]["vscode"] = {"languageId": "python"}
    return notebook
