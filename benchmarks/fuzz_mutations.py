"""How inputs are spoiled: bytes, JSON trees, archives. All randomness comes from the generator that is passed in."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

Mutate = Callable[[random.Random, bytes], bytes]

NUMBERS: Sequence[Any] = (0, -1, 1, 7, 255, 2**31, 2**32, 2**63, -(2**63), 2**64, 10**9, 10**400, 0.5, -0.0, 1e308)
WORDS: Sequence[str] = (
    "",
    "NaN",
    "-Infinity",
    "\x1b[31mred",
    "a\nb\r\tc",
    "\u202egnirts",
    "\ud800",
    "\0",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "{a,b}" * 12,
    "*" * 40,
    "(" * 200,
    "'" * 5 + '"' * 5,
    "%s{}{0}",
    "é" * 300,
    "x" * 5000,
    "string",
    "int4",
    "bool",
    "webgpu",
    "__proto__",
)
TOKENS: Sequence[bytes] = (
    *(word.encode("utf-8", "surrogatepass") for word in WORDS),
    *(str(number).encode() for number in NUMBERS),
    *(b"{", b"}", b"[", b"]", b"[" * 2000, b'{"a":' * 500, b'"', b"\\", b"/*", b"*/", b"//", b",", b":", b"=", b"#"),
    *(b"\xff" * 10, b"\0" * 8, b"\x80" * 10 + b"\x01", b"\xef\xbb\xbf", b"PK\x03\x04", b"\x93NUMPY"),
)


def of_bytes(rng: random.Random, sample: bytes) -> bytes:
    """`sample` with some bits, bytes, slices and tokens changed, put in, taken out, repeated, or cut off."""
    content = bytearray(sample)
    for _ in range(1 + int(rng.expovariate(0.5))):
        at = rng.randrange(len(content) + 1)
        length = min(int(rng.expovariate(0.1)) + 1, 2000)
        change = rng.randrange(8)
        if change == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif change == 1 and at < len(content):
            content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif change == 2:
            del content[at : at + length]
        elif change == 3:
            content[at:at] = rng.randbytes(length)
        elif change == 4:
            content[at:at] = rng.choice(TOKENS)
        elif change == 5:
            content[at : at + length] = rng.choice(TOKENS)
        elif change == 6:
            content[at:at] = content[at : at + length] * rng.choice((1, 2, 50))
        else:
            del content[at if rng.random() < 0.3 else len(content) :]
    return bytes(content) if rng.random() > 0.02 else rng.randbytes(rng.randrange(200))


def of_text(rng: random.Random, sample: bytes) -> bytes:
    """`of_bytes`, as text in UTF-8 (lone surrogates included, as they come from a command line)."""
    return of_bytes(rng, sample).decode("utf-8", "surrogateescape").encode("utf-8", "surrogatepass")


def of_json(rng: random.Random, sample: bytes) -> bytes:
    """The JSON text `sample` with nodes of its tree changed, or, one time in three, with bytes changed."""
    if rng.random() < 0.33:
        return of_bytes(rng, sample)
    return json.dumps(tree(rng, json.loads(sample))).encode()


def of_frame(rng: random.Random, sample: bytes) -> bytes:
    """The frame `sample` with its header's tree or its blobs changed and the lengths right, or with bytes changed."""
    if rng.random() < 0.2:
        return of_bytes(rng, sample)
    (length,) = struct.unpack_from("<I", sample)
    header, body = json.loads(sample[4 : 4 + length]), sample[4 + length :]
    if rng.random() < 0.2:
        body = of_bytes(rng, body)
    if rng.random() < 0.9:
        header = tree(rng, {key: value for key, value in header.items() if key != "blobs"}) or {}
    if isinstance(header, dict):
        cut = rng.randrange(len(body) + 1) if rng.random() < 0.2 else len(body)
        header["blobs"] = [cut, len(body) - cut]
    head = json.dumps(header).encode()
    return struct.pack("<I", len(head)) + head + body


def of_archive(rng: random.Random, sample: bytes) -> bytes:
    """The zip `sample` with bytes changed, or packed again with entries that are changed, odd or there twice."""
    if rng.random() < 0.4:
        return of_bytes(rng, sample)
    files = _unpacked(sample)
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in files * rng.choice((1, 1, 1, 2)):
            _add(rng, archive, name, content)
    made = packed.getvalue()
    return of_bytes(rng, made) if rng.random() < 0.2 else made


def _add(rng: random.Random, archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    if rng.random() < 0.3:
        name = rng.choice((*WORDS, f"../{name}", f"/{name}", f"./{name}", f"{name}/x", name.upper(), f"a/{name}"))
    if rng.random() < 0.3:
        content = of_bytes(rng, content)
    entry = zipfile.ZipInfo(name.encode("utf-8", "replace").decode() or "empty")
    entry.compress_type = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED))
    if rng.random() < 0.1:
        entry.compress_type = rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    entry.external_attr = rng.choice((0, 0, 0o100644, 0o120777, 0o010644, rng.randrange(2**16))) << 16
    archive.writestr(entry, content)


def _unpacked(sample: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(sample)) as archive:
        return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]


def tree(rng: random.Random, value: Any) -> Any:
    """The JSON value `value` with a few of its nodes replaced, left out, doubled or wrapped."""
    value = copy.deepcopy(value)
    for _ in range(1 + int(rng.expovariate(0.7))):
        places = list(_places(value))
        if not places:
            return _odd(rng)
        holder, key = rng.choice(places)
        change = rng.randrange(5)
        if change == 0:
            del holder[key]
        elif change == 1 and isinstance(holder, list):
            holder.extend([holder[key]] * rng.choice((1, 3, 100)))
        elif change == 2:
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"name": holder[key]}
        elif change == 3 and isinstance(holder, dict):
            holder[rng.choice(WORDS)] = holder.pop(key)
        else:
            holder[key] = _odd(rng)
    return value


def _places(value: Any) -> Any:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _odd(rng: random.Random) -> Any:
    simple = rng.choice((rng.choice(NUMBERS), rng.choice(WORDS), None, True, float("nan"), float("inf")))
    return rng.choice((simple, simple, simple, [simple] * rng.randrange(4), {rng.choice(WORDS): simple}))
