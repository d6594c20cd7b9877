"""Corpora in their folders, packed and unpacked; the standard library."""

import json
import math
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rooflab.files import OutputError
from rooflab.speedrun.data import Corpus, CorpusMissing, corpus
from rooflab.speedrun.data import stdlib as library
from rooflab.speedrun.data.corpus import digest, load
from rooflab.speedrun.data.packing import PackError, pack, unpack
from rooflab.speedrun.data.writing import writing

from .wheels import source

corpus_module = sys.modules[load.__module__]  # `rooflab.speedrun.data.corpus` is also a function's name


def store(folder: Path, name: str = "fineweb", seed: int = 0) -> dict:
    """A small corpus in the folder."""
    draw = np.random.default_rng(seed)
    with writing(name, folder) as writer:
        for _ in range(3):
            writer.train(draw.integers(0, 50_257, 700, dtype=np.uint16))
        writer.valid(draw.integers(0, 50_257, 300, dtype=np.uint16))
        return writer.finish(vocabulary=50_257, valid_bytes=1_234, source="Random tokens.")


def test_what_is_written_is_read(tmp_path):
    told = store(tmp_path)
    found = corpus("fineweb", folder=tmp_path)
    draw = np.random.default_rng(0)
    expected = [draw.integers(0, 50_257, 700, dtype=np.uint16) for _ in range(3)]
    assert np.array_equal(found.train, np.concatenate(expected))
    assert (len(found.valid), found.vocabulary, found.valid_bytes, found.name) == (300, 50_257, 1_234, "fineweb")
    assert found.digest == told["digest"] == digest(found.train, found.valid)
    assert found.train.dtype == np.uint16
    assert [path.name for path in tmp_path.iterdir()] == ["fineweb"]


def test_bits_per_byte_do_not_depend_on_the_tokens():
    """A model that gives each byte 2 bits has 2 bits per byte, whether a token is one byte or three."""
    text = np.zeros(300, dtype=np.uint16)
    one = Corpus("toy", text, text, 257, 300, "", "")
    three = Corpus("toy", text[:100], text[:100], 50_257, 300, "", "")
    assert one.bits_per_byte(2 * math.log(2)) == pytest.approx(2, rel=1e-15)
    assert three.bits_per_byte(3 * 2 * math.log(2)) == pytest.approx(2, rel=1e-15)


def test_the_digest_tells_where_one_part_ends():
    tokens = np.arange(10, dtype=np.uint16)
    assert digest(tokens[:6], tokens[6:]) != digest(tokens[:5], tokens[5:])
    assert digest(tokens[:6], tokens[6:]) == digest(tokens[:6].astype(">u2"), tokens[6:].astype(">u2"))


def test_a_new_corpus_replaces_the_old_one(tmp_path):
    store(tmp_path, seed=1)
    before = corpus("fineweb", folder=tmp_path)
    first = int(before.train[0])
    told = store(tmp_path, seed=2)
    assert corpus("fineweb", folder=tmp_path).digest == told["digest"] != before.digest
    assert int(before.train[0]) == first, "whoever has the old one mapped keeps it"
    assert [path.name for path in tmp_path.iterdir()] == ["fineweb"]


def test_the_same_corpus_stays_where_it_is_and_a_harmed_one_does_not(tmp_path):
    store(tmp_path)
    before = (tmp_path / "fineweb" / "train.bin").stat()
    store(tmp_path)
    assert (tmp_path / "fineweb" / "train.bin").stat().st_ino == before.st_ino
    with (tmp_path / "fineweb" / "train.bin").open("r+b") as file:
        file.write(b"harm")
    told = store(tmp_path)
    found = corpus("fineweb", folder=tmp_path)
    assert digest(found.train, found.valid) == told["digest"]


@pytest.mark.parametrize("part", ["train.bin", "valid.bin"])
def test_a_flipped_byte_is_found(tmp_path, part):
    """Also in a process that has opened the corpus before."""
    store(tmp_path)
    corpus("fineweb", folder=tmp_path)
    flip(tmp_path / "fineweb" / part)
    sentence = (
        r"is damaged \(its tokens have the digest \w{12}, expected \w{12}\): make it again with `rooflab speedrun"
    )
    with pytest.raises(CorpusMissing, match=sentence):
        corpus("fineweb", folder=tmp_path)
    store(tmp_path)
    corpus("fineweb", folder=tmp_path)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file, later than its folder's clock can fail to tell."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, (time.time() + 1, time.time() + 1))


def test_a_corpus_is_read_through_once_in_a_process(tmp_path, monkeypatch):
    store(tmp_path)
    read, real = [], corpus_module.digest
    monkeypatch.setattr(corpus_module, "digest", lambda *parts: read.append(1) or real(*parts))
    for _ in range(3):
        corpus("fineweb", folder=tmp_path)
    assert read == [1]


def test_a_failure_leaves_what_was_there(tmp_path):
    told = store(tmp_path)

    def stop() -> None:
        with writing("fineweb", tmp_path) as writer:
            writer.train(np.zeros(5, dtype=np.uint16))
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stop()
    with writing("fineweb", tmp_path) as writer:  # which never comes to its end
        writer.train(np.zeros(5, dtype=np.uint16))
    assert corpus("fineweb", folder=tmp_path).digest == told["digest"]
    assert [path.name for path in tmp_path.iterdir()] == ["fineweb"]


def test_a_killed_process_leaves_no_half_corpus(tmp_path):
    told = store(tmp_path)
    program = (
        "import os, signal, sys, numpy as np; from pathlib import Path\n"
        "from rooflab.speedrun.data.writing import writing\n"
        "with writing('fineweb', Path(sys.argv[1])) as writer:\n"
        "    writer.train(np.zeros(100_000, dtype=np.uint16)); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == -signal.SIGKILL
    assert corpus("fineweb", folder=tmp_path).digest == told["digest"]
    (left,) = tmp_path.glob(".fineweb.*")
    store(tmp_path)
    assert left.exists(), "it could be another process's that is at work"
    os.utime(left, (0, 0))
    store(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["fineweb"]


def test_an_empty_part_is_refused(tmp_path):
    with writing("fineweb", tmp_path) as writer:
        writer.train(np.zeros(5, dtype=np.uint16))
        with pytest.raises(ValueError, match="found none"):
            writer.finish(vocabulary=3, valid_bytes=1, source="")
    assert not list(tmp_path.iterdir())


def test_what_is_missing_says_which_command_makes_it(tmp_path):
    for name in ("code", "fineweb"):
        with pytest.raises(CorpusMissing, match=f"rooflab speedrun data make {name}"):
            corpus(name, folder=tmp_path)
    with pytest.raises(ValueError, match=r"expected a corpus of stdlib, code, fineweb; found 'pile'"):
        corpus("pile", folder=tmp_path)


@pytest.mark.parametrize(
    "harm",
    [
        lambda place: (place / "corpus.json").write_text("{"),
        lambda place: (place / "corpus.json").write_text("[]"),
        lambda place: (place / "corpus.json").write_text('{"train_tokens": "many"}'),
        lambda place: (place / "train.bin").write_bytes(b"\0" * 10),
        lambda place: (place / "valid.bin").unlink(),
    ],
)
def test_a_damaged_corpus_is_named(tmp_path, harm):
    store(tmp_path)
    harm(tmp_path / "fineweb")
    with pytest.raises(CorpusMissing, match=r"is damaged .* make it again"):
        corpus("fineweb", folder=tmp_path)


def test_code_of_another_edition_is_refused(tmp_path):
    store(tmp_path, "code")
    with pytest.raises(CorpusMissing, match="another edition"):
        corpus("code", folder=tmp_path)


@pytest.mark.parametrize(("kind", "expected"), [("cpu", "stdlib"), ("cuda", "code")])
def test_code_is_the_default_on_an_accelerator_alone(tmp_path, monkeypatch, kind, expected):
    from rooflab import device
    from rooflab.speedrun.data import code

    monkeypatch.setattr(device, "find_device", lambda: SimpleNamespace(kind=kind))
    assert corpus(folder=tmp_path).name == "stdlib", "where code is not there"
    told = store(tmp_path, "code")
    monkeypatch.setattr(code, "pinned", lambda: code.Pins(told["digest"], ()))
    assert corpus(folder=tmp_path).name == expected


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="Cannot write"):
        store(tmp_path / "file")


# Packing


def test_a_pack_brings_the_same_tokens(tmp_path):
    told = store(tmp_path / "here")
    seen = []
    file = pack("fineweb", tmp_path / "deep" / "x.pack", folder=tmp_path / "here", tell=lambda *each: seen.append(each))
    made = unpack(file, folder=tmp_path / "there")
    assert made == {**told, "name": "fineweb"}
    here, there = (load("fineweb", tmp_path / place) for place in ("here", "there"))
    assert np.array_equal(here.train, there.train)
    assert np.array_equal(here.valid, there.valid)
    assert seen[-1] == ("packing", 4800, 4800)
    assert [path.name for path in file.parent.iterdir()] == ["x.pack"]


def test_a_pack_that_lies_in_the_folder_is_unpacked_when_it_is_asked_for(tmp_path):
    told = store(tmp_path / "here")
    pack("fineweb", tmp_path / "there" / "fineweb.pack", folder=tmp_path / "here")
    assert corpus("fineweb", folder=tmp_path / "there").digest == told["digest"]
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "fineweb.pack").write_bytes(b"not a pack")
    with pytest.raises(CorpusMissing, match=r"could not be unpacked: .* is no packed corpus"):
        corpus("fineweb", folder=tmp_path / "third")


def _changed_header(data: bytes, **changes) -> bytes:
    magic, header, rest = data.split(b"\n", 2)
    return b"\n".join([magic, json.dumps(json.loads(header) | changes).encode(), rest])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: b"", "is no packed corpus"),
        (lambda data: b"PK\3\4" + data, "is no packed corpus"),
        (lambda data: data[: len(data) // 2], "cut short"),
        (lambda data: data[:-300], "cut short"),
        (lambda data: data[:1500] + bytes([data[1500] ^ 1]) + data[1501:], "damaged"),
        (lambda data: data.replace(b'"name"', b'"Name"'), "does not describe a corpus"),
        (lambda data: _changed_header(data, name="../../elsewhere"), "does not describe a corpus"),
        (lambda data: _changed_header(data, train_tokens=-1), "does not describe a corpus"),
        (lambda data: _changed_header(data, train_tokens=10**15), "fewer tokens"),
        (lambda data: _changed_header(data, train_tokens=2_000), "more tokens"),
        (lambda data: _changed_header(data, digest="0" * 64), "do not have the digest"),
    ],
)
def test_a_damaged_pack_is_refused_and_changes_nothing(tmp_path, harm, said):
    told = store(tmp_path)
    file = pack("fineweb", tmp_path / "x.pack", folder=tmp_path)
    file.write_bytes(harm(file.read_bytes()))
    with pytest.raises(PackError, match=said):
        unpack(file, folder=tmp_path)
    assert corpus("fineweb", folder=tmp_path).digest == told["digest"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fineweb", "x.pack"]


def test_what_is_not_there_cannot_be_packed(tmp_path):
    with pytest.raises(CorpusMissing):
        pack("code", tmp_path / "x.pack", folder=tmp_path)
    assert not list(tmp_path.iterdir())


# The standard library


@pytest.fixture
def modules(tmp_path) -> Path:
    """A small library with things in it that must not count."""
    place = tmp_path / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for i in range(40):
        path = place / (f"pack{i}/__init__.py" if i % 3 else f"module{i}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(i))
    for left_out in ("site-packages/x.py", "test/test_x.py", "pack1/tests/y.py", "_sysconfigdata__linux.py"):
        (place / left_out).parent.mkdir(parents=True, exist_ok=True)
        (place / left_out).write_text("# left out\n" + source(1000))
    (place / "gone.py").symlink_to(place / "nowhere.py")
    (place / "folder.py").mkdir()
    (place / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\n" + source(50).encode() + b"# \xe9\n")
    return place


def texts(tokens: np.ndarray) -> list[bytes]:
    """The files that the tokens stand for."""
    ends = np.flatnonzero(tokens == 256)
    assert ends[-1] == len(tokens) - 1
    return [part[part < 256].astype(np.uint8).tobytes() for part in np.split(tokens, ends + 1)[:-1]]


def test_the_library_is_split_by_module(modules):
    found = library._read(modules)
    train, valid = texts(found.train), texts(found.valid)
    assert len(train) + len(valid) == 40
    assert len(valid) >= 1
    assert not set(train) & set(valid)
    assert not any(b"left out" in text for text in train + valid)
    assert found.valid_bytes == sum(map(len, valid))
    assert int(found.train.max()) == 256


def test_training_repeats_no_validation(modules):
    """A module that copies one of validation, a comment added, stands in neither part a second time."""
    body = texts(library._read(modules).valid)[0]
    (modules / "copied.py").write_bytes(b"# a copy\n" + body)
    library._read.cache_clear()
    again = library._read(modules)
    assert sum(body in text for text in texts(again.valid)) == 1
    assert not any(body in text for text in texts(again.train))


def test_a_library_in_an_archive_is_read(modules):
    expected = library._read(modules).digest
    archive = modules.with_name(f"python{sys.version_info[0]}{sys.version_info[1]}.zip")
    with zipfile.ZipFile(archive, "w") as out:
        for path in modules.rglob("*.py"):
            if path.is_file():
                out.write(path, path.relative_to(modules).as_posix())
    modules.rename(modules.with_name("elsewhere"))
    library._read.cache_clear()
    assert library._read(modules).digest == expected


def test_an_interpreter_without_sources_says_so(tmp_path):
    with pytest.raises(CorpusMissing, match="no source of its library"):
        library._read(tmp_path / "nothing")
    (tmp_path / "json.pyc").write_bytes(b"compiled")
    with pytest.raises(CorpusMissing, match="no source of its library"):
        library._read(tmp_path)


def test_the_library_is_cut_at_its_limit(modules, monkeypatch):
    monkeypatch.setattr(library, "MOST_BYTES", 20_000)
    library._read.cache_clear()
    found = library._read(modules)
    assert 10_000 < len(found.train) + len(found.valid) < 20_100


def test_the_real_library():
    found = corpus("stdlib")
    assert found.digest == corpus("stdlib").digest == digest(found.train, found.valid)
    assert len(found.train) > 5e6
    assert 0.02 < len(found.valid) / len(found.train) < 0.1
    assert found.valid_bytes == int((found.valid < 256).sum())


def test_a_twin_in_python_is_in_the_part_of_its_module():
    assert library._family("_pydatetime.py") == library._family("datetime.py") == library._family("_datetime.py")
    assert library._family("__future__.py") == "future__"
    assert library._family("_.py") == "_"
