"""Frames: how a message with binary parts crosses between page and server in one HTTP body.

A frame is a little-endian u32 (the header's length in bytes), the header as UTF-8 JSON, and the blobs one after
the other; the header's `blobs` lists their lengths. `web/page.js` has the other half.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class FrameError(ValueError):
    """Bytes that are not a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded message: the header without its `blobs`, and the blobs."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


def encode(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The frame of `header` and `blobs` as bytes."""
    head = json.dumps({**header, "blobs": [len(b) for b in blobs]}).encode()
    return b"".join((struct.pack("<I", len(head)), head, *blobs))


def decode(data: bytes) -> Frame:
    """The frame in `data`. Raises FrameError when lengths do not add up or the header is no JSON object."""
    try:
        (length,) = struct.unpack_from("<I", data)
        header = json.loads(data[4 : 4 + length])
        sizes = [int(n) for n in header.pop("blobs")]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FrameError(f"not a frame: {error}") from error
    offset = 4 + length
    if min(sizes, default=0) < 0 or offset + sum(sizes) != len(data):
        raise FrameError(f"a frame of {len(data)} bytes, but its header says {offset + sum(sizes)}")
    blobs = []
    for size in sizes:
        blobs.append(data[offset : offset + size])
        offset += size
    return Frame(header, tuple(blobs))
