"""The notebook holds the state of widgets, as a lab with sliders does."""

WIDGETS = "application/vnd.jupyter.widget-state+json"


def hand_in(notebook):
    state = {"a1": {"model_name": "LayoutModel", "model_module": "@jupyter-widgets/base", "state": {}}}
    notebook["metadata"]["widgets"] = {WIDGETS: {"state": state, "version_major": 2, "version_minor": 0}}
    return notebook
