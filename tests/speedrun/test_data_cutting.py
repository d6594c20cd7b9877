"""A smaller vocabulary of the same text, by the merges that are left out."""

import inspect
import math

import numpy as np
import pytest

from rooflab.device import Device
from rooflab.speedrun import session
from rooflab.speedrun.data import Corpus, cut
from rooflab.speedrun.data import cutting as cutting_module
from rooflab.speedrun.data.bytepairs import BytePairs, code_vocabulary

from . import toys

TEXTS = [inspect.getsource(module).encode() for module in (inspect, cutting_module, session)]


@pytest.fixture(scope="module")
def code():
    """A corpus `code` of three files, two of them for training."""
    whole = code_vocabulary()
    parts = [np.append(whole.encode(text), whole.end_of_text).astype(np.uint16) for text in TEXTS]
    train, valid = np.concatenate(parts[:2]), parts[2]
    return Corpus("code", train, valid, whole.vocabulary, len(TEXTS[2]), "0" * 64, "Three files.")


@pytest.mark.parametrize("most", [257, 300, 2048, 50_256])
def test_a_cut_text_is_what_fewer_merges_would_have_made(code, most, monkeypatch):
    monkeypatch.setattr(cutting_module, "_AT_A_TIME", 1000)
    fewer = BytePairs(code_vocabulary().merges[: most - 257])
    found = cut(code, most)
    wanted = [np.append(fewer.encode(text), most - 1) for text in TEXTS]
    assert found.valid.dtype == np.uint16
    np.testing.assert_array_equal(found.train, np.concatenate(wanted[:2]))
    np.testing.assert_array_equal(found.valid, wanted[2])
    assert (found.vocabulary, found.valid_bytes) == (most, code.valid_bytes)
    assert found.digest != code.digest
    # A guess among equals costs as many bits as the tokens have, whatever they are.
    assert found.bits_per_byte(math.log(most)) == pytest.approx(len(wanted[2]) * math.log2(most) / len(TEXTS[2]))


@pytest.mark.parametrize("most", [0, 300])
def test_the_bytes_that_are_judged_are_those_of_the_tokens_that_were_looked_at(code, most):
    found = cut(code, most)
    lengths = found.token_bytes()
    assert lengths.shape == (found.vocabulary,)
    assert lengths[found.valid].sum() == found.valid_bytes
    assert found.bits_per_byte(2.0, found.valid) == pytest.approx(found.bits_per_byte(2.0))
    some = found.valid[:100].reshape(4, 25)
    text = BytePairs(code_vocabulary().merges[: found.vocabulary - 257]).decode(some.reshape(-1).tolist())
    assert found.bits_per_byte(math.log(2), some) == pytest.approx(100 / len(text))


@pytest.mark.parametrize("most", [0, 50_257, 60_000])
def test_nothing_is_cut_where_nothing_is_asked_for(code, most):
    assert cut(code, most) is code


def test_training_losses_become_bits_of_the_vocabulary_that_is_trained(code):
    """What the live plot shows, and the bar."""
    from rooflab.speedrun.live import LivePlot

    config, lines = toys.config(cut_vocabulary=300, steps=2, log_every=1), []
    plot = LivePlot(config, code)
    session.run_once(config, code, device=Device("cpu", "a processor", torch="cpu"), say=lines.append)
    for line in lines:
        plot(line)
    trained = [line for line in lines if "loss" in line]
    assert len(trained) == 2
    (judged,) = (line for line in lines if "valid_loss" in line)
    for line in trained:
        bits = line["train_bits_per_byte"] / line["loss"]
        assert bits == pytest.approx(judged["bits_per_byte"] / judged["valid_loss"], rel=1e-4)
        assert bits == pytest.approx(cut(code, 300).bits_per_byte(1.0), rel=0.1)
        assert bits != pytest.approx(code.bits_per_byte(1.0), rel=0.1)
    assert "bits per byte" in plot.told()


def test_a_run_pays_for_the_cut_once_and_another_one_pushes_it_out(code):
    first = cut(code, 300)
    assert cut(code, 300) is first
    cut(code, 301)
    assert cut(code, 300) is not first


def test_what_cannot_be_cut_is_refused(code):
    with pytest.raises(TypeError, match=r"a whole number; found 300\.5"):
        cut(code, 300.5)
    with pytest.raises(ValueError, match="257 or more, bytes and the end of a text; found 256"):
        cut(code, 256)
    for most in (20, 8192):  # more than a text of bytes has is no less a mistake
        with pytest.raises(
            ValueError, match="the corpus code with cut_vocabulary: toy has no byte pairs to cut, its tokens are bytes"
        ):
            cut(toys.corpus(), most)


def test_a_run_reads_and_is_judged_in_the_smaller_vocabulary(code):
    torch = pytest.importorskip("torch")
    from rooflab.speedrun.train import Trainer

    asked = toys.config(cut_vocabulary=300, eval_tokens=640, steps=2, padded_vocabulary=True)
    trainer = Trainer(asked, code)
    assert trainer.config.vocabulary == 300
    assert trainer.model.table.shape[0] == 320
    # As much text as 640 tokens of the whole vocabulary stand for.
    share = len(cut(code, 300).valid) / len(code.valid)
    assert share > 1.5
    assert trainer.held_out[0].size == pytest.approx(640 * share, abs=16 * 17)
    assert trainer.run().bits_per_byte < 9
    assert torch.isfinite(trainer.buffers.params).all()
