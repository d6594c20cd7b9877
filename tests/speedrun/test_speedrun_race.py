"""Several seeds of one config, and the time that each rung of a ladder takes to one loss."""

import json
import math
import re

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.cli import main  # noqa: E402
from rooflab.speedrun import race  # noqa: E402
from rooflab.speedrun.rungs import RUNGS  # noqa: E402
from rooflab.speedrun.seeds import Arrival, arrival, begin_again, other_seeds  # noqa: E402
from rooflab.speedrun.train import Trainer  # noqa: E402

from . import toys  # noqa: E402

CONFIG = toys.config(steps=6, eval_every=2)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_another_seed_is_as_a_run_of_its_own(optimizer):
    config, text = CONFIG.change(optimizer=optimizer), toys.corpus()
    trainer = Trainer(config, text)
    trainer.run()
    begin_again(trainer, 3, 0.0)
    again = trainer.run()
    alone = Trainer(config.change(seed=3), text)
    result = alone.run()
    assert trainer.watch.losses == alone.watch.losses
    assert again.bits_per_byte == result.bits_per_byte
    assert again.steps == 6


def test_other_seeds_stop_at_the_target_and_say_when():
    trainer = Trainer(CONFIG, toys.corpus())
    trainer.run()
    found = other_seeds(trainer, [1, 2], target=100.0)
    assert [[line["step"] for line in lines] for lines in found] == [[2], [2]], "the first evaluation"
    (lines,) = other_seeds(trainer, [1], target=0.0)
    assert [line["step"] for line in lines] == [2, 4, 6]
    assert arrival(lines, 1e-6) == Arrival(0, math.inf)


def test_a_run_that_never_came_to_the_target_has_no_time():
    lines = [{"step": 1, "loss": 2.0}, {"step": 2, "bits_per_byte": 3.0, "time_s": 1.0}]
    assert arrival(lines, 2.9) == Arrival(0, math.inf)
    assert arrival(lines, 3.0) == Arrival(2, 1.0)


def test_a_family_has_the_losses_of_its_first_rung():
    families = {}
    for rung in RUNGS:
        families.setdefault(race.family(rung.name), []).append(rung.name)
    assert families["baseline"] == [
        "baseline", "tf32", "bf16", "padded-vocabulary", "fused-attention", "compile", "fused-loss", "fused-optimizer",
        "loader",
    ]  # fmt: skip
    assert families["batch"] == ["batch", "graph"]
    assert families["rms-norm"] == ["rms-norm", "rotary-kernel"]
    # What changes a model, its data or the width of its heads stands for itself.
    assert all(families[name] == [name] for name in ("muon", "window", "fp8", "wide-heads", "small-model"))
    with pytest.raises(ValueError, match="found 'mun'"):
        race.family("mun")


def test_a_race_is_judged_often_unless_somebody_says_how_often():
    config = toys.preset("gpt2-small").change(steps=200)
    assert race.judged(config, often=True).eval_every == 4
    assert race.judged(config, often=True).eval_tokens < config.eval_tokens
    assert race.judged(config.change(eval_every=7), often=True).eval_every == 7
    rarely = race.judged(config, often=False)
    assert (rarely.eval_every, rarely.eval_tokens) == (0, race.judged(config, often=True).eval_tokens)


def test_the_target_of_all_is_what_the_worst_seed_of_the_worst_rung_came_to():
    found = {
        "loader": {"step_s": 0.5, "evaluations": [[[2, 1.0, 5.0], [4, 2.0, 3.0]], [[2, 1.0, 4.0], [4, 2.0, 3.5]]]},
        "muon": {"step_s": 0.25, "evaluations": [[[2, 0.5, 3.4], [4, 1.0, 2.0]], [[2, 0.5, 3.9], [4, 1.0, 4.5]]]},
        "bf16": {"step_s": 2.0},
        "window": {"skipped": "so"},
    }
    assert race.common_target(found) == 3.9, "the lowest of a run is what it came to, not its last"
    told = race.judge(found, {"loader": ["bf16"], "muon": [], "window": []}, 3.9)
    assert told["loader"]["arrivals"] == [[4, 2.0], [4, 2.0]]
    assert told["muon"]["arrivals"] == [[2, 0.5], [2, 0.5]]
    assert told["bf16"] == {"step_s": 2.0, "arrivals": [[4, 8.0], [4, 8.0]], "missed": 0, "steps_of": "loader"}
    assert told["window"] == {"skipped": "so"}
    assert race.judge(found, {"muon": []}, 3.0)["muon"]["missed"] == 1
    assert race.common_target({"bf16": {"step_s": 2.0}}) == 0.0


FAST = {"arrivals": [[4, 1.0], [4, 1.1], [5, 1.2], [4, 1.05], [5, 1.15]], "missed": 0}
SLOW = [2.0, 2.1, 2.2, 2.05, 2.15]


def test_cells_tell_the_mean_and_what_chance_has_to_do_with_it():
    cells, (times, source) = race.raced_cells("muon", FAST, (SLOW, "loader"))
    assert cells == ["1.1 s ± 79 ms", "0.008"]
    assert (times, source) == ([1.0, 1.1, 1.2, 1.05, 1.15], "muon")
    assert race.raced_cells("muon", {}, (SLOW, "loader")) == (["–", "–"], ([], ""))
    some = FAST | {"arrivals": FAST["arrivals"][:2], "missed": 3}
    assert race.raced_cells("muon", some, (SLOW, "loader")) == (["2 of 5 came", "–"], ([], ""))


def test_times_of_the_same_runs_are_no_two_groups():
    estimate, (times, source) = race.raced_cells("compile", FAST | {"steps_of": "loader"}, (SLOW, "muon"))
    assert estimate == ["~ 1.1 s ± 79 ms", "0.008"], "other runs stand behind the rung before"
    assert source == "loader"
    assert race.raced_cells("loader", FAST, (times, source))[0][1] == "–"


def test_the_legend_says_how_small_p_can_be():
    assert "With 5 seeds it is 0.008 or more." in race.raced_legend({"muon": FAST, "bf16": {"skipped": "so"}}, 2.0)
    assert "seeds it is" not in race.raced_legend({"muon": {"arrivals": [[1, 1.0]], "missed": 0}}, 2.0)


def test_the_ladder_tells_the_time_to_a_target(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [f"--set={name}={value}" for name, value in
               {"layers": 1, "width": 16, "heads": 2, "length": 16, "batch": 2, "eval_tokens": 64}.items()]  # fmt: skip
    asked = ["speedrun", "ladder", "--only", "baseline,fused-attention,rotary", "--data", "stdlib", "--device", "cpu"]
    code = main([*asked, *options, "--tokens", "256", "--target", "100", "--seeds", "2", "--out", "here"])
    out = capsys.readouterr().out
    assert code == 0
    assert re.search(r"\bto 100 +\| +p\b", out)
    (record,) = tmp_path.glob("here/*/speedrun_ladder.json")
    values = json.loads(record.read_text())["values"]
    assert (values["target"], values["seeds"]) == (100.0, 2)
    rungs = values["rungs"]
    assert rungs["baseline"]["steps_of"] == "fused-attention"
    steps, seconds = zip(*rungs["baseline"]["arrivals"], strict=True)
    assert list(steps) == [step for step, _ in rungs["fused-attention"]["arrivals"]]
    assert seconds == tuple(step * rungs["baseline"]["step_s"] for step in steps)
    assert len(rungs["rotary"]["arrivals"]) == 2
    assert rungs["rotary"]["missed"] == 0
    assert "steps_of" not in rungs["rotary"]


def test_without_a_target_all_rungs_are_timed_to_what_all_came_to(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [f"--set={name}={value}" for name, value in
               {"layers": 1, "width": 16, "heads": 2, "length": 16, "batch": 2, "eval_tokens": 64}.items()]  # fmt: skip
    asked = ["speedrun", "ladder", "--only", "baseline,rotary", "--data", "stdlib", "--device", "cpu", "--json"]
    assert main([*asked, *options, "--tokens", "256", "--seeds", "2", "--out", "here"]) == 0
    *_, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    (record,) = tmp_path.glob("here/*/speedrun_ladder.json")
    values = json.loads(record.read_text())["values"]
    assert last["target"] == values["target"] == race.common_target(values["rungs"]) > 0
    assert set(last["rungs"]) == {"baseline", "rotary"}
    for name, one in last["rungs"].items():
        assert (len(one["arrivals"]), one["missed"]) == (2, 0)
        assert one["arrivals"] == values["rungs"][name]["arrivals"]
        assert len(values["rungs"][name]["evaluations"]) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--seeds", "3", "--framework", "jax"], "expected --target and --seeds without --framework jax"),
        (["--target", "4", "--framework", "jax"], "expected --target and --seeds without --framework jax"),
        (["--set", "target=3"], "expected --target in place of --set target"),
        (["--only", "muon", "--without", "muon"], "expected a rung to be left"),
    ],
)
def test_what_a_ladder_would_ignore_is_refused(options, told, capsys):
    assert main(["speedrun", "ladder", *options, "--device", "cpu", "--data", "stdlib"]) == 1
    assert told in capsys.readouterr().err


def test_a_run_that_goes_on_takes_no_other_wishes(capsys, tmp_path):
    assert main(["speedrun", "--resume", str(tmp_path), "--steps", "9", "--rung", "muon"]) == 1
    assert "expected --resume without --rung, --steps: a run goes on as it was begun" in capsys.readouterr().err
