"""Frames say what they hold, and nothing else passes for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_bot.harness.frames import FrameError, decode, encode

HEADERS = st.dictionaries(
    st.text().filter(lambda key: key != "blobs"), st.none() | st.booleans() | st.integers() | st.text()
)


@given(HEADERS, st.lists(st.binary(max_size=200), max_size=5))
def test_a_frame_gives_back_what_was_put_in(header: dict[str, object], blobs: list[bytes]) -> None:
    frame = decode(encode(header, blobs))
    assert (frame.header, list(frame.blobs)) == (header, blobs)


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_and_never_crash(data: bytes) -> None:
    try:
        frame = decode(data)
    except FrameError:
        return
    assert decode(encode(frame.header, frame.blobs)) == frame


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        struct.pack("<I", 2**31) + b"{}",
        struct.pack("<I", 2) + b"{}",
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 13) + b'{"blobs":[5]}' + b"1234",
        struct.pack("<I", 14) + b'{"blobs":[-1]}',
        struct.pack("<I", 12) + b'{"blobs":""}' + b"x",
        struct.pack("<I", 100000) + b"[" * 100000,
    ],
)
def test_lengths_that_do_not_add_up_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


def test_a_cut_frame_is_refused() -> None:
    with pytest.raises(FrameError, match="bytes"):
        decode(encode({"kind": "result"}, [b"0123456789"])[:-1])
