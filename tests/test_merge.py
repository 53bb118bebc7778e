"""Reports of several machines as one table: what is put together, what is told apart, and who says what."""

from __future__ import annotations

import asyncio
import json
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from bisect_bot.cli import app
from bisect_bot.errors import UsageError
from bisect_bot.model import Adapter, Cell, Outcome, Report, Result, Revision, Target
from bisect_bot.reports import json_report, matrix, merging
from bisect_bot.reports.gathered import gather
from bisect_bot.reports.merge_texts import dumps, summary, to_html, to_markdown, write
from bisect_bot.reports.merging import Merged, merge
from bisect_bot.scratch import scratch
from bisect_bot.targets import browsers, chrome
from tests.test_reports_junit import read as read_junit
from tests.test_reports_samples import (
    BUILDS,
    CHROME,
    HOSTILE,
    SAMPLES,
    found_fix,
    found_regression,
    hostile,
    trial,
    verdict_table,
)

NVIDIA = replace(CHROME, flags="hardware", adapter=Adapter("nvidia", "ada", driver="550.54"))
ELECTRON = Target("electron", "/opt/electron", "9.4.1", "linux", "", "any")
CONTENT = "0123456789abcdef"
OUTCOMES = dict(zip("gbsi", Outcome, strict=True))


def table(
    target: Target,
    letters: Mapping[str, str],
    *,
    builds: Sequence[Revision] = BUILDS,
    digests: Mapping[str, str] | None = None,
    session: str = "",
) -> Report:
    """A matrix of one machine: for each `case/backend`, one letter a build (g, b, s, i; - for untried, _ for none)."""
    trials = []
    for name, told in letters.items():
        case, _, backend = name.partition("/")
        cell = Cell(case, target.name, backend or "webgpu")
        trials += [trial(b, cell, OUTCOMES[x], "matrix") for b, x in zip(builds, told, strict=False) if x != "-"]
    cases = dict.fromkeys(name.partition("/")[0] for name in letters)
    known = digests if digests is not None else dict.fromkeys(cases, CONTENT)
    return replace(
        found_regression(),
        session=session or f"{target.name} {target.adapter}",
        result=Result.TESTED,
        cells=(),
        proofs=(),
        targets=(target,),
        revisions=tuple(builds),
        trials=tuple(trials),
        environment=(
            ("platform", f"System {target.platform}"),
            *((f"case {case}", f"Conv (ai.onnx 17); x float32[1]; sha256 {digest}") for case, digest in known.items()),
        ),
    )


WIDTHS = """(() => {
    const box = document.querySelector('.scroll');
    const page = document.documentElement;
    return [box.clientWidth, box.scrollWidth, page.scrollWidth - page.clientWidth];
})()"""


def merged(folder: Path, *reports: Report) -> Merged:
    """The reports, written as their commands write them, read again and put together."""
    return merge([gather(path) for path in written(folder, *reports)])


def written(folder: Path, *reports: Report) -> list[Path]:
    """The report.json of each report, in a folder of its own."""
    paths = []
    for number, report in enumerate(reports):
        path = folder / str(number) / "report.json"
        path.parent.mkdir(parents=True)
        text = matrix.dumps(report) if report.result is Result.TESTED else json_report.dumps(report)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def printed(found: Merged, width: int = 80) -> str:
    """What a terminal of that width shows."""
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(summary(found), crop=False)
    return capture.get()


def names(found: Merged) -> list[str]:
    return [revision.id for revision in found.revisions]


# --- who says what ------------------------------------------------------------------------------


def test_it_says_which_machine_fails_where_another_passes(tmp_path: Path) -> None:
    found = merged(tmp_path, table(CHROME, {"conv": "ggbbb"}), table(NVIDIA, {"conv": "gggbg"}))
    assert found.sentences == (
        "conv fails on google swiftshader, passes on nvidia ada, with 1.20.1, 1.21.0-dev.20241205-d27fecd3d3;"
        " is the same in all environments that answered, with 3 revisions.",
    )
    assert found.differ == (0,)
    assert found.sentence == "2 reports, 2 environments, 5 revisions, 1 case: environments differ for 1 of 1 case."


def test_it_says_when_all_machines_agree(tmp_path: Path) -> None:
    found = merged(tmp_path, table(CHROME, {"conv": "gb"}), table(NVIDIA, {"conv": "gb"}))
    assert found.sentences == ("conv is the same in all environments that answered, with 2 revisions.",)
    assert found.sentence.endswith("environments differ for 0 of 1 case.")


@pytest.mark.parametrize(("first", "second"), [("gs", "ib"), ("g-", "-b"), ("si", "gb")])
def test_skip_and_infra_contradict_nobody(tmp_path: Path, first: str, second: str) -> None:
    found = merged(tmp_path, table(CHROME, {"conv": first}), table(NVIDIA, {"conv": second}))
    assert found.differ == ()
    assert found.sentences == (
        "conv was answered by at most one environment for each revision: there is nothing to compare.",
    )


def test_cases_with_nothing_to_compare_share_one_sentence_and_are_not_counted_as_equal(tmp_path: Path) -> None:
    letters = {f"case_{n}": "g-" for n in range(18)}
    apart = merged(tmp_path / "apart", table(CHROME, letters), table(NVIDIA, dict.fromkeys(letters, "-b")))
    assert apart.sentence == "2 reports, 2 environments, 2 revisions, 18 cases: nothing to compare in 18 of 18."
    for text in (printed(apart), to_markdown(apart), to_html(apart)):
        assert text.count("nothing to compare") >= 2
        assert text.count("answered by") == 1 and "environments differ" not in text
    assert "answer found" not in to_html(apart)
    some = merged(tmp_path / "some", table(CHROME, letters), table(NVIDIA, {**letters, "case_3": "-b", "case_5": "ib"}))
    assert some.sentence.endswith(": environments differ for 0 of 16 cases; nothing to compare in 2 of 18.")
    assert "None of case_3, case_5 was answered by two environments" in to_markdown(some).replace("\\", "")
    assert "answer found" in to_html(some)


def test_a_machine_that_says_both_differs_from_one_that_does_not(tmp_path: Path) -> None:
    wavering = table(CHROME, {"conv": "g"})
    wavering = replace(wavering, trials=(*wavering.trials, *table(CHROME, {"conv": "bb"}).trials[:1]))
    found = merged(tmp_path, wavering, table(NVIDIA, {"conv": "g"}))
    assert "passes on nvidia ada, is not always the same on google swiftshader" in found.sentences[0]
    assert "| **1 good, 1 bad** |" in to_markdown(found)


def test_backends_are_compared_each_by_itself(tmp_path: Path) -> None:
    letters = {"conv/webgpu": "b", "conv/wasm": "g"}
    found = merged(tmp_path, table(CHROME, letters), table(NVIDIA, {**letters, "conv/webgpu": "g"}))
    assert found.sentences == (
        "conv: with webgpu it fails on google swiftshader, passes on nvidia ada, with 1.20.0-dev.20241016-2b8fc5529b;"
        " with wasm it is the same in all environments that answered, with 1 revision.",
    )


def test_machines_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    letters = {"conv": "g"}
    older = replace(NVIDIA, adapter=Adapter("nvidia", "ada", driver="470.1"), version=NVIDIA.version)
    found = merged(
        tmp_path, table(CHROME, letters), table(NVIDIA, letters), table(older, letters), table(ELECTRON, letters)
    )
    assert found.labels == (
        "google swiftshader",
        "nvidia ada, driver 550.54",
        "nvidia ada, driver 470.1",
        "no GPU adapter",
    )
    alone = merged(tmp_path / "0", table(ELECTRON, letters))
    assert alone.labels == ("no GPU adapter, electron 9.4.1",)
    assert alone.sentence.endswith("there is no second environment to compare with.")


def test_two_executables_that_call_themselves_alike_stay_two(tmp_path: Path) -> None:
    both = table(CHROME, {"conv": "g"})
    second = replace(CHROME, name="chrome-2")
    both = replace(
        both, targets=(CHROME, second), trials=(*both.trials, *table(second, {"conv": "b"}).trials), session="x"
    )
    found = merged(tmp_path, both)
    assert [machine.browser for machine in found.machines] == ["chrome", "chrome-2"]
    assert found.differ == (0,)


# --- what is put together -----------------------------------------------------------------------


def test_cases_of_one_name_and_different_content_are_told_apart(tmp_path: Path) -> None:
    other = table(NVIDIA, {"conv": "b"}, digests={"conv": "f" * 16})
    found = merged(tmp_path, table(CHROME, {"conv": "g"}), other)
    assert [case.label for case in found.cases] == [f"conv [{CONTENT}]", f"conv [{'f' * 16}]"]
    assert found.differ == ()
    assert found.notes == ("conv is not the same case in all reports: its contents are told apart",)


def test_a_case_of_unknown_content_is_no_other_reports_case(tmp_path: Path) -> None:
    reports = [table(target, {"conv": letter}, digests={}) for target, letter in ((CHROME, "g"), (NVIDIA, "b"))]
    found = merged(tmp_path, *reports)
    assert [case.label for case in found.cases] == ["conv [of report 1]", "conv [of report 2]"]
    assert found.differ == ()


def test_revisions_keep_the_order_of_every_report(tmp_path: Path) -> None:
    odd, even = BUILDS[1::2], BUILDS[::2]
    found = merged(tmp_path, table(CHROME, {"conv": "gggg"}, builds=odd), table(NVIDIA, {"conv": "gggg"}, builds=even))
    assert names(found) == [build.id for build in BUILDS]
    # Before a revision comes all that any report has before it, whatever its version says.
    ahead = merged(
        tmp_path / "1",
        table(CHROME, {"conv": "gg"}, builds=(BUILDS[2], BUILDS[0])),
        table(NVIDIA, {"conv": "gg"}, builds=(BUILDS[3], BUILDS[0])),
    )
    assert names(ahead) == [BUILDS[2].id, BUILDS[3].id, BUILDS[0].id]
    commits = found_fix().revisions
    mixed = merged(
        tmp_path / "0",
        table(CHROME, {"conv": "gggg"}, builds=commits[::-1]),
        table(NVIDIA, {"conv": "ggg"}, builds=(commits[2], *BUILDS[:2])),
    )
    assert [r for r in names(mixed) if r in {c.id for c in commits}] == [c.id for c in commits[::-1]]
    assert names(mixed).index(commits[2].id) < names(mixed).index(BUILDS[0].id)


def test_reports_that_contradict_each_other_about_order_still_give_a_table(tmp_path: Path) -> None:
    forth, back = BUILDS[:3], BUILDS[2::-1]
    found = merged(tmp_path, table(CHROME, {"conv": "ggg"}, builds=forth), table(NVIDIA, {"conv": "ggg"}, builds=back))
    assert names(found) == [build.id for build in forth]
    assert found.sentences[0].endswith("with 3 revisions.")


def test_only_revisions_that_were_tested_are_columns(tmp_path: Path) -> None:
    assert names(merged(tmp_path, table(CHROME, {"conv": "g--b"}))) == [BUILDS[0].id, BUILDS[3].id]


def test_the_same_session_is_counted_once_by_its_fuller_report(tmp_path: Path) -> None:
    early, late = table(CHROME, {"conv": "g"}, session="s"), table(CHROME, {"conv": "gb"}, session="s")
    for folder, order in (("a", (early, late)), ("b", (late, early))):
        (tmp_path / folder).mkdir()
        found = merged(tmp_path / folder, *order)
        assert [cell.label for cell in found.lines[0].cells if cell] == ["good", "bad"]
        assert len(found.reports) == 1 and "is not counted again" in found.notes[0]
    elsewhere = merged(tmp_path, early, replace(table(NVIDIA, {"conv": "g"}, session="s")))
    assert len(elsewhere.reports) == 2


def test_a_run_counts_its_trials_but_not_those_of_proofs(tmp_path: Path) -> None:
    run = found_regression()
    proof = replace(run.trials[0], purpose="proof", verdict=run.trials[1].verdict)
    found = merged(tmp_path, replace(run, trials=(*run.trials, proof)))
    cells = dict(zip(names(found), found.lines[0].cells, strict=True))
    told = {revision: cell.label for revision, cell in cells.items() if cell}
    assert told[BUILDS[0].id] == "good"
    assert told[BUILDS[3].id] == "good (3×)"


def test_a_table_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = table(CHROME, {"a": "gg", "b": "gg"})
    assert merged(tmp_path, report).lines
    monkeypatch.setattr(merging, "MAX_PLACES", 3)
    with pytest.raises(UsageError, match="2 lines of 2 revisions"):
        merged(tmp_path / "0", report)


# --- what is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SAMPLES, "tested"])
def test_every_report_of_ours_can_be_merged(tmp_path: Path, name: str) -> None:
    found = merged(tmp_path, {**SAMPLES, "tested": verdict_table()}[name], table(NVIDIA, {"conv": "g"}))
    assert found.sentence in to_markdown(found)
    assert "conv" in printed(found) and "conv" in to_html(found)
    assert json.loads(dumps(found))["kind"] == "merge"


def test_text_from_outside_acts_on_no_reader(tmp_path: Path) -> None:
    environment = (("platform", HOSTILE), (f"case {HOSTILE}", f"{HOSTILE} sha256 {CONTENT}"))
    evil = replace(hostile(), environment=environment)
    found = merged(tmp_path, evil, replace(evil, session="other", environment=()), table(CHROME, {"conv": "b"}))
    for text in (to_markdown(found), to_html(found), dumps(found), printed(found)):
        assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert "<img" not in to_html(found)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(found))
    assert "<img" not in rendered and "<a " not in rendered
    assert rendered.count("<details>") == rendered.count("</details>") == 2


def test_markdown_has_machines_downwards_and_revisions_across(tmp_path: Path) -> None:
    text = to_markdown(merged(tmp_path, table(CHROME, {"conv": "gs"}), table(NVIDIA, {"conv": "b-"})))
    assert f"| device | environment | backend | case | `{BUILDS[0].id}` | `{BUILDS[1].id}` |" in text
    around = "chrome 156.0.7204.49, System Linux x86_64"
    assert f"| google swiftshader (software), driver 5.0.0 | {around} | `webgpu` | `conv` | good | **skip** |" in text
    assert f"| nvidia ada, driver 550.54 | {around} | `webgpu` | `conv` | **bad** |  |" in text
    assert "wasm3.getValue is not a function" in text


def test_a_terminal_of_80_columns_shows_the_machines_side_by_side(tmp_path: Path) -> None:
    text = printed(merged(tmp_path, table(CHROME, {"conv": "ggb"}), table(NVIDIA, {"conv": "ggg"})))
    assert "differs: conv fails on google swiftshader, passes on nvidia ada" in " ".join(text.split())
    (line,) = [line.split() for line in text.splitlines() if line.startswith("1.20.1 ")]
    assert line == ["1.20.1", "bad", "good"]
    assert max(map(len, text.splitlines())) <= 80


def test_a_large_table_shows_on_the_terminal_only_where_machines_differ(tmp_path: Path) -> None:
    letters = {f"case_{n}": "ggg" for n in range(40)}
    found = merged(tmp_path, table(CHROME, letters), table(NVIDIA, {**letters, "case_7": "gbg"}))
    text = printed(found)
    assert "case_7 with webgpu" in text and "case_8 with webgpu" not in text
    assert text.index("differs: case_7") < text.index("case_0 is the same")
    assert "each of 20 more cases stands in merge.md" in text and to_markdown(found).count("is the same in") == 40


def test_a_single_machine_has_a_table_and_nothing_to_compare(tmp_path: Path) -> None:
    found = merged(tmp_path, table(CHROME, {"conv": "gb"}))
    for text in (printed(found), to_markdown(found), to_html(found)):
        assert "at most one environment" not in text
        assert "bad" in text and "there is no second environment" in text


@pytest.mark.browser
def test_six_revisions_fit_on_the_page_and_more_of_them_scroll_inside_their_box(tmp_path: Path) -> None:
    letters = {"ConvTranspose without bias addition A - NHWC/wasm": "gbgbgbgb", "conv": "gbgbgbgb"}
    paths = []
    for count in (6, 8):
        builds = BUILDS[-count:]
        found = merged(tmp_path / str(count), *(table(each, letters, builds=builds) for each in (CHROME, NVIDIA)))
        paths.append(tmp_path / f"{count}.html")
        paths[-1].write_text(to_html(found), encoding="utf-8")

    async def widths() -> list[tuple[int, int, int]]:
        config = browsers.load_config()
        executable = browsers.locate("chrome", config).executable
        flags = browsers.command_line(config, None, ())
        seen = []
        with scratch() as folder:
            async with (
                chrome.driver(folder) as playwright,
                chrome.launch(playwright, Path(executable), flags, folder) as browser,
            ):
                await browser.page.set_viewport_size({"width": 1100, "height": 800})
                for path in paths:
                    await browser.page.goto(path.as_uri())
                    await browser.page.wait_for_function("innerWidth === 1100")
                    seen.append(await browser.page.evaluate(WIDTHS))
        return [tuple(each) for each in seen]

    (box, table_, beyond), (box_8, table_8, beyond_8) = asyncio.run(widths())
    assert table_ <= box and beyond == beyond_8 == 0
    assert table_8 > box_8


# --- the command --------------------------------------------------------------------------------


def test_the_command_writes_the_table_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, table(CHROME, {"conv": "gb"}), table(NVIDIA, {"conv": "gg"}))
    out = tmp_path / "out"
    assert app.main(["merge", *map(str, paths), "--out", str(out)]) == 0
    assert "differs: conv fails on google swiftshader" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["merge.html", "merge.json", "merge.md"]
    junit = tmp_path / "ci" / "junit.xml"
    assert app.main(["merge", *map(str, paths), "--out", str(out), "--junit", str(junit)]) == 0
    suites = list(read_junit(junit.read_text(encoding="utf-8")).iter("testsuite"))
    assert [(len(suite.findall("testcase")), suite.attrib["failures"]) for suite in suites] == [(2, "1"), (2, "0")]
    capsys.readouterr()
    assert app.main(["merge", *map(str, paths), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads((out / "merge.json").read_text(encoding="utf-8"))
    assert [case["differs"] for case in said["cases"]] == [True]
    assert said["lines"][0]["cells"][1]["counts"] == {"bad": 1}


def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (good,) = written(tmp_path, table(CHROME, {"conv": "g"}))
    out = tmp_path / "out"
    write(merged(tmp_path / "0", table(CHROME, {"conv": "g"})), out)
    (tmp_path / "other.json").write_text('{"schema": 2}', encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    for bad in (out / "merge.json", out / "merge.md", tmp_path / "other.json", tmp_path / "pipe", tmp_path / "none"):
        assert app.main(["merge", str(good), str(bad), "--out", str(tmp_path / "never")]) == 2
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 2 and str(bad) in told[0]
    assert not (tmp_path / "never").exists()
    assert app.main(["merge"]) == 2
