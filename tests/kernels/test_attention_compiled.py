"""What the kernels of attention become on Hopper: no register is spilled, and products are wgmma on shared memory."""

import pytest

from .compiling import told_elsewhere

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

# This process interprets kernels, so another one compiles them.
CODE = """
import json, re, tempfile
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from rooflab.kernels.attend import blocks
from rooflab.kernels.attend import triton_attention as forward, triton_attention_backward as backward
from rooflab.kernels.attend import triton_attention_hopper as hopper, triton_backward_hopper as hopper_backward
from rooflab.kernels.attend.triton_queries_hopper import queries_backward_hopper_kernel as hopper_queries
from rooflab.kernels.compiled import _tool

def descriptor(rows, width, gluon):
    layout = f",{gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], gl.bfloat16)!r}" if gluon else ""
    return f"tensordesc<bf16[1, 1, {rows}, {width}]{layout}>"

def row(cols, gluon):
    layout = f",{gl.NVMMASharedLayout.get_default_for([1, cols], gl.float32)!r}" if gluon else ""
    return f"tensordesc<fp32[1, {cols}]{layout}>"

def used(kernel, of_queries, of_keys, rows, choice, width, causal):
    gluon = "STAGES" in choice
    m, n = (choice.get("M", 64), choice.get("N", 64)) if kernel not in (hopper_keys, hopper_queries) else (64, 64)
    constants = {k: v for k, v in choice.items() if k in ("M", "N", "STAGES")} | {"D": width, "CAUSAL": causal}
    if kernel in (hopper_keys, hopper_queries):
        constants |= {"M": 64, "N": 64}
    types = {name: descriptor(m, width, gluon) for name in of_queries.split()}
    types |= {name: descriptor(n, width, gluon) for name in of_keys.split()}
    types |= {name: row(m, gluon) if rows == "descriptors" else "*fp32" for name in ("lse", "delta")}
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else types.get(name, "fp32" if name == "scale" else "i32")
        for name in names
    }
    source = (GluonASTSource if gluon else ASTSource)(
        kernel, signature, {(names.index(name),): value for name, value in constants.items()}, {}
    )
    options = {"num_warps": choice["num_warps"], "num_stages": choice.get("num_stages", 1)}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"]); file.flush()
        told = _tool("cuobjdump", "-res-usage", file.name)
    told = re.search(r"REG:(\\d+) STACK:(\\d+) SHARED:\\d+ LOCAL:(\\d+)", told)
    registers, stack, local = map(int, told.groups())
    ptx = made.asm["ptx"]
    return [registers, stack + local, made.metadata.shared, ptx.count("wgmma.mma_async"), ptx.count("mma.sync"),
            ptx.count("cp.async.bulk.tensor"), ptx.count("setmaxnreg")]

hopper_keys = hopper_backward.keys_backward_hopper_kernel
told = {}
for width in (64, 128):
    of_queries, of_keys = blocks.backward_blocks(width, 2, hopper=True)
    for causal in (False, True):
        cases = [
            ("forward", hopper.attention_hopper_kernel if "STAGES" in c else forward.attention_kernel, "o q", "k v", "",
             c) for c in blocks.forward_blocks(width, 2, hopper=True)
        ]
        queries = backward.attention_queries_backward_kernel
        cases += [
            ("dq", hopper_queries if "STAGES" in c else queries, "dq o do q", "k v", "", c) for c in of_queries
        ]
        keys = backward.attention_keys_backward_kernel
        cases += [
            ("dk dv", hopper_keys if "STAGES" in c else keys, "do q", "dk dv k v", "descriptors", c) for c in of_keys
        ]
        for name, kernel, *rest in cases:
            told[f"{name} {width} {causal} {rest[-1]}"] = used(kernel, *rest, width, causal)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return told_elsewhere(CODE, tmp_path_factory.mktemp("cache"))


def test_no_register_is_spilled_on_hopper(compiled):
    assert len(compiled) > 40
    assert {name: spilled for name, (_, spilled, *_) in compiled.items() if spilled} == {}


def test_there_is_room_on_hopper(compiled):
    for name, (registers, _, shared_bytes, *_) in compiled.items():
        assert 0 < registers <= 255, name
        assert shared_bytes <= 227 * 1024, name


def test_products_and_copies_are_hoppers_own(compiled):
    for name, (*_, wgmma, mma, bulk, registers_moved) in compiled.items():
        assert wgmma, name
        assert not mma, name
        assert bulk, name
        assert bool(registers_moved) == (name.startswith("forward") and "STAGES" in name), name
