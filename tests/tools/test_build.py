import doctest
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
import cell_run
import lab_cells
import percent
import variants

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "course"
CHAPTER = Path("chapters/s9_demo/u1_demo.py")
LAB = Path("solutions/s9_demo/lab1_demo.py")
STUDENT = Path("labs/s9_demo/lab1_demo.ipynb")


@pytest.fixture
def course(tmp_path):
    shutil.copytree(FIXTURE, tmp_path, dirs_exist_ok=True)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def cells_of(course, notebook):
    cells = json.loads((course / notebook).read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def lab_problems(text):
    with pytest.raises(percent.SourceError) as caught:
        lab_cells.instructor_cells(percent.parse(text, "lab1_x.py"), "lab1_x.py")
    return "\n".join(caught.value.problems)


def edit(course, script, old, new):
    text = (course / script).read_text(encoding="utf-8")
    assert old in text
    (course / script).write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("module", [build, cell_run, lab_cells, percent, variants])
def test_doctests(module):
    assert doctest.testmod(module).failed == 0


def test_every_pair_of_this_repository_is_in_step():
    assert build.check(build.sources()) == []
    assert build.orphans() == []


BESIDE = [script.with_suffix(".ipynb") for script in build.sources()]
BUILT = [*BESIDE, *(Path("labs", *path.parts[1:]) for path in BESIDE if path.parts[0] == "solutions")]


@pytest.mark.parametrize("path", [ROOT / path for path in BUILT], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_notebook_is_committed_with_outputs(path):
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    ran = [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"]]
    assert ran == [], f"{path.name} was run here: `make build` clears its outputs"


@pytest.mark.parametrize("script", [*build.sources(), *(p.relative_to(FIXTURE) for p in FIXTURE.glob("s*/*/*.py"))])
def test_jupytext_reads_the_same_cells(script):
    import jupytext

    path = ROOT / script if (ROOT / script).exists() else FIXTURE / script
    text = path.read_text(encoding="utf-8")
    read = [(cell.kind, cell.source) for cell in percent.parse(text, script.name)]
    assert [(cell.cell_type, cell.source) for cell in jupytext.reads(text, fmt="py:percent").cells] == read


def test_building_writes_three_notebooks_and_then_none(course):
    scripts = build.sources(course)
    assert scripts == [CHAPTER, LAB]
    assert build.build(scripts, course) == [CHAPTER.with_suffix(".ipynb"), LAB.with_suffix(".ipynb"), STUDENT]
    assert build.build(scripts, course) == []
    assert build.check(scripts, course) == []
    assert build.orphans(course) == []


def test_notebooks_are_valid_and_written_as_nbformat_writes_them(course):
    build.build(build.sources(course), course)
    for path in course.rglob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        assert nbformat.writes(notebook) + "\n" == text
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)


def test_the_bytes_depend_on_no_hash_seed_and_no_working_directory(course, tmp_path_factory):
    build.build(build.sources(course), course)
    expected = {path.relative_to(course): path.read_bytes() for path in course.rglob("*.ipynb")}
    code = "import build, pathlib, sys; root = pathlib.Path(sys.argv[1]); build.build(build.sources(root), root)"
    for seed in ("1", "2"):
        for path in expected:
            (course / path).unlink()
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "tools")}
        subprocess.run([sys.executable, "-c", code, course], check=True, env=env, cwd=tmp_path_factory.mktemp("cwd"))
        assert {path.relative_to(course): path.read_bytes() for path in course.rglob("*.ipynb")} == expected


def test_links_come_from_pyproject(course):
    edit(course, Path("pyproject.toml"), 'owner = "rooflab"', 'owner = "someone"')
    edit(course, Path("pyproject.toml"), 'branch = "main"', 'branch = "term"')
    build.build(build.sources(course), course)
    first, install, code, umlaut = cells_of(course, CHAPTER.with_suffix(".ipynb"))
    notebook = CHAPTER.with_suffix(".ipynb").as_posix()
    assert f"(https://colab.research.google.com/github/someone/rooflab/blob/term/{notebook})" in first["source"]
    assert f"(https://mybinder.org/v2/gh/someone/rooflab/term?urlpath=lab/tree/{notebook})" in first["source"]
    assert install["source"].split("\n")[3] == (
        '    %pip install -q "rooflab @ git+https://github.com/someone/rooflab@term"'
    )
    assert code["source"].startswith("# copy the rows: a comment")
    assert 'f"{{ total }} = {total}"' in code["source"]
    assert code["metadata"] == {"tags": ["hide-input"]}
    assert umlaut["source"] == r"Größe: $\{{ x \}}$"
    for edition in (LAB.with_suffix(".ipynb"), STUDENT):  # both point to the student edition
        assert f"/github/someone/rooflab/blob/term/{STUDENT.as_posix()})" in cells_of(course, edition)[0]["source"]


@pytest.mark.parametrize(
    ("script", "link", "online"),
    [
        (CHAPTER, "u2_next.ipynb", "chapters/s9_demo/u2_next.ipynb"),
        (CHAPTER, "../../labs/s9_demo/lab1_demo.ipynb", "labs/s9_demo/lab1_demo.ipynb"),
        (CHAPTER, "../index.ipynb#the-book", "chapters/index.ipynb"),
        (LAB, "../../chapters/s9_demo/u1_demo.ipynb", "chapters/s9_demo/u1_demo.ipynb"),
    ],
)
def test_a_link_to_a_notebook_works_beside_it_and_elsewhere(course, script, link, online):
    edit(course, script, "# %% [markdown]\n", f"# %% [markdown]\n# [there]({link}),\n")
    place = build.tomllib.loads((course / "pyproject.toml").read_text())["tool"]["rooflab"]
    files = f"https://github.com/{place['owner']}/{place['repository']}/blob/{place['branch']}"
    for text in build.expected_notebooks(script, course).values():
        first = "".join(json.loads(text)["cells"][0]["source"])
        assert first.startswith(f"[there]({link}) ([online]({files}/{online})),")


@pytest.mark.parametrize(
    "source",
    [
        "[a](https://host/x.ipynb)", "[a](x.md)", "x.ipynb", "a](x y.ipynb)", "write `[a](x.ipynb)`",
        "```\n[a](x.ipynb)\n```", "~~~md\n[a](x.ipynb)\n```\n[a](x.ipynb)\n~~~", "* so:\n  ```\n  [a](x.ipynb)\n  ```",
        "``[a](x.ipynb) ` b``", "```\n[a](x.ipynb)",
    ],
)  # fmt: skip
def test_other_links_stay_as_they_are(source):
    assert percent.with_online_links(source, "chapters", "https://host") == source


@pytest.mark.parametrize(
    "source",
    ["[`a`](x.ipynb)", "a ` b [a](x.ipynb)\n\n`", "```\nx\n```\n[a](x.ipynb)\n```\ny\n```", "`x` [a](x.ipynb) `y`"],
)
def test_a_link_beside_code_gets_its_twin(source):
    told = "(x.ipynb) ([online](https://host/chapters/x.ipynb))"
    assert percent.with_online_links(source, "chapters", "https://host") == source.replace("(x.ipynb)", told)


def test_the_student_edition_holds_stubs_and_no_solution(course):
    build.build(build.sources(course), course)
    student = cells_of(course, STUDENT)
    by_grade_id = {c["metadata"]["nbgrader"]["grade_id"]: c for c in student if "nbgrader" in c["metadata"]}
    assert list(by_grade_id) == [
        "given-1", "given-2", "middle", "middle-check-1", "middle-hidden-1",
        "normalize", "normalize-check-1", "normalize-hidden-1", "normalize-hidden-2", "why",
    ]  # fmt: skip
    stub = "    # YOUR CODE HERE\n    raise NotImplementedError()"
    assert by_grade_id["middle"]["source"].endswith(f'times_s``."""\n{stub}')
    assert by_grade_id["normalize"]["source"].endswith(f"    total = None\n{stub}\n    return x / total")
    assert by_grade_id["middle-hidden-1"]["source"] == "# The grader runs further checks here, on fresh values."
    assert by_grade_id["why"]["source"] == "YOUR ANSWER HERE"
    text = (course / STUDENT).read_text(encoding="utf-8")
    for secret in ("BEGIN", "END SOLUTION", "np.median", "keepdims", "default_rng", "Rubric", "One slow call"):
        assert secret not in text


def test_what_is_locked_and_what_is_free(course):
    build.build(build.sources(course), course)
    marks = [cell["metadata"].get("nbgrader") for cell in cells_of(course, LAB.with_suffix(".ipynb"))]
    seen = {m["grade_id"]: (m["grade"], m["solution"], m["locked"], m.get("points")) for m in marks if m}
    assert seen["given-1"] == (False, False, True, None)
    assert seen["middle"] == (False, True, False, None)
    assert seen["middle-check-1"] == (True, False, True, 2)
    assert seen["normalize-hidden-2"] == (True, False, True, 2)
    assert seen["why"] == (True, True, False, 4)
    free = [cell for cell in cells_of(course, STUDENT) if cell["metadata"].get("tags") == ["free"]]
    assert [cell["metadata"] for cell in free] == [{"tags": ["free"]}]


def test_check_names_each_pair_and_the_command(course):
    scripts = build.sources(course)
    build.build(scripts, course)
    (course / STUDENT).unlink()
    edit(course, CHAPTER, "copy the rows", "copy the columns")
    assert build.check(scripts, course) == [
        "chapters/s9_demo/u1_demo.ipynb is out of step with chapters/s9_demo/u1_demo.py: "
        "run `python tools/build.py chapters/s9_demo/u1_demo.py`.",
        "labs/s9_demo/lab1_demo.ipynb is missing, and is made from solutions/s9_demo/lab1_demo.py: "
        "run `python tools/build.py solutions/s9_demo/lab1_demo.py`.",
    ]


def test_a_notebook_without_script_is_named(course):
    build.build(build.sources(course), course)
    (course / "labs/s9_demo/lab2_gone.ipynb").write_text("{}")
    assert build.orphans(course) == [
        "labs/s9_demo/lab2_gone.ipynb has no script: write it, or run `git rm labs/s9_demo/lab2_gone.ipynb`."
    ]


def test_the_command_line(course, monkeypatch, capsys):
    monkeypatch.setattr(build, "ROOT", course)
    assert build.main(["--check"]) == 1
    assert capsys.readouterr().err.count(" is missing, and is made from ") == 3
    assert build.main([str(course / CHAPTER)]) == 0
    assert capsys.readouterr().out == "built chapters/s9_demo/u1_demo.ipynb\n"
    assert build.main([]) == 0
    assert capsys.readouterr().out.count("built ") == 2
    assert build.main(["--check"]) == 0
    assert build.main([str(course / "chapters/s9_demo/u2_none.py")]) == 1
    assert "chapters/s9_demo/u2_none.py: no script of a notebook is there." in capsys.readouterr().err
    edit(course, CHAPTER, "# %%\nimport", "# %% exercse\nimport")
    assert build.main([]) == 1
    assert "chapters/s9_demo/u1_demo.py:7: unknown marker '# %% exercse'" in capsys.readouterr().err


def test_problems_of_all_scripts_are_told_together(course):
    edit(course, CHAPTER, "print(f", "print((f")
    edit(course, LAB, 'hidden="middle"', 'hidden="midle"')
    told = "\n".join(build.check(build.sources(course), course))
    assert "u1_demo.py:14: the code cell is no valid Python ('(' was never closed in line 3 of the cell)." in told
    assert "lab1_demo.py:40: hidden=\"midle\" names no exercise above it; expected one of ['middle']." in told
    assert 'exercise "middle" has no hidden check' in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"# %%\nx = 1\n# caf\xe9\n", "u1_demo.py:3: expected UTF-8, found byte 0xe9: save the file as UTF-8."),
        ("# %%\nx = 1\n".encode("utf-16"), "u1_demo.py:1: expected UTF-8, found byte 0xff: save the file as UTF-8."),
        (
            b"\xef\xbb\xbf# %%\nx = 1\n",
            "u1_demo.py:1: found a byte order mark (U+FEFF): save the file as UTF-8 without",
        ),
        (b"# %%\nx = 1\n\0", "u1_demo.py:3: found a null character (U+0000): save the file as UTF-8 without it."),
        (None, "chapters/s9_demo/u1_demo.py: it cannot be read (Is a directory)."),
    ],
)
def test_a_file_that_is_no_text_is_one_sentence(course, monkeypatch, capsys, content, told):
    monkeypatch.setattr(build, "ROOT", course)
    (course / CHAPTER).unlink()
    if content is None:
        (course / CHAPTER).mkdir()
    else:
        (course / CHAPTER).write_bytes(content)
    assert build.main([]) == 1
    problems = capsys.readouterr().err
    assert told in problems
    assert len(problems.splitlines()) == 1
    assert (course / STUDENT).is_file()  # the others are built


def test_line_ends_of_windows_make_the_same_notebook(course):
    (before,) = build.expected_notebooks(CHAPTER, course).values()
    (course / CHAPTER).write_bytes((course / CHAPTER).read_bytes().replace(b"\n", b"\r\n"))
    assert list(build.expected_notebooks(CHAPTER, course).values()) == [before]


@pytest.mark.parametrize("text", ["[tool.rooflab", "[tool]\n", "tool = 1", '[tool.rooflab]\nowner = "a"\n'])
def test_a_damaged_pyproject_is_one_sentence(course, text):
    (course / "pyproject.toml").write_text(text)
    with pytest.raises(percent.SourceError, match=r"pyproject.toml: expected owner, repository and branch in"):
        build.expected_notebooks(CHAPTER, course)


@pytest.mark.parametrize("text", [None, "c = ((", "import no_such_module", "\ud800", "exit()"])
def test_a_configuration_that_cannot_be_used_is_one_sentence(course, text):
    config = course / "nbgrader_config.py"
    if text is None:
        config.unlink()
    else:
        config.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(percent.SourceError, match=r"^nbgrader_config.py cannot be used \(") as caught:
        build.expected_notebooks(LAB, course)
    assert len(caught.value.problems) == 1


def test_a_notebook_that_cannot_be_written_is_named(course, monkeypatch, capsys):
    monkeypatch.setattr(build, "ROOT", course)
    (course / "labs").write_text("a file stands here")
    assert build.main([]) == 1
    assert capsys.readouterr().err == f"{STUDENT.as_posix()} cannot be written: Not a directory.\n"
    assert (course / CHAPTER).with_suffix(".ipynb").is_file()


def test_a_notebook_that_is_no_text_is_out_of_step(course, monkeypatch, capsys):
    monkeypatch.setattr(build, "ROOT", course)
    assert build.main([]) == 0
    (course / STUDENT).write_bytes(b"\xff\xfe")
    assert build.main(["--check"]) == 1
    assert build.main([]) == 0
    assert build.main(["--check"]) == 0


def test_a_script_of_another_folder_is_one_sentence(course, tmp_path_factory, monkeypatch, capsys):
    monkeypatch.setattr(build, "ROOT", course)
    other = tmp_path_factory.mktemp("other") / "u1_x.py"
    assert build.main([str(other)]) == 1
    assert capsys.readouterr().err.endswith("u1_x.py: no script of a notebook is there.\n")


@pytest.mark.parametrize(
    ("script", "text", "told"),
    [
        (
            "chapters/s9_demo/helper.py",
            "",
            "no notebook has this name; expected chapters/<series>/u<number>_<topic>.py",
        ),
        ("chapters/u1.py", "", "no notebook has this name"),
        ("solutions/lab1_x.py", "", "expected solutions/<series>/lab<number>_<topic>.py"),
    ],
)
def test_a_script_with_a_strange_name_is_named(course, script, text, told):
    (course / script).write_text(text)
    with pytest.raises(percent.SourceError, match=told):
        build.sources(course)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "{{ colab_url }}",
            "{{ kolab_url }}",
            "u1_demo.py:1: unknown link {{ kolab_url }}; expected one of binder_url,",
        ),
        ('tags=["hide-input"]', 'exercise="x"', "u1_demo.py:14: a chapter knows tags only, found exercise."),
        ('tags=["hide-input"]', 'tags=["solution"]', "tags of a chapter are a list of strings without 'solution'"),
        ('tags=["hide-input"]', 'tags="wide"', "tags of a chapter are a list of strings"),
        ("# %% [markdown]\n# # What", "# What", "u1_demo.py:1: text stands before the first '# %%' marker"),
        ("# Größe", "Größe", "u1_demo.py:20: a line of a markdown cell starts with '# ', found 'Größe"),
    ],
)
def test_a_chapter_that_cannot_be_built(course, old, new, told):
    edit(course, CHAPTER, old, new)
    assert told in "\n".join(build.check(build.sources(course), course))
    with pytest.raises(percent.SourceError) as caught:
        build.build(build.sources(course), course)
    assert told in str(caught.value)
    assert (course / STUDENT).exists()  # the other notebooks are built


@pytest.mark.parametrize(
    "marker",
    [
        "#%%", "# %%%", "# %% title", "# %% [md]", "# %%[markdown]", '# %% exercise=softmax', '# %% exercise="f" x',
        "# %% tags=[solution]", "# %% points=1 points=2", '# %% [markdown]tags=["a"]', '# %% tags = ["a"]',
        "# %% points=1.2.3",
    ],
)  # fmt: skip
def test_a_marker_that_is_not_understood(marker):
    with pytest.raises(percent.SourceError) as caught:
        percent.parse(f"# %%\nx = 1\n{marker}\n", "u1_x.py")
    assert caught.value.problems[0].startswith(
        f"u1_x.py:3: unknown marker {marker!r}; expected '# %%' or '# %% [markdown]'"
    )


EXERCISE = '# %% exercise="f"\n### BEGIN SOLUTION\nf = abs\n### END SOLUTION\n'
CHECKS = '# %% check="f" points=1\nassert f(1) == 1\n# %% hidden="f" points=1\nassert f(-1) == 1\n'
WRITTEN = '# %% [markdown] written="w" points=2\n# ### BEGIN SOLUTION\n# Yes.\n# ### END SOLUTION\n'
RUBRIC = '# %% [markdown] tags=["solution"]\n# Rubric.\n'


def test_the_smallest_lab_has_no_problems():
    text = EXERCISE + CHECKS + WRITTEN + RUBRIC
    assert len(lab_cells.instructor_cells(percent.parse(text, "x"), "x")) == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (EXERCISE, 'lab1_x.py:1: exercise "f" has no visible check; add a cell \'# %% check="f" points=...\'.'),
        (EXERCISE, 'lab1_x.py:1: exercise "f" has no hidden check; add a cell \'# %% hidden="f" points=...\'.'),
        (CHECKS, 'lab1_x.py:1: check="f" names no exercise above it; expected one of [].'),
        (EXERCISE + CHECKS + EXERCISE, 'lab1_x.py:9: the name "f" is taken by line 1; names are unique in a lab.'),
        (EXERCISE + CHECKS + WRITTEN.replace('"w"', '"f"') + RUBRIC, 'the name "f" is taken by line 1'),
        ('# %% exercise="f"\nf = abs\n' + CHECKS, "exercise cell without '### BEGIN SOLUTION'"),
        (EXERCISE.replace("### END SOLUTION\n", "") + CHECKS, "have to alternate, found BEGIN SOLUTION."),
        (EXERCISE.replace("BEGIN", "END") + CHECKS, "have to alternate, found END SOLUTION, END SOLUTION."),
        (EXERCISE.replace("f = abs", "### BEGIN SOLUTION\n### END SOLUTION") + CHECKS, "have to alternate"),
        (
            "# %%\n### BEGIN SOLUTION\n### END SOLUTION\n",
            "found BEGIN SOLUTION, END SOLUTION in a cell that is no exercise",
        ),
        (
            EXERCISE + CHECKS + "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\n",
            "the generator writes hidden-test marks",
        ),
        (EXERCISE + CHECKS.replace("points=1", "points=0"), "check cell needs positive points, found points=0."),
        (EXERCISE + CHECKS.replace("points=1", "points=-2"), "needs positive points, found points=-2."),
        (EXERCISE + CHECKS.replace(" points=1", ""), "needs positive points, found points=None."),
        (EXERCISE + CHECKS.replace("points=1", "points=1e999"), "at most 1000 points, found points=inf."),
        (EXERCISE + CHECKS.replace("points=1", "points=1001"), "at most 1000 points, found points=1001."),
        (EXERCISE + CHECKS.replace("points=1", 'points="1"'), "needs positive points, found points='1'."),
        ('# %% exercise="f" points=3\n', "points belong on check, hidden and written cells only."),
        ('# %% exercise="f" check="f"\n', "a cell has one of exercise, check, hidden, written, found several."),
        ('# %% exercise="F-1"\n', "exercise='F-1' is no name; expected lower-case letters, digits and _"),
        ('# %% exercise="given"\n', 'the name "given" is kept for the cells that the lab hands out'),
        ('# %% exercice="f"\n', "unknown key exercice; a lab knows exercise, check, hidden, written, points and tags."),
        ('# %% [markdown] tags=["solutions"]\n', "unknown tags ['solutions'] in a lab; expected some of ['demo',"),
        ('# %% exercise="f" tags=["free"]\n', "tags do not go with exercise=, found ['free']."),
        ('# %% [markdown] exercise="f"\n', "exercise= belongs on a code cell, found markdown."),
        ('# %% written="w" points=2\n', "written= belongs on a markdown cell, found code."),
        (WRITTEN, 'the written question "w" has no rubric below it'),
        ('# %% [markdown] written="w" points=2\n# Yes.\n', "written cell without '### BEGIN SOLUTION'"),
    ],
)
def test_a_lab_that_cannot_be_built(text, told):
    assert told in lab_problems(text)


def test_a_header_of_jupytext_is_passed_over(course):
    build.build([CHAPTER], course)
    before = (course / CHAPTER.with_suffix(".ipynb")).read_bytes()
    edit(course, CHAPTER, "# %% [markdown]", "# ---\n# jupyter:\n#   kernelspec: {}\n# ---\n\n# %% [markdown]")
    assert build.build([CHAPTER], course) == []
    assert (course / CHAPTER.with_suffix(".ipynb")).read_bytes() == before
    edit(course, CHAPTER, "# Größe", "Größe")
    assert "u1_demo.py:25: a line of a markdown cell" in build.check([CHAPTER], course)[0]


def test_a_stub_that_is_no_python_is_named(course):
    edit(course, LAB, "    total = None\n    ### BEGIN SOLUTION", "    total = (\n    ### BEGIN SOLUTION")
    edit(course, LAB, "    total = x.sum(axis=-1, keepdims=True)\n", "    x.sum(axis=-1, keepdims=True))\n")
    [told] = build.check([LAB], course)
    assert "without its solution, cell-09 is no valid Python" in told


def test_labs_without_nbgrader_say_what_to_install(course, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbgrader.preprocessors", None)
    [told] = build.check([LAB], course)
    assert "labs are made with nbgrader: run `pip install -e .[classroom]`" in told
    assert len(build.check([CHAPTER], course)) == 1


@pytest.mark.parametrize(
    ("source", "magic"),
    [
        ("# %pip install x", "%pip install x"),
        ("if True:\n    # %pip install x\n    pass", "if True:\n    %pip install x\n    pass"),
        ("# %%timeit -n 3\nx = 1", "%%timeit -n 3\nx = 1"),
        ("# %load_ext tensorboard\n# %matplotlib inline", "%load_ext tensorboard\n%matplotlib inline"),
    ],
)
def test_magics_are_comments_in_the_script(source, magic):
    [cell] = percent.parse(f"# %%\n{source}\n", "x")
    assert cell.source == magic
    assert percent.syntax_error(cell.source) is None


@pytest.mark.parametrize(
    "source",
    [
        "# copy the rows\n# 100 % of it\n# what?",
        "# !important: keep this",
        "# !ls",
        "# %load is slow here\nx = 1",
        "# %load_ext is slow here\n# %matplotlib draws it, slowly\n# %pip is a magic",
        "x = 1\n# %%timeit\ny = 2",
        "x = 1  # %pip install x",
        'x = """\n# %pip install x\n"""',
        'x = """a\n\n\n\nb  \nc  # noqa\n"""',
        'x = f"""a\n\n\n{1}\n# %pip install x\n  # fmt: skip\n  """',
        "x = '# noqa'",
        "x = 'a\\\n# noqa'",
        "x = 100\ny = (x\n     %x\n     %y)",
        "x = (7\n%pip.install)",
    ],
)
def test_a_program_stays_what_it_is(source):
    [cell] = percent.parse(f"# %%\n{source}\n", "x")
    assert percent.for_readers(cell.source) == source
    assert percent.syntax_error(cell.source) is None


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("x = [1,2]  # fmt: skip", "x = [1,2]"),
        ("import x  # noqa: F401  \n\n\n\ny = '# noqa'  # noqa", "import x\n\ny = '# noqa'"),
        ("x = 1  # why  # noqa", "x = 1  # why"),
        ("# %pip install it's\nx = 1  # noqa", "%pip install it's\nx = 1"),
        ('x = """\n  \n"""  \n\n\ny = 1', 'x = """\n  \n"""\n\ny = 1'),
    ],
)
def test_what_is_no_business_of_readers_leaves(source, read):
    [cell] = percent.parse(f"# %%\n{source}\n", "x")
    assert percent.for_readers(cell.source) == read


def test_a_line_break_in_markdown_stays():
    [cell] = percent.parse("# %% [markdown]\n# one  \n# two \n#  \n# three\n", "x")
    assert cell.source == "one  \ntwo\n\nthree"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("await f()", None),
        ("%%time\nx = ", "invalid syntax in line 2 of the cell"),
        ("!ls", "invalid syntax in line 1 of the cell"),
        ("if True:\n    %pip install x", None),
        ("x = ", "invalid syntax in line 1 of the cell"),
    ],
)
def test_syntax_errors(source, error):
    assert percent.syntax_error(source) == error


_LINE = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029%!"), max_size=30
)
_SOURCE = st.lists(_LINE.map(str.rstrip), max_size=6).map(lambda rows: "\n".join(rows).strip("\n"))


@given(st.lists(st.tuples(st.sampled_from(["code", "markdown"]), _SOURCE), max_size=8))
def test_what_is_written_as_percent_cells_is_read_back(cells):
    text = ""
    for kind, source in cells:
        rows = source.split("\n") if source else []
        commented = ["# " + row if row else "#" for row in rows]
        text += f"# %%{' [markdown]' if kind == 'markdown' else ''}\n"
        text += "\n".join([*(rows if kind == "code" else commented), "", ""])
    assert [(cell.kind, cell.source) for cell in percent.parse(text, "x")] == cells


def test_an_answered_lab_is_neither_overwritten_nor_out_of_step(course):
    scripts = build.sources(course)
    build.build(scripts, course)
    path = course / STUDENT
    text = path.read_text(encoding="utf-8")
    assert not build.answered(path)
    mine = re.sub(r"raise NotImplementedError\(\)", "return 42", text, count=1)
    assert mine != text
    path.write_text(mine, encoding="utf-8")
    assert build.answered(path)
    assert build.check(scripts, course) == []
    edit(course, LAB, "# %%", "# %% [markdown]\n# New.\n\n# %%")
    assert Path(STUDENT) not in build.build(scripts, course)
    assert path.read_text(encoding="utf-8") == mine


def test_a_notebook_that_was_run_is_in_step_until_its_text_changes(course):
    scripts = build.sources(course)
    build.build(scripts, course)
    [path] = (course / "chapters").rglob("u1_demo.ipynb")
    built = path.read_text(encoding="utf-8")
    notebook = json.loads(built)
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1"]}]
    cell |= {"execution_count": 3, "source": "".join(cell["source"])}
    cell["metadata"]["execution"] = {"iopub.execute_input": "now"}
    notebook["metadata"] |= {"widgets": {}, "language_info": {"name": "python", "version": "3.12.1"}}
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert build.check(scripts, course) == []
    cell["source"] += "# mine"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert len(build.check(scripts, course)) == 1
    assert path.relative_to(course) in build.build(scripts, course)
    assert path.read_text(encoding="utf-8") == built
