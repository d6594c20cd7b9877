"""The folder is a link to the one of another student, whose answers are right."""


def hand_in(notebook):
    def link(path):
        path.parent.rmdir()
        path.parent.symlink_to(path.parents[2] / "honest-1" / "week1")

    return {"arena.ipynb": link}


TELLS = "link"
