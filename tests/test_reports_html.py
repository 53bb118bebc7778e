"""report.html: one page that stands alone, reads well anywhere, and lets nothing from outside act."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.async_api import Page

from bisect_bot.model import Direction, Failure, Report, Signature
from bisect_bot.reports import html_view
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.sentence import compare_link, headline
from bisect_bot.scratch import scratch
from bisect_bot.targets import browsers, chrome
from tests.test_reports_samples import (
    HOSTILE,
    POOL,
    SAMPLES,
    drifting,
    found_fix,
    found_regression,
    history,
    hostile,
    signature,
    verdict_table,
)
from tests.test_reports_texts import controls

EVERY = {**SAMPLES, "tested": verdict_table(), "hostile": hostile()}
VOID = {"meta", "link", "br"}
# What may be in a page; anything else came from outside.
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "main",
        "header",
        "section",
        "footer",
        "h1",
        "h2",
        "h3",
    ),
    *("p", "a", "ul", "ol", "li", "dl", "dt", "dd", "div", "span", "strong", "code", "pre", "br", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "line", "text", "polyline", "circle", "path", "rect"),
}


class Seen(HTMLParser):
    """The elements of a page with their attributes, its text, and whether all that opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every `tag`."""
        return [attributes for name, attributes in self.elements if name == tag]


def words(report: Report) -> str:
    """The text of the page in one line."""
    return re.sub(r"\s+", " ", " ".join(Seen(to_html(report)).text))


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_a_page_holds_our_own_elements_alone_and_each_is_closed(report: Report) -> None:
    seen = Seen(to_html(report))
    assert seen.open == []
    assert {tag for tag, _ in seen.elements} <= TAGS
    assert not [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_a_page_loads_nothing_and_links_only_to_upstream(report: Report) -> None:
    seen = Seen(to_html(report))
    places = [
        (tag, value)
        for tag, attributes in seen.elements
        for name, value in attributes.items()
        if name in ("src", "href")
    ]
    assert [place for place in places if place[0] != "a"] == [("link", "data:,")]
    assert all(
        (value or "").startswith("https://github.com/microsoft/onnxruntime/") for tag, value in places if tag == "a"
    )
    assert "url(" not in to_html(report)
    assert "@import" not in to_html(report)


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_the_policy_allows_the_style_of_the_page_and_nothing_else(report: Report) -> None:
    text = to_html(report)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policies = [m["content"] for m in Seen(text).all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    wanted = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    assert policies == [wanted]
    assert text.index("Content-Security-Policy") < text.index("<style>")


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_no_control_or_invisible_character_is_in_a_page(report: Report) -> None:
    text = to_html(report)
    assert not controls(text)
    assert text.encode()


def test_text_from_outside_is_shown_as_it_is_written() -> None:
    shown = words(hostile())
    assert "<img src=x onerror=alert(1)>" in shown
    assert r"\u202egpj.exe\u200b" in shown
    assert HOSTILE not in shown


@pytest.mark.parametrize("report", SAMPLES.values(), ids=list(SAMPLES))
def test_a_page_begins_with_the_answer_and_its_link(report: Report) -> None:
    shown = words(report)
    assert headline(report) in shown
    link = compare_link(report.cells[0].boundary) if report.cells else None
    assert link is None or link in [a["href"] for a in Seen(to_html(report)).all("a")]


def test_both_sides_have_their_commit_their_date_and_where_it_ran() -> None:
    shown = words(drifting())
    for text in ("✓ good last good", "✗ bad first bad", "d9ca84ef96", "2024-12-05", "mixed, dispatched 130 times"):
        assert text in shown


def test_it_says_how_the_case_fails_from_when_on_and_with_which_numbers() -> None:
    shown = words(drifting())
    assert "good at frame 1, all zero from frame 9" in shown
    assert "cosine similarity 0; foreground 0 % (expected 53 %)" in shown
    assert "[0, 3] 0 0.546875" in shown
    assert "channel 2: 0.25" in to_html(drifting())


def test_the_drift_is_drawn_and_listed_for_both_sides() -> None:
    seen = Seen(to_html(drifting()))
    assert len(seen.all("polyline")) == 2
    assert len(seen.all("circle")) == 13 + 8
    assert "frame 9 ✓ matches 1.37e-05 ✗ wrong 0.98 all zero cosine 0" in words(drifting())
    assert "<svg" not in to_html(found_regression())


def test_other_failures_are_told_with_where_and_how_often() -> None:
    shown = words(drifting())
    assert 'a kernel that fails Kernel "[LSTM]" failed. Error: out of workgroups 1.20.1 (2×)' in shown
    assert "good in the first run, the GPU device is lost from run 2" in shown
    assert "2 good, 2 other failure, 2 bad" in shown


def test_logs_are_folded_and_those_of_good_runs_are_not_there() -> None:
    page = to_html(drifting())
    assert page.count("[W:onnxruntime] Some nodes") == 4
    assert "<h2>Logs</h2>" not in to_html(found_regression())


def test_verdicts_are_told_by_more_than_a_colour() -> None:
    for tag, attributes in Seen(to_html(drifting())).elements:
        assert tag != "td" or "style" not in attributes
    for chunk in re.findall(r'<span class="look [a-z]+"[^>]*>(.*?)</span>\s*(?:</td>|</li>|</p>)', to_html(drifting())):
        assert re.search(r"good|bad|other failure|skip|matches|wrong", chunk)


def test_every_table_has_headers_with_a_scope() -> None:
    for report in SAMPLES.values():
        seen = Seen(to_html(report))
        assert all(header.get("scope") in ("col", "row") for header in seen.all("th"))
        assert len(seen.all("table")) == len(seen.all("thead"))


def test_several_cases_are_listed_with_their_verdicts() -> None:
    shown = words(found_fix())
    assert "All 3 cases" in shown
    assert "matmul.jsonc#two axes chrome webgpu same" in shown
    assert "✗✗ ✓✓" in shown


def test_a_table_without_a_search_has_all_revisions_beside_each_other() -> None:
    shown = words(verdict_table())
    assert headline(verdict_table()) in shown
    assert "<h1>Stopped after 9.</h1>" in to_html(verdict_table(), "Stopped after 9.")
    assert "silero_vad chrome webgpu ✓ good 9.01e-05 gpu" in shown
    assert "silero_vad on chrome/wasm: 2 good" in shown


def many(cases: int, length: int) -> Report:
    """A long search for each of many cases, with messages that are far too long."""
    cells = tuple(replace(POOL, case=f"{POOL.case} {number}") for number in range(cases))
    revisions = tuple(
        replace(found_regression().revisions[0], id=f"1.21.0-dev.{number}", version=None) for number in range(length)
    )
    message = Signature(Failure.ERROR, POOL.case, "m" * 10_000)
    trials = tuple(
        replace(t, verdict=replace(t.verdict, reason="r" * 10_000, signature=t.verdict.signature and message))
        for cell in cells
        for t in history(cell, "g" * (length // 2) + "b" * (length // 2), revisions)
    )
    answers = tuple(replace(found_regression().cells[0], cell=c, signature=signature(c)) for c in cells)
    return replace(found_regression(), cells=answers, revisions=revisions, trials=trials)


def test_a_page_of_many_revisions_cases_and_long_messages_stays_small_and_says_what_it_left_out() -> None:
    page = to_html(many(html_view.MOST_DETAILS + 5, 40))
    assert len(page) < 2_000_000
    assert "The details of 5 more cases stand in report.json." in page
    assert "m" * 2_001 not in page
    assert Seen(page).open == []


def test_a_failure_in_another_way_is_not_taken_for_a_second_boundary() -> None:
    odd = Signature(Failure.CRASH, POOL.case, "crash")
    report = found_regression()
    trials = tuple(
        replace(t, verdict=replace(t.verdict, signature=odd)) if t.revision == report.revisions[1].id else t
        for t in history(POOL, "gbggb--b")
    )
    other = replace(report, trials=trials)
    assert "changes more than once" not in to_html(other)
    assert "≠ other failure" in words(other)
    assert "changes more than once" in to_html(replace(other, any_failure=True))


CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('main *')) {
    if (e.closest('svg') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(e.className + ' ' + e.textContent.slice(0, 40));
  }
  return [...new Set(low)];
}"""


HOLLOW = """[...document.querySelectorAll('polyline, path.line')].filter(e => getComputedStyle(e).fill !== 'none')
    .map(e => e.getAttribute('class'))"""


async def look_at(page: Page, path: Path) -> dict[str, object]:
    """What a browser made of the page at `path`: what it asked for and said, how wide it is, what is hard to read."""
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    await page.set_viewport_size({"width": 360, "height": 800})
    await page.goto(path.as_uri())
    await page.wait_for_function("innerWidth === 360")
    seen: dict[str, object] = {
        "scripts": await page.evaluate("document.scripts.length"),
        "lines": await page.evaluate("document.querySelectorAll('polyline').length") > 0,
        "filled lines": await page.evaluate(HOLLOW),
        "overflow": await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
    }
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        seen[scheme] = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen[f"low contrast, {scheme}"] = await page.evaluate(CONTRAST)
    return {**seen, "asked": asked, "said": said}


@pytest.mark.browser
def test_a_browser_shows_it_without_a_request_on_a_phone_in_light_and_in_dark(tmp_path: Path) -> None:
    drift = drifting()
    fix = replace(drift, cells=tuple(replace(cell, direction=Direction.FIX) for cell in drift.cells))
    paths = [tmp_path / f"{number}.html" for number in range(4)]
    for path, report in zip(paths, (drift, fix, found_fix(), hostile()), strict=True):
        path.write_text(to_html(report), encoding="utf-8")

    async def all_of_them() -> list[dict[str, object]]:
        config = browsers.load_config()
        executable = browsers.locate("chrome", config).executable
        flags = browsers.command_line(config, None, ())
        with scratch() as folder:
            async with (
                chrome.driver(folder) as playwright,
                chrome.launch(playwright, Path(executable), flags, folder) as browser,
            ):
                context = browser.page.context
                return [await look_at(await context.new_page(), path) for path in paths]

    for path, seen in zip(paths, asyncio.run(all_of_them()), strict=True):
        assert seen == {
            "lines": path in paths[:2],
            "filled lines": [],
            "scripts": 0,
            "overflow": 0,
            "light": "rgb(244, 245, 247)",
            "dark": "rgb(21, 23, 28)",
            "low contrast, light": [],
            "low contrast, dark": [],
            "asked": [path.as_uri()],
            "said": [],
        }
