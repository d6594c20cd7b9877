"""Everything that is measured on a GPU, one part after another, each in a process of its own.

    python tools/records.py --list                      which parts are there, and how long may each take?
    python tools/records.py                             all of them
    python tools/records.py kernels ladder-softmax       some, by name or group
    python tools/records.py --nanogpt CLONE rival       what stands beside nanoGPT needs a clone of it

What a part keeps is in records/<device>/ as soon as it is measured; what it prints, and the folders of its runs, are in
--out. A part that fails or takes too long is told with the end of what it printed, and the next one begins.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from children import module, stop_on_signals

__all__ = ["PARTS", "Part", "chosen", "main", "measure"]

ROOT = Path(__file__).resolve().parents[1]
_TAIL = 15  # lines of what a part printed that are shown where it failed
_SPEEDRUN = ("rooflab", "speedrun")
_PACE = ("--steps", "40", "--set", "eval_every=40", "--set", "eval_tokens=131072")


@dataclass(frozen=True)
class Part:
    """One thing that is measured.

    Attributes:
        name: of its log.
        group: what it is asked for by, beside its name.
        words: a module and its arguments; {out} and {nanogpt} are put in.
        most_s: after so many seconds it is stopped.
    """

    name: str
    group: str
    words: tuple[str, ...]
    most_s: int


def _kernels(*names: str) -> tuple[str, ...]:
    return ("rooflab", "bench", "kernels", *names, "--record", "--output", "{out}/kernels")


def _pace(*words: str) -> tuple[str, ...]:
    return (*_SPEEDRUN, *words, *_PACE)


# By family, in Triton and Gluon; then those for JAX. A test holds these names beside the benchmark's.
_FAMILIES = {
    "rows": ("softmax", "softmax_backward", "rms_norm", "rms_norm_backward", "layer_norm", "layer_norm_backward",
             "add_rms_norm"),
    "pointwise": ("gelu", "gelu_backward", "swiglu", "swiglu_backward"),
    "quantize": ("rows_to_fp8", "tensor_to_fp8", "mxfp8", "mxfp4", "nvfp4"),
    "attend": ("attention", "attention_training", "rotary_heads", "rotary_heads_backward", "attention_decode"),
    "products": ("matmul", "scaled_matmul_tensor", "scaled_matmul_row", "scaled_matmul_block", "squared_relu",
                 "squared_relu_gradient", "matvec_plain", "matvec_int8", "matvec_fp8", "matvec_int4"),
    "loss": ("linear_cross_entropy", "cross_entropy", "cross_entropy_capped"),
}  # fmt: skip
_PALLAS = ("softmax", "rms_norm", "matmul", "attention", "attention_training")
_EQUALS = "tf32,bf16,padded-vocabulary,fused-attention,compile,loader,batch,muon"
_LIGHT = "value-skip,token-shift"
_ADAMW = ("--up-to", "wide-heads", "--without", f"{_LIGHT},muon")
PARTS = (
    *(Part(f"kernels-{name}", "kernels", (*_kernels(*kernels), "--tune"), 300) for name, kernels in _FAMILIES.items()),
    # A kernel for JAX that ends the process must not take the others along.
    *(Part(f"pallas-{name}", "pallas", _kernels(f"pallas_{name}"), 240) for name in _PALLAS),
    *(
        Part(f"ladder-{name}", "ladders",
             ("rooflab", "ladder", name, "--record", "--figure", f"{{out}}/ladder-{name}.png"), 120)
        for name in ("softmax", "matmul", "attention")
    ),
    Part("large", "checks", ("pytest", "-q", "-rs", "tests/gpu/test_large.py"), 240),
    Part("resumed", "checks", ("pytest", "-q", "-rs", "tests/gpu/test_speedrun_resumed.py"), 300),
    Part("nanogpt-1", "rival", ("nanogpt", "{nanogpt}", "--batch", "64", "--steps", "40"), 180),
    Part("adamw", "rival", _pace(*_ADAMW, "--out", "{out}/adamw"), 180),
    Part("adamw-128", "rival", _pace(*_ADAMW, "--set", "batch_factor=8", "--out", "{out}/adamw-128"), 180),
    Part("adamw-whole", "rival", _pace(*_ADAMW, "--set", "batch_factor=8", "--set", "compile=model",
                                       "--out", "{out}/adamw-whole"), 180),
    Part("adamw-fp8", "rival", _pace("--up-to", "fp8", "--without", f"window,{_LIGHT},muon", "--set", "batch_factor=8",
                                     "--out", "{out}/adamw-fp8"), 180),
    Part("muon-steps", "rival", _pace("--up-to", "wide-heads", "--without", _LIGHT, "--out", "{out}/muon"), 180),
    Part("fp8-steps", "rival", _pace("--up-to", "fp8", "--without", f"window,{_LIGHT}", "--out", "{out}/fp8"), 180),
    Part("nanogpt-2", "rival", ("nanogpt", "{nanogpt}", "--batch", "64", "--steps", "40"), 180),
    Part("twin", "twin", (*_SPEEDRUN, "--framework", "jax", "--up-to", "muon", "--steps", "40", "--out", "{out}/twin"),
         240),
    Part("equals", "twin", (*_SPEEDRUN, "--only", _EQUALS, "--steps", "40", "--out", "{out}/equals"), 180),
    Part("nanogpt-pass", "target", ("nanogpt", "{nanogpt}", "--evaluate-every", "350"), 420),
    Part("record", "target", (*_SPEEDRUN, "--without", "window", "--target", "{target}", "--steps", "600", "--seeds",
                              "5", "--set", "eval_every=20", "--out", "{out}/record"), 300),
    # To the target all rungs come: of 2.6 million tokens the lowest loss of the worst seed, at `graph`, was 2.338.
    Part("race", "race", (*_SPEEDRUN, "ladder", "--seeds", "5", "--target", "2.4", "--record",
                          "--out", "{out}/race"), 1200),
)  # fmt: skip


def chosen(words: Sequence[str], nanogpt: str) -> tuple[list[Part], list[str]]:
    """Return the parts that are asked for by name or group, in their order, and why others of these are left out.

    Raises:
        ValueError: there is no such part.
    """
    known = {each.name for each in PARTS} | {each.group for each in PARTS}
    for word in words:
        if word not in known:
            raise ValueError(f"There is no part {word!r}: the parts are {', '.join(each.name for each in PARTS)}; "
                             f"groups of them {', '.join(dict.fromkeys(each.group for each in PARTS))}.")  # fmt: skip
    found = [each for each in PARTS if not words or {each.name, each.group} & set(words)]
    without = [each for each in found if "{nanogpt}" in each.words and not nanogpt]
    left_out = [f"{each.name} is left out: it needs --nanogpt, a clone of nanoGPT" for each in without]
    return [each for each in found if each not in without], left_out


def measure(part: Part, out: Path, values: dict[str, str]) -> tuple[str, float]:
    """Run one part; returns what came of it, and the seconds it took.

    Args:
        part: what is measured.
        out: a folder that exists; its log goes there.
        values: what is put in for words in braces.
    """
    words = [word.format(**values) for word in part.words]
    log, begun = out / f"{part.name}.log", time.monotonic()
    with log.open("wb") as sink:
        try:
            with module(sys.executable, words, cwd=ROOT, stdout=sink) as process:
                process.wait(part.most_s)
        except subprocess.TimeoutExpired:
            return f"stopped after {part.most_s} s", time.monotonic() - begun
    code = process.returncode
    return "done" if code == 0 else f"ended with {code}", time.monotonic() - begun


def main(words: list[str] | None = None) -> int:
    """Measure what the options say; returns 1 if a part failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="names or groups (default: all)")
    parser.add_argument("--list", action="store_true", help="name the parts, and measure nothing")
    parser.add_argument("--out", type=Path, default=ROOT / ".artifacts" / "records", help="for logs, figures and runs")
    parser.add_argument("--nanogpt", default="", metavar="CLONE", help="folder of nanoGPT")
    parser.add_argument("--target", default="1.173", help="bits per byte of the record (default: nanoGPT's recipe's)")
    options = parser.parse_args(words)
    try:
        parts, left_out = chosen(options.parts, options.nanogpt)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        print(*(f"{each.group:8} {each.name:26} at most {each.most_s:4} s" for each in parts), *left_out, sep="\n")
        return 0
    out = options.out.resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"{out} cannot be made ({error.strerror}): name another folder with --out.", file=sys.stderr)
        return 2
    paths = (str(ROOT / "shared"), str(ROOT / "tools"), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ |= {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    values = {"out": str(out), "nanogpt": str(Path(options.nanogpt).resolve()), "target": options.target}
    stop_on_signals()
    table: list[tuple[str, str, float]] = []
    try:
        for part in parts:
            outcome, seconds = measure(part, out, values)
            table.append((part.name, outcome, seconds))
            print(f"{part.name}: {outcome} in {seconds:.0f} s", flush=True)
            if outcome != "done":
                log = (out / f"{part.name}.log").read_text(errors="replace")
                print(*log.splitlines()[-_TAIL:], sep="\n", flush=True)
    except KeyboardInterrupt:
        left_out.append(f"Stopped; not measured: {', '.join(each.name for each in parts[len(table) :])}.")
    print(*(f"{name:26} {outcome:22} {seconds:6.0f} s" for name, outcome, seconds in table), *left_out, sep="\n")
    return int(len(table) < len(parts) or any(outcome != "done" for _, outcome, _ in table))


if __name__ == "__main__":
    sys.exit(main())
