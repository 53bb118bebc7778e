"""No input crashes a parser: some hundred of those that `python -m benchmarks.fuzz` makes by the thousands."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from benchmarks.fuzz import Result, fuzz, keep
from benchmarks.fuzz_mutations import of_bytes
from benchmarks.fuzz_parsers import Parser, parsers
from bisect_bot.errors import CaseError

INPUTS = 250
NAMES = [parser.name for parser in parsers(Path(tempfile.gettempdir()))]


def results(tmp_path: Path, name: str, seed: int = 1) -> Result:
    (parser,) = (each for each in parsers(tmp_path) if each.name == name)
    return fuzz(parser, INPUTS, seed)


@pytest.mark.parametrize("name", NAMES)
def test_no_input_crashes_a_parser_or_makes_it_slow(tmp_path: Path, name: str) -> None:
    result = results(tmp_path, name)
    assert result.crashes == []
    assert result.inputs == INPUTS
    assert result.slowest_s < 2


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_themselves_are_sound(tmp_path: Path, name: str) -> None:
    (parser,) = (each for each in parsers(tmp_path) if each.name == name)
    for sample in parser.samples if name != "options" else ():  # each of them suits one option of several
        parser.parse(sample)


def test_a_crash_and_an_error_of_two_lines_are_found_and_kept(tmp_path: Path) -> None:
    def parse(content: bytes) -> None:
        if b"0" in content:
            raise ZeroDivisionError
        raise CaseError("two\nlines" if b"1" in content else "one line")

    result = fuzz(Parser("planted", (b"0", b"1", b"2"), parse, lambda _, sample: sample, (CaseError,)), 6, 0)
    assert [(len(result.crashes), result.refused)] == [(4, 4)]
    assert "ZeroDivisionError" in result.crashes[0][0]
    assert keep(tmp_path / "kept", "a b", b"0").read_bytes() == b"0"


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, again, other = ([of_bytes(rng, b"sample") for _ in range(50)] for rng in map(random.Random, (1, 1, 2)))
    assert first == again
    assert first != other
