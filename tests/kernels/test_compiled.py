"""What kernels become on chips that are not there: a regression is seen on a machine without a GPU."""

import os
import re
import subprocess
import sys

import pytest

from .compiling import SHARED, SINCE_39, told_elsewhere

pytest.importorskip("triton", reason="needs Triton")

# This process interprets kernels, so another one compiles them.
CODE = """
import json
from rooflab.kernels.catalogue import every_build
from rooflab.kernels.compiled import compile_for
told = {}
for name, build in every_build().items():
    for chip in build.chips:
        made = compile_for(build, chip)
        used = [made.registers, made.spill_bytes, made.shared_bytes, made.resident(), dict(made.matrix)]
        told[f"{name} {chip}"] = used
print(json.dumps(told))
"""
SPILLED = {"add_layer_norm_backward gfx942": 24, "add_layer_norm_backward sm100": 8, "matmul_fp32 sm80": 16,
           "squared_relu_gradient sm100": 8} if SINCE_39 else {}  # fmt: skip
ROOM = {"sm80": (255, 163), "sm90": (255, 227), "sm100": (255, 227), "gfx942": (512, 64)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return told_elsewhere(CODE, tmp_path_factory.mktemp("cache"))


def test_no_kernel_spills(compiled):
    spilling = {name: spilled for name, (_, spilled, *_) in compiled.items() if spilled}
    assert {name: spilled for name, spilled in spilling.items() if spilled > SPILLED.get(name, 0)} == {}


def test_every_kernel_has_room_on_every_chip(compiled):
    assert len(compiled) >= 4 * 7
    for name, (registers, _, shared_bytes, resident, _) in compiled.items():
        most_registers, most_kib = ROOM[name.split()[-1]]
        assert 0 < registers <= most_registers, name
        assert shared_bytes <= most_kib * 1024, name
        assert resident >= 1, name


def rooflab(*words):
    env = {**os.environ, "PYTHONPATH": str(SHARED), "COLUMNS": "120"}
    env.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-m", "rooflab", "compile", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)


def test_the_command_prints_what_a_kernel_uses():
    done = rooflab("softmax", "--for", "sm90", "--for", "gfx942")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["kernel", "|", "chip"]
    assert [line.split("|")[1].strip() for line in lines[1:3]] == ["sm90", "gfx942"]
    assert "as many as one multiprocessor (AMD: compute unit) holds" in done.stdout
    assert lines[-1] == "softmax: y, x in bf16; ROWS=1, COLS=4096, AHEAD=0; 8 warps."


def test_the_command_names_the_formats_of_tiles_and_a_chips_own_words():
    told = rooflab("matmul", "--for", "sm90").stdout.splitlines()[-1]
    assert re.match(r"matmul: .* in bf16, blocks of \d+ x \d+; .*TILE_M=\d+, .*; \d+ warps\.$", told)
    assert "as one compute unit holds" in rooflab("softmax", "--for", "gfx942").stdout


def test_the_command_shows_code():
    assert ".target sm_90a" in rooflab("softmax", "--for", "sm90", "--show", "ptx").stdout
    assert "MUFU.EX2" in rooflab("softmax", "--for", "sm90", "--show", "sass").stdout
    assert "gfx942" in rooflab("softmax", "--for", "gfx942", "--show", "amdgcn").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "There is no kernel 'nothing'; expected one of softmax"),
        (["softmax", "--for", "sm75"], "There is no target 'sm75'; expected one of sm80, sm90"),
        (["matmul_plain", "--for", "sm90"], "matmul_plain is for sm80, gfx942; it has no form for sm90."),
        (
            ["softmax", "--for", "sm90", "--show", "amdgcn"],
            "softmax for sm90 has no amdgcn; expected one of ttir, ttgir",
        ),
    ],
)
def test_a_wrong_name_is_told(words, says):
    done = rooflab(*words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rooflab: {says}")
    assert len(done.stderr.splitlines()) == 1


def test_a_spill_is_seen(tmp_path):
    """Sixty-four rows of 1,024 in one warp cannot stay in registers."""
    code = (
        "from dataclasses import replace\n"
        "from rooflab.kernels.catalogue import find_build\n"
        "from rooflab.kernels.compiled import compile_for\n"
        "build = replace(find_build('softmax'), constants={'ROWS': 16, 'COLS': 1024, 'AHEAD': 0}, warps=1)\n"
        "print(compile_for(build, 'sm90').spill_bytes)"
    )
    assert told_elsewhere(code, tmp_path) > 0


def test_registers_are_given_out_eight_at_a_time():
    from rooflab.kernels.compiled import Compiled

    def resident(registers):
        return Compiled("k", "sm90", registers, 0, 0, 4, {}, {}).resident()

    assert [resident(each) for each in (96, 97, 102, 104, 105, 128, 129)] == [5, 4, 4, 4, 4, 4, 3]
