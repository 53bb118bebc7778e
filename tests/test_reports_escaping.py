"""Text from outside stays text, whatever it holds and wherever it is put."""

from __future__ import annotations

import html
import io
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.table import Table

from bisect_bot.reports.escaping import (
    code_block,
    code_span,
    line,
    markdown,
    shorten,
    table,
    terminal,
    visible,
)
from tests.test_reports_samples import HOSTILE

# Any text, and text made of what means something in Markdown, in rich's markup or to a terminal.
SPECIAL = st.text("`|\\<>[]()*_~#@&$!:/.-+=123 \t\r\nabwh\x1b\x7f\x9b\u202e\u2066\u200b\u2028\ud800")
TEXTS = st.one_of(st.text(), SPECIAL, st.just(HOSTILE))


def parse(text: str) -> list[Token]:
    """The tokens of `text`, inline ones included, as CommonMark with GitHub's tables and strikethrough."""
    flat: list[Token] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        flat += [token, *(token.children or [])]
    return flat


def rendered(text: str) -> str:
    """The text that a reader of the Markdown `text` sees."""
    return "".join(token.content for token in parse(text) if token.type in ("text", "code_inline", "text_special"))


def kinds(text: str) -> set[str]:
    return {token.type for token in parse(text)}


@settings(deadline=None)
@given(TEXTS)
def test_no_control_or_invisible_character_survives_in_any_medium(text: str) -> None:
    for shown in (visible(text), line(text), markdown(text), code_span(text), terminal(text).plain):
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    shown = code_block(text).replace("\n", "")
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b2J", r"\x9b2J"),
        ("\x7f", r"\x7f"),
        ("\u202eexe", r"\u202eexe"),
        ("\u2066", r"\u2066"),
        ("\u200b", r"\u200b"),
        ("\ufeff", r"\ufeff"),
        ("\u3164", r"\u3164"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_code(hidden: str, shown: str) -> None:
    assert visible(hidden) == shown


def test_ordinary_text_of_any_language_is_left_alone() -> None:
    assert visible("Größe 大きさ: 3 × 4 µm, C:\\models\\a.onnx") == "Größe 大きさ: 3 × 4 µm, C:\\models\\a.onnx"


def test_lines_become_one_line() -> None:
    assert line("Error: a\r\n    at b\tc\n") == "Error: a at b c"


@settings(deadline=None)
@given(TEXTS, st.integers(1, 50))
def test_shortened_text_keeps_its_limit_and_its_beginning(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert text.startswith(short.removesuffix("…") if len(text) > limit else short)


@settings(deadline=None)
@given(TEXTS)
@example("1. a")
@example("- a")
@example("# a")
@example("a_b __c__ *d*")
@example("&lt;&#35;")
@example("#1#2 @a@b")
def test_markdown_renders_as_the_text_itself_and_as_nothing_else(text: str) -> None:
    for prefix in ("", "- ", "**x** "):  # at the start of a paragraph, of an item, and after other text
        escaped = prefix + markdown(text)
        found = kinds(escaped) - {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
        assert found <= {"strong_open", "strong_close", "bullet_list_open", "bullet_list_close"} | {
            "list_item_open",
            "list_item_close",
        }
        assert rendered(escaped).removeprefix("x" if "x" in prefix else "").strip() == line(text).strip()


@settings(deadline=None)
@given(TEXTS)
def test_no_angle_bracket_is_left_to_open_a_tag(text: str) -> None:
    assert "<" not in markdown(text)
    assert not {"html_inline", "html_block"} & kinds(f"a {code_span(text)} b {markdown(text)}")


@settings(deadline=None)
@given(TEXTS)
def test_mentions_references_and_addresses_are_not_left_to_github(text: str) -> None:
    # GitHub looks for these in the text outside of code once entities are decoded, addresses in the source.
    escaped = markdown(f"{text} https://e.vil www.e.vil @octocat #12")
    outside = "".join(
        token.content if token.type != "code_inline" else "\0"
        for token in parse(escaped)
        if token.content and token.type != "inline"
    )
    assert not re.search(r"@[A-Za-z0-9]|#\d", outside)
    assert not re.search(r"[A-Za-z]://|www\.", escaped, re.IGNORECASE)


@settings(deadline=None)
@given(TEXTS)
def test_a_code_span_renders_as_the_text_itself(text: str) -> None:
    spans = [token.content for token in parse(f"a {code_span(text)} b") if token.type == "code_inline"]
    assert spans == ([line(text)] if line(text) else [])


@settings(deadline=None)
@given(TEXTS)
@example("a\n```\nb\n````` \n")
def test_a_code_block_holds_all_of_its_text_and_ends_where_it_should(text: str) -> None:
    tokens = parse(f"{code_block(text, 'sh')}\n\nafter")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "text", "paragraph_close"]
    expected = visible(text.replace("\r\n", "\n"), keep="\n").rstrip("\n")
    assert tokens[0].content.rstrip("\n") == expected
    assert tokens[0].info == "sh"


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4))
@example([("a|b", "a\\|b", "\\"), ("`|`", "|", "||")])
def test_a_table_has_the_right_number_of_cells_whatever_they_hold(cells: list[tuple[str, str, str]]) -> None:
    text = table(["x", "y", "z"], [(markdown(a), code_span(b), f"{code_span(c)} (end)") for a, b, c in cells])
    for row in text.splitlines():
        assert len(re.findall(r"(?<!\\)\|", row)) == 4
    tokens = parse(text)
    assert sum(token.type == "td_open" for token in tokens) == 3 * len(cells)
    assert sum(token.type == "tr_open" for token in tokens) == len(cells) + 1
    spans = [token.content for token in tokens if token.type == "code_inline"]
    for _, b, c in cells:
        assert all(line(one) in spans for one in (b, c) if line(one))


def test_a_row_with_a_missing_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells"):
        table(["x", "y"], [["a"]])


@settings(deadline=None)
@given(TEXTS)
@example("[red]a[/red] [link=http://e.vil]b[/] :smile: \\")
def test_rich_shows_the_text_itself_in_a_line_a_title_and_a_cell(text: str) -> None:
    shown = Table(title=terminal(text), show_header=False, box=None, padding=0)
    shown.add_row(terminal(text))
    console = Console(file=io.StringIO(), width=2000, force_terminal=True, color_system="truecolor")
    with console.capture() as captured:
        console.print(terminal(text), shown)
    assert not line(text) or captured.get().count(line(text).rstrip()) >= 3
    assert "\x1b]8" not in captured.get()


def test_entities_in_the_text_are_not_decoded_twice() -> None:
    assert html.unescape(markdown("&lt;b&gt;")) == "&lt;b&gt;"
