"""Opening JupyterLab."""

from pathlib import Path

import lab


def test_a_home_that_can_be_written_is_left_alone(tmp_path):
    environment: dict[str, str] = {}
    assert not lab.move_out_of_home(environment, tmp_path, tmp_path / "kept")
    assert environment == {}
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_takes_nothing_is_gone_around(tmp_path):
    """Root may write everywhere, so a file stands where the home should be."""
    home = tmp_path / "home"
    home.write_text("")
    environment = {"IPYTHONDIR": "/mine"}
    assert lab.move_out_of_home(environment, home, Path("/kept"))
    assert environment["IPYTHONDIR"] == "/mine"
    assert environment["JUPYTER_DATA_DIR"] == "/kept/jupyter_data_dir"
    assert set(environment) == set(lab.FOLDERS)


def test_options_are_handed_on():
    words = lab.command(["--no-browser"], root=False)
    assert words[1] == "lab"
    assert "--no-browser" in words
    assert "--allow-root" not in words
