"""How does a large public file get here, whole, with no more than the standard library?

Into a `.part` file beside its place, from where a stopped download goes on; renamed once length and digest are right.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "there.txt").write_text("text")
>>> download((folder / "there.txt").as_uri(), folder / "here.txt").read_text()
'text'
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import IO, Any

from ...files import output_folder
from .fetching import FetchError, sha256_of

__all__ = ["download"]

Tell = Callable[[str, int, int], None]
_PATIENCE_S = 30.0
_CHUNK = 1 << 20
# A hub that sends large files from elsewhere names their SHA-256 in the answer that redirects.
_DIGEST_HEADER = "X-Linked-ETag"
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and keeps the digest that one of them names."""

    sha256 = ""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        """Look at the answer's headers before it is followed."""
        if found := _SHA256.fullmatch(str(headers.get(_DIGEST_HEADER, ""))):
            self.sha256 = found[1]
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def download(address: str, path: Path, *, sha256: str = "", tell: Tell = lambda what, done, total: None) -> Path:
    """Fetch a file unless it is there; returns its path.

    Args:
        address: where it is.
        path: where it shall be.
        sha256: its digest; empty: what the server names, if it does, else only the length is checked.
        tell: is called with the name, how many bytes are here, and how many there are.

    Raises:
        FetchError: no network, no such file, or another file than expected; the message says which and what to do.
        OutputError: the folder cannot be written to.
    """
    output_folder(path.parent)
    if path.is_file() and (not sha256 or sha256_of(path) == sha256):
        return path
    part = path.with_name(f"{path.name}.part")
    redirects = _Redirects()
    try:
        _receive(urllib.request.build_opener(redirects), address, part, tell)
    except urllib.error.HTTPError as error:
        raise FetchError(f"Cannot fetch {address}: the server answers {error.code} ({error.reason}).") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"Cannot fetch {address}: {reason}. Try again when the network is there: what has come is kept."
        ) from error
    expected = sha256 or redirects.sha256
    if expected and (found := sha256_of(part)) != expected:
        part.unlink()
        raise FetchError(
            f"{address} is not the file that was expected: its SHA-256 is {found[:12]}, not {expected[:12]}. It was "
            "not kept; try again."
        )
    part.replace(path)
    return path


def _receive(opener: Any, address: str, part: Path, tell: Tell) -> None:
    """Append what is missing to the part; all of it where the server cannot begin in the middle."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = opener.open(request, timeout=_PATIENCE_S)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:  # "nothing there to send": the part is whole, or too long
            raise
        error.close()
        part.unlink()
        return _receive(opener, address, part, tell)
    with answer:
        if have and getattr(answer, "status", None) != 206:
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else 0
        with part.open("ab" if have else "wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                tell(part.stem, have, max(total, have))
    if total and have != total:
        raise http.client.IncompleteRead(b"", total - have)
    return None
