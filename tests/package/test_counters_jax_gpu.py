"""Programs that XLA has compiled for an H200, counted on a machine without one.

`tests/fixtures/hlo` holds the optimized modules, and what JAX said of their cost there: that it does not know what
cuBLAS and cuDNN do, each of which it takes for -1 FLOP.
"""

import json
from pathlib import Path

import jax
import pytest

from rooflab.counters.jax_library import work_of_call
from rooflab.counters.jax_loops import Loops

HLO = Path(__file__).parents[1] / "fixtures" / "hlo"
COSTS = json.loads((HLO / "costs.json").read_text())["costs"]


class NoAnalysis:
    """The client of a GPU's plugin, which does not hand out XLA's analysis: jaxlib refuses whatever is no client."""


@pytest.fixture
def loops_of(monkeypatch):
    from jaxlib import xla_client

    analyse = xla_client._xla.hlo_module_cost_analysis

    def refusing(client, module):
        if isinstance(client, NoAnalysis):
            raise RuntimeError("UNIMPLEMENTED: PJRT C API does not support GetHloCostAnalysis.")
        return analyse(client, module)

    monkeypatch.setattr(xla_client._xla, "hlo_module_cost_analysis", refusing)
    kind = type(jax.jit(lambda a: a + 1).lower(1.0).compile().runtime_executable().hlo_modules()[0])

    def of(name):
        module = kind.from_serialized_hlo_module_proto((HLO / f"{name}.pb").read_bytes())
        return Loops(module.to_string(), module, NoAnalysis())

    return of


N = 4096
PRODUCT = 2 * N**3  # bf16, by cuBLAS


@pytest.mark.parametrize(
    ("name", "flops", "least_bytes"),
    [
        ("product", PRODUCT, 2 * 2 * N**2),
        ("loop_and_product", 11 * PRODUCT, 11 * 3 * 2 * N**2),
        ("nested_loops", 30 * PRODUCT, 30 * 3 * 2 * N**2),
        ("loop_of_fusions", 10 * 2 * 512**3, 10 * 3 * 4 * 512**2),
        ("loop_of_convolutions", 5 * 2 * (4 * 32 * 64 * 64) * 32 * 9, 5 * 4 * 2 * 4 * 32 * 64 * 64),
    ],
)
def test_library_calls_and_loops_of_a_gpu_are_counted_with_every_turn(loops_of, name, flops, least_bytes):
    loops = loops_of(name)
    total = loops.total(COSTS[name])
    assert total.flops == pytest.approx(flops, rel=0.01)
    assert least_bytes <= total.bytes_read + total.bytes_written < 4 * least_bytes
    assert loops.notes == []


def test_product_of_a_library_is_counted_to_the_byte(loops_of):
    total = loops_of("product").total(COSTS["product"])
    assert (total.flops, total.bytes_read, total.bytes_written) == (PRODUCT, 2 * N**2, 2 * N**2)  # a @ a


SHAPES = {
    "a": "f32[64,128]{1,0}", "b": "f32[128,32]{1,0}", "c": "f32[64,32]{1,0}", "bias": "f32[32]{0}",
    "x": "f32[4,64,64,8]{3,2,1,0}", "w": "f32[3,3,8,16]{3,2,1,0}", "y": "f32[4,64,64,16]{3,2,1,0}",
}  # fmt: skip
DOT = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'


def gemm(operands, config="", target="__cublas$gemm"):
    config = f'backend_config={{"gemm_backend_config":{{{config}{DOT}}}}}'
    return f'  %g = (f32[64,32]{{1,0}}, s8[99]{{0}}) custom-call({operands}), custom_call_target="{target}", {config}'


def conv(result, operands, kind):
    labels = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"
    return f'  %v = ({result}, u8[0]{{0}}) custom-call({operands}), {labels}, custom_call_target="__cudnn$conv{kind}"'


@pytest.mark.parametrize(
    ("line", "flops", "read"),
    [
        pytest.param(gemm("%a, %b"), 2 * 64 * 32 * 128, 4 * (64 * 128 + 128 * 32), id="product"),
        pytest.param(gemm("f32[64,128] %a, f32[128,32] %b"), 2 * 64 * 32 * 128, None, id="typed operands"),
        pytest.param(gemm("%a, %b, %c", '"beta":1,'), 2 * 64 * 32 * 128 + 64 * 32, None, id="added to"),
        pytest.param(gemm("%a, %b, %bias", '"epilogue":"BIAS_RELU","beta":0,', "__cublas$lt$matmul"),
                     2 * 64 * 32 * 128 + 64 * 32, 4 * (64 * 128 + 128 * 32 + 32), id="bias"),
        pytest.param(conv(SHAPES["y"], "%x, %w", "Forward"), 2 * 4 * 64 * 64 * 16 * 72, None, id="convolution"),
        pytest.param(conv(SHAPES["x"], "%y, %w", "BackwardInput"), 2 * 4 * 64 * 64 * 16 * 72, None, id="its input"),
        pytest.param(conv(SHAPES["w"], "%x, %y", "BackwardFilter"), 2 * 4 * 64 * 64 * 16 * 72, None, id="its kernel"),
    ],
)  # fmt: skip
def test_work_of_library_calls(line, flops, read):
    found = work_of_call(line, SHAPES)
    assert found is not None
    assert found.flops == flops
    assert read is None or found.bytes_read == read


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(gemm("%a, %b", target="__cusolver$cholesky"), id="another library"),
        pytest.param(gemm("%a, %nobody"), id="operand of unknown shape"),
        pytest.param(gemm("%a, %b").replace("lhs_contracting", "lhs"), id="without dimensions"),
        pytest.param(conv(SHAPES["y"], "%x, %w", "Forward").replace("dim_labels", "labels"), id="without labels"),
    ],
)
def test_calls_that_are_not_understood_are_unknown(line):
    assert work_of_call(line, SHAPES) is None
