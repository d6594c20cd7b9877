"""What only a real GPU can show; skipped, with the reason, where torch sees none."""

import statistics

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm GPU that torch sees")

WITHIN = 0.03


def test_bandwidth_is_that_of_a_plain_copy_between_events():
    from rooflab.ceilings import measured_ceilings

    roof = measured_ceilings(fresh=True)
    source = torch.ones(2**30, dtype=torch.float32, device="cuda")  # 4 GiB
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    rates = []
    for _ in range(9):
        start.record()
        for _ in range(5):
            target.copy_(source)
        end.record()
        end.synchronize()
        rates.append(5 * 2 * source.nbytes / (start.elapsed_time(end) * 1e-3))
    plain = sorted(rates)[len(rates) // 2]
    print(f"copy: rooflab {roof.bytes_per_s / 1e12:.3f} TB/s, plain {plain / 1e12:.3f} TB/s, "
          f"ratio {roof.bytes_per_s / plain:.4f}")  # fmt: skip
    assert abs(roof.bytes_per_s / plain - 1) < WITHIN


@pytest.mark.parametrize("fmt", ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"])
@pytest.mark.parametrize("n", [2048, 4096, 8192])
def test_matmul_rate_is_that_of_do_bench(fmt, n):
    from triton.testing import do_bench

    from rooflab.ceilings import matmul_call, matmul_rate
    from rooflab.device import find_device

    device = find_device()
    if not device.supports(fmt):
        pytest.skip(f"{device.name} has no {fmt} products")
    if fmt in ("fp64", "fp32") and n == 8192:
        pytest.skip("fp32 and fp64 at this size take seconds and show nothing that 4096 does not")
    call = matmul_call(device, fmt, n)
    ours, theirs, again = [], [], []
    for _ in range(12):  # in short turns: a chip at its power limit changes its clock within tenths of a second
        ours.append(matmul_rate(device, fmt, n, budget_s=0.04).median_s)
        theirs.append(do_bench(call, warmup=5, rep=40, return_mode="median") * 1e-3)
        again.append(do_bench(call, warmup=5, rep=40, return_mode="median") * 1e-3)
    ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
    noise = statistics.median(t / a for t, a in zip(theirs, again, strict=True))
    rate = 2 * n**3 / statistics.median(ours) / 1e12
    print(f"{fmt} {n}: {rate:.1f} TFLOP/s, ratio to do_bench {ratio:.4f}, do_bench to itself {noise:.4f}")
    assert abs(ratio - 1) < WITHIN


def test_the_three_clocks_agree_on_long_work_and_differ_on_short_work():
    from rooflab.measurement import measure

    big = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    turns = [{clock: measure(lambda: big @ big, clock=clock, settle=0, budget_s=0.1).median_s
              for clock in ("host", "events", "graph")} for _ in range(8)]  # fmt: skip
    for clock in ("events", "graph"):  # in turns, because the chip's clock drifts under load
        assert 0.9 < statistics.median(turn[clock] / turn["host"] for turn in turns) < 1.05, turns
    x = torch.zeros(8, device="cuda")
    short = {clock: measure(lambda: x.add_(1.0), clock=clock).median_s for clock in ("host", "events", "graph")}
    print("add_ on 8 elements:", {clock: f"{t * 1e6:.2f} µs" for clock, t in short.items()})
    assert short["graph"] < 0.5 * short["host"], short


def test_rotating_inputs_leave_the_cache():
    from rooflab.clocks import GraphClock
    from rooflab.measurement import measure

    small = [torch.ones(2**22, device="cuda") for _ in range(32)]  # 16 MiB each, 512 MiB together
    same = measure(lambda x: x.add_(1.0), inputs=small[:1], clock=GraphClock(unroll=32))
    turns = measure(lambda x: x.add_(1.0), inputs=small, clock=GraphClock(unroll=32))
    assert turns.median_s > 1.2 * same.median_s


def test_triton_kernels_are_compiled_here_and_counting_them_says_what_to_do():
    pytest.importorskip("triton")
    import triton
    import triton.language as tl

    from rooflab import count

    @triton.jit
    def add_one(x, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) + 1)

    x = torch.zeros(32, device="cuda")
    add_one[(1,)](x, 32)
    assert x.sum().item() == 32
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET"):
        count(lambda: add_one[(1,)](x, 32))


def test_out_of_memory_is_one_sentence():
    from rooflab.measurement import measure

    with pytest.raises(Exception, match="memory") as caught:
        measure(lambda: torch.empty(2**50, device="cuda"))
    assert "\n" not in str(caught.value).strip()
