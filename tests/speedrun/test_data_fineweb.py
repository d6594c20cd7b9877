"""Shards of FineWeb: read, refused, and fetched from a server on this machine."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from rooflab.speedrun.data import corpus
from rooflab.speedrun.data.download import download
from rooflab.speedrun.data.fetching import FetchError
from rooflab.speedrun.data.fineweb import MAGIC, ShardError, make_fineweb, read_shard, token_lengths

MERGES = "#version: 0.2\n" + "".join(f"{'a' * (1 + i % 5)} b\n" for i in range(50_000))


def shard(tokens: np.ndarray, *, magic: int = MAGIC, version: int = 1, count: int | None = None) -> bytes:
    """A file of the public format."""
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, len(tokens) if count is None else count
    return header.tobytes() + tokens.astype("<u2").tobytes()


def random_tokens(seed: int, count: int = 5_000) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50_257, count, dtype=np.uint16)


@dataclass
class Server:
    """Files by their name, on this machine; and what was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    cut_at: int = 0  # end the answer after so many bytes
    ranges: bool = True
    digests: dict[str, str] = field(default_factory=dict)  # named in an answer that redirects
    address: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            wanted = self.headers.get("Range", "")
            told.asked.append((name, wanted))
            if name in told.digests:
                self.send_response(302)
                self.send_header("X-Linked-ETag", f'"{told.digests[name]}"')
                self.send_header("Location", f"/moved-{name}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = told.files.get(name.removeprefix("moved-"))
            if data is None:
                self.send_error(404)
                return
            start = int(wanted[6:-1]) if wanted and told.ranges else 0
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start:][: told.cut_at or None])

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.address = f"http://127.0.0.1:{running.server_port}/"
        yield told
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def make(server: Server, folder: Path, shards: int = 2, **more) -> dict:
    server.files = {
        "vocab.bpe": MERGES.encode(),
        "fineweb_val_000000.bin": shard(random_tokens(0)),
        "fineweb_train_000001.bin": shard(random_tokens(1)),
        "fineweb_train_000002.bin": shard(random_tokens(2)),
        **server.files,
    }
    digest = hashlib.sha256(server.files["vocab.bpe"]).hexdigest()
    return make_fineweb(
        shards, folder=folder, address=server.address, merges_address=server.address + "vocab.bpe",
        **{"merges_sha256": digest, "valid_tokens": 3_000, **more},
    )  # fmt: skip


# Shards


def test_a_shard_is_mapped(tmp_path):
    (tmp_path / "x.bin").write_bytes(shard(random_tokens(3)))
    found = read_shard(tmp_path / "x.bin")
    assert np.array_equal(found, random_tokens(3))
    assert isinstance(found, np.memmap)
    assert found.dtype == np.uint16


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "found 0 bytes"),
        (b"\0" * 1023, "found 1023 bytes"),
        (shard(random_tokens(1), magic=7), "expected the first number 20240520, found 7"),
        (shard(random_tokens(1), version=2), "of version 2; expected version 1"),
        (shard(random_tokens(1))[:-2], "is damaged: its header says 5,000 tokens"),
        (shard(random_tokens(1)) + b"\0", "is damaged"),
        (shard(random_tokens(1), count=-1), "is damaged"),
        (shard(random_tokens(1, 0)), "is damaged"),
    ],
)
def test_what_is_no_shard_is_refused(tmp_path, data, said):
    (tmp_path / "x.bin").write_bytes(data)
    with pytest.raises(ShardError, match=said):
        read_shard(tmp_path / "x.bin")


def test_bytes_of_tokens_follow_from_the_merges():
    """`Ġt` is a merge of two characters, each of which stands for one byte: the space and the letter."""
    lengths = token_lengths("#version: 0.2\nĠ t\nĠt h\n" + "a b\n" * 49_998)
    assert lengths[[255, 256, 257, 258, 50_255, 50_256]].tolist() == [1, 2, 3, 2, 2, 0]
    with pytest.raises(ValueError, match=r"expected 50,000 merges .* found 1"):
        token_lengths("#version: 0.2\na b\n")


# The corpus


def test_shards_become_one_corpus(tmp_path, server):
    told = make(server, tmp_path)
    found = corpus("fineweb", folder=tmp_path)
    assert np.array_equal(found.train, np.concatenate([random_tokens(1), random_tokens(2)]))
    assert np.array_equal(found.valid, random_tokens(0)[:3_000])
    lengths = token_lengths(MERGES)
    assert found.valid_bytes == sum(int(lengths[token]) for token in random_tokens(0)[:3_000])
    assert found.vocabulary == 50_257
    assert told["shards"] == 2


def test_more_shards_are_added_without_fetching_the_others_again(tmp_path, server):
    make(server, tmp_path, shards=1)
    assert len(corpus("fineweb", folder=tmp_path).train) == 5_000
    server.asked.clear()
    make(server, tmp_path, shards=2)
    assert [name for name, _ in server.asked] == ["fineweb_train_000002.bin"]
    assert len(corpus("fineweb", folder=tmp_path).train) == 10_000


def test_a_damaged_shard_is_fetched_again(tmp_path, server):
    make(server, tmp_path)
    (tmp_path / "fineweb-shards" / "fineweb_train_000001.bin").write_bytes(b"harmed")
    digest = corpus("fineweb", folder=tmp_path).digest
    assert make(server, tmp_path)["digest"] == digest


@pytest.mark.parametrize("shards", [0, -1, 104])
def test_so_many_shards_there_are_not(tmp_path, shards):
    with pytest.raises(ValueError, match="expected 1 to 103 shards"):
        make_fineweb(shards, folder=tmp_path)


def test_tokens_that_gpt2_does_not_have_are_refused(tmp_path, server):
    server.files["fineweb_train_000001.bin"] = shard(np.array([1, 2, 60_000], dtype=np.uint16))
    with pytest.raises(ShardError, match="holds the token 60000"):
        make(server, tmp_path)
    assert not (tmp_path / "fineweb").exists()


# The download


def test_a_download_goes_on_where_it_was_cut(tmp_path, server):
    data = random_tokens(9, 100_000).tobytes()
    server.files["big"], server.cut_at = data, 70_000
    with pytest.raises(FetchError, match="what has come is kept"):
        download(server.address + "big", tmp_path / "big")
    assert not (tmp_path / "big").exists()
    server.cut_at = 0
    seen: list[tuple[str, int, int]] = []
    path = download(server.address + "big", tmp_path / "big", tell=lambda *each: seen.append(each))
    assert path.read_bytes() == data
    assert server.asked[-1] == ("big", "bytes=70000-")
    assert seen[-1] == ("big", len(data), len(data))
    assert [each.name for each in tmp_path.iterdir()] == ["big"]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("have", [10, 200_000, 300_000])
def test_whatever_lies_there_the_file_comes_whole(tmp_path, server, ranges, have):
    """A part that is cut, whole or too long, from a server that can begin in the middle or cannot."""
    data = random_tokens(9, 100_000).tobytes()
    server.files["big"], server.ranges = data, ranges
    (tmp_path / "big.part").write_bytes((data * 2)[:have])
    assert download(server.address + "big", tmp_path / "big").read_bytes() == data


def test_another_file_than_expected_is_not_kept(tmp_path, server):
    server.files["big"] = b"text" * 100
    right = hashlib.sha256(b"text" * 100).hexdigest()
    for digests, sha256 in (({}, "0" * 64), ({"big": "0" * 64}, "")):
        server.digests = digests
        with pytest.raises(FetchError, match="not the file that was expected"):
            download(server.address + "big", tmp_path / "big", sha256=sha256)
        assert not list(tmp_path.iterdir())
    server.digests = {"big": right}
    assert download(server.address + "big", tmp_path / "big").stat().st_size == 400
    (tmp_path / "big").write_bytes(b"changed since")
    assert download(server.address + "big", tmp_path / "big", sha256=right).stat().st_size == 400


def test_what_the_server_lacks_is_named(tmp_path, server):
    with pytest.raises(FetchError, match=r"nothing: the server answers 404"):
        download(server.address + "nothing", tmp_path / "nothing")


def test_without_a_network_one_sentence_says_so(tmp_path, server):
    address = server.address.replace(server.address.split(":")[-1], "1/")  # a port at which nobody listens
    with pytest.raises(FetchError, match=r"Cannot fetch .* Try again when the network is there") as told:
        make_fineweb(1, folder=tmp_path, merges_address=address + "vocab.bpe")
    assert "\n" not in str(told.value)
