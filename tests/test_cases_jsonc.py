"""JSON with comments: what upstream's files hold is read, whatever else comes is an error with its line."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bisect_bot.cases.jsonc import MAX_BYTES, MAX_DEPTH, parse_jsonc
from bisect_bot.errors import CaseError

busy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The pieces that a parser of comments, strings and commas can stumble over.
PIECES = [
    "/",
    "*",
    "//",
    "/*",
    "*/",
    '"',
    "\\",
    "\n",
    "\r",
    ",",
    "[",
    "]",
    "{",
    "}",
    ":",
    "1",
    "-",
    "e",
    " ",
    "a",
    "\0",
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// Copyright\n[1, /* two\n */ 2] // three", [1, 2]),
        ('["a // b", "c /* d */", "e \\" // f"]', ["a // b", "c /* d */", 'e " // f']),
        ("[1, 2, // last\n]", [1, 2]),
        ('{"a": [1,],\n}', {"a": [1]}),
        ('[",]", ",}"]', [",]", ",}"]),
        ("\ufeff[]", []),
        ("[1, 2] /* never closed", [1, 2]),
        ('["ä", "\\u00e4"]', ["ä", "ä"]),
        ("[1/**/2]", None),
        ("[/]", None),
    ],
)
def test_comments_and_trailing_commas_are_blanks_but_not_in_strings(text: str, value: object) -> None:
    if value is None:
        with pytest.raises(CaseError):
            parse_jsonc(text.encode(), "x.jsonc")
    else:
        assert parse_jsonc(text.encode(), "x.jsonc") == value


def test_numbers_that_json_lacks_are_read() -> None:
    found = parse_jsonc(b"[NaN, -Infinity]", "x.jsonc")
    assert isinstance(found, list)
    assert math.isnan(found[0])
    assert found[1] == -math.inf


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[\n1,\n/* a\nb */ 2 3]", "x.jsonc, line 4, column 8: Expecting ',' delimiter"),
        (b"[\n\n", "x.jsonc, line 3, column 1: Expecting value"),
        (b'[\n"a\nb"]', "x.jsonc, line 2, column 3: Invalid control character at"),
        (b"[1,,]", "x.jsonc, line 1, column 5: Expecting value"),
        (b"", "x.jsonc, line 1, column 1: Expecting value"),
        (b"[1\n\xff]", "x.jsonc, line 2: it is not UTF-8 text"),
        (b"[\n" * (MAX_DEPTH + 1), f"x.jsonc, line {MAX_DEPTH + 1}: it nests deeper than {MAX_DEPTH}"),
        (b"9" * 5000, "x.jsonc: Exceeds the limit"),
        (b" " * (MAX_BYTES + 1), "x.jsonc is larger than 8 MiB"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(content: bytes, says: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse_jsonc(content, "x.jsonc")
    assert str(caught.value).startswith(says)
    assert str(caught.value).isprintable()


def test_brackets_in_strings_and_comments_are_no_nesting() -> None:
    text = f'["{"[" * 500}", /* {"{" * 500} */ {"[" * (MAX_DEPTH - 1)}{"]" * (MAX_DEPTH - 1)}]'
    assert isinstance(parse_jsonc(text.encode(), "x.jsonc"), list)


@pytest.mark.parametrize("piece", ['"', '\\"', '"\\', "/*", "/*/", "//", ", ", "[],", '"a\n', "/* *", ",\n"])
def test_the_time_grows_with_the_size_and_not_faster(piece: str) -> None:
    """Where nothing is ever closed, a careless pattern looks at the rest again from every place."""

    def seconds(size: int) -> float:
        begin = time.process_time()
        with pytest.raises(CaseError):
            parse_jsonc((piece * size).encode(), "x.jsonc")
        return time.process_time() - begin

    seconds(1_000)
    assert seconds(80_000) < 40 * max(seconds(10_000), 0.005)


@busy
@example("/*/")
@example('"\\')
@example("[1,/*,*/]")
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_whatever_the_text_is_there_is_a_value_or_a_case_error(text: str) -> None:
    try:
        parse_jsonc(text.encode(), "x.jsonc")
    except CaseError as error:
        assert str(error).isprintable()


@busy
@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_there_is_a_value_or_a_case_error(content: bytes) -> None:
    try:
        parse_jsonc(content, "x.jsonc")
    except CaseError as error:
        assert str(error).isprintable()
