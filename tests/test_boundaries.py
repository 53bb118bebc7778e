"""Each change that the answers hint at is searched by itself, and nothing is made up where nothing changed."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from bisect_bot.builds.yard import Yard
from bisect_bot.errors import OutOfBudget
from bisect_bot.history import Line, line
from bisect_bot.model import Boundary, Cell, Commit, Direction, Outcome, Report, Request, Result, Revision, Verdict
from bisect_bot.reports.boundaries import story
from bisect_bot.reports.gitlog import to_gitlog
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.json_report import to_json
from bisect_bot.reports.markdown import to_markdown
from bisect_bot.reports.rows import rows
from bisect_bot.reports.sentence import headline
from bisect_bot.reports.terminal import summary
from bisect_bot.session.all_boundaries import AllBoundaries, with_others
from bisect_bot.session.bench import Bench
from bisect_bot.session.boundaries import Further, alone, changes_in, look_between, pursue
from bisect_bot.session.budget import Budget
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.commit_search import Asked, Sought
from bisect_bot.session.control import Controls
from bisect_bot.session.ground import Ground
from bisect_bot.session.journal import Journal, SessionState
from bisect_bot.session.loop import Given, Hunt, run_hunts
from bisect_bot.session.machine import Surroundings
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.supply import Supply
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import Workshop
from tests.planted_builds import NOWHERE, plant
from tests.planted_builds import revisions as planted_revisions
from tests.test_reports_json import SCHEMA
from tests.test_session_loop import OTHER, THIS, UNIT, Behaviour, Planted, builds, cell, from_index, search

A = cell("a")
NOWHERE_LINE = Line((), ())


def changing_at(revisions: Sequence[Revision], *places: int) -> Behaviour:
    """Good up to the first of `places`, where it changes, as at each that follows."""
    at = {r.id: i for i, r in enumerate(revisions)}
    return lambda r: Outcome.BAD if sum(at[r.id] >= place for place in places) % 2 else Outcome.GOOD


def all_changes(
    revisions: tuple[Revision, ...], cells: Mapping[Cell, Behaviour], given: Given = ()
) -> tuple[dict[Cell, list[Further]], Planted]:
    """The answer and the further changes of each cell, the oldest first."""
    found = line(revisions, revisions[0], revisions[-1])
    hunts = [Hunt(each, UNIT, found.main, given=given) for each in cells]
    bench = Planted(cells)
    run_hunts(hunts, found, bench, Silent())
    look_between(hunts, found, bench, Silent())
    roots = [Further(hunt) for hunt in hunts]
    pursue(roots, found, bench, Silent())
    return {root.cell: root.in_order() for root in roots}, bench


def log_of(revisions: Sequence[Revision], rule: Behaviour, *at: int) -> Given:
    """What a bisect log says that has tested the revisions `at` these places."""
    said = ((revisions[i].id, rule(revisions[i])) for i in at)
    return tuple((name, outcome) for name, outcome in said if isinstance(outcome, Outcome))


def places(found: Sequence[Further], revisions: Sequence[Revision]) -> list[tuple[int, int]]:
    """The two sides of each change, by their places among `revisions`."""
    at = {r.id: i for i, r in enumerate(revisions)}
    sides = [each.sides() for each in found]
    return [(at[side[0].id], at[side[1].id]) for side in sides if side is not None]


def test_a_regression_that_was_backed_out_and_landed_again_has_three_boundaries_in_order() -> None:
    revisions = builds(30)
    rule = changing_at(revisions, 6, 13, 27)
    found, _ = all_changes(revisions, {A: rule}, log_of(revisions, rule, 9, 20))
    assert places(found[A], revisions) == [(5, 6), (12, 13), (26, 27)]
    old = [each.answer().conclusion for each in found[A]]
    assert [each.old for each in old if each] == [Outcome.GOOD, Outcome.BAD, Outcome.GOOD]


@settings(max_examples=40, deadline=None)
@given(st.integers(8, 60), st.data())
def test_what_is_named_is_always_a_true_change_and_every_shown_one_is_named(count: int, data: st.DataObject) -> None:
    revisions = builds(count)
    last = len(revisions) - 1
    planted = sorted(data.draw(st.sets(st.integers(1, last), min_size=1, max_size=5)))
    rule, at = changing_at(revisions, *planted), {r.id: i for i, r in enumerate(revisions)}
    logged = data.draw(st.lists(st.integers(1, last - 1), max_size=6, unique=True))
    found, bench = all_changes(revisions, {A: rule}, log_of(revisions, rule, *logged))
    named = places(found[A], revisions)
    assert {new for _, new in named} <= set(planted)
    assert all(new == old + 1 for old, new in named)
    tested = sorted({at[name] for name, _ in bench.asked} | set(logged))
    shown = {pair for pair in pairwise(tested) if rule(revisions[pair[0]]) is not rule(revisions[pair[1]])}
    assert shown == set(named)


def test_one_change_asks_nothing_more() -> None:
    revisions = builds(30)
    rule = changing_at(revisions, 11)
    found, bench = all_changes(revisions, {A: rule})
    assert places(found[A], revisions) == [(10, 11)]
    assert bench.asked == search(revisions, {A: rule})[1].asked


def test_ends_that_are_alike_show_the_change_and_its_way_back_when_another_case_had_the_middle_tested() -> None:
    revisions = builds(30)
    other = cell("b")
    found, _ = all_changes(revisions, {A: changing_at(revisions, 10, 20), other: from_index(revisions, 15)})
    assert places(found[other], revisions) == [(14, 15)]
    both, own = found[A][:-1], found[A][-1].answer().conclusion
    assert own is not None and own.result is Result.SAME
    assert places(both, revisions) == [(9, 10), (19, 20)]


def test_ends_that_are_alike_show_it_when_a_bisect_log_says_that_the_middle_differs() -> None:
    revisions = builds(30)
    log: Given = ((revisions[15].id, Outcome.BAD),)
    found, _ = all_changes(revisions, {A: changing_at(revisions, 10, 20)}, log)
    assert places(found[A], revisions) == [(9, 10), (19, 20)]


def test_ends_that_are_alike_get_one_look_in_the_middle() -> None:
    revisions = builds(30)
    found, _ = all_changes(revisions, {A: changing_at(revisions, 10, 20)})
    assert places(found[A], revisions) == [(9, 10), (19, 20)]
    unseen, bench = all_changes(revisions, {A: changing_at(revisions, 20, 30)})
    assert places(unseen[A], revisions) == []
    assert [revisions.index(r) for r in revisions if r.id in {name for name, _ in bench.asked}] == [0, 16, 31]


def test_without_a_hint_nothing_is_looked_for() -> None:
    revisions = builds(30)
    rule = changing_at(revisions, 6, 13, 27)
    found, bench = all_changes(revisions, {A: rule})
    assert places(found[A], revisions) == [(26, 27)]
    assert bench.asked == search(revisions, {A: rule})[1].asked


def test_a_log_that_was_wrong_about_the_middle_makes_up_no_change() -> None:
    revisions = builds(30)
    log: Given = ((revisions[15].id, Outcome.BAD),)
    found, _ = all_changes(revisions, {A: lambda _: Outcome.GOOD}, log)
    assert len(found[A]) > 1, "the log hints at a change"
    assert places(found[A], revisions) == []
    results = [answer.result for each in found[A] if (answer := each.answer().conclusion) is not None]
    assert set(results) == {Result.SAME}


def test_another_failure_in_the_middle_is_no_change_of_this_one() -> None:
    revisions = builds(30)
    at = {r.id: i for i, r in enumerate(revisions)}

    def rule(revision: Revision) -> Verdict:
        place = at[revision.id]
        if place in (11, 12, 13, 14):
            return Verdict(Outcome.BAD, "", OTHER)
        return Verdict(Outcome.BAD, "", THIS) if place >= 27 or 6 <= place < 13 else Verdict(Outcome.GOOD, "")

    found, _ = all_changes(revisions, {A: rule}, ((revisions[9].id, Outcome.BAD), (revisions[20].id, Outcome.GOOD)))
    assert places(found[A], revisions) == [(5, 6), (10, 15), (26, 27)]
    first, middle, last = (each.answer().conclusion for each in found[A])
    assert first and middle and last
    assert [each.result for each in (first, middle, last)] == [Result.FOUND, Result.RANGE, Result.FOUND]


def test_changes_of_two_cases_share_their_tests() -> None:
    revisions = builds(60)
    rules = {A: changing_at(revisions, 12, 25, 50), cell("b"): changing_at(revisions, 12, 25, 51)}
    log = log_of(revisions, rules[A], 20, 40)
    found, bench = all_changes(revisions, rules, log)
    assert [places(each, revisions)[:2] for each in found.values()] == [[(11, 12), (24, 25)]] * 2
    alone = [len(all_changes(revisions, {key: rule}, log)[1].asked) for key, rule in rules.items()]
    assert len(bench.asked) < 0.7 * sum(alone)


def test_nothing_between_the_ends_is_called_an_end() -> None:
    revisions = builds(30)
    found, bench = all_changes(revisions, {A: changing_at(revisions, 10, 20)})
    assert len(places(found[A], revisions)) == 2
    assert {name for name, purpose in bench.asked if purpose == "end"} == {revisions[0].id, revisions[-1].id}


def test_what_is_not_searched_yet_is_known_all_the_same() -> None:
    revisions = builds(30)
    found = line(revisions, revisions[0], revisions[-1])
    rules = {A: changing_at(revisions, 6, 13, 27)}
    hunt = Hunt(A, UNIT, found.main, given=log_of(revisions, rules[A], 9, 20))
    run_hunts([hunt], found, Planted(rules), Silent())

    class Broke(Planted):
        def test(self, *_: object) -> tuple[()]:
            raise KeyboardInterrupt

    root = Further(hunt)
    with pytest.raises(KeyboardInterrupt):
        pursue([root], found, Broke(rules), Silent())
    assert len(root.inside) == len(changes_in(hunt)) == 2
    assert [each.answer().conclusion for each in root.inside] == [None, None]


@pytest.mark.parametrize("seed", range(6))
def test_a_case_that_fails_in_half_of_its_runs_gets_no_change_that_was_not_planted(seed: int) -> None:
    revisions = builds(30)
    dice, rule = random.Random(seed), changing_at(revisions, 6, 16, 26)

    def flaky(revision: Revision) -> Outcome:
        return Outcome.BAD if rule(revision) is Outcome.BAD and dice.random() < 0.5 else Outcome.GOOD

    found, _ = all_changes(revisions, {A: flaky})
    assert {new for _, new in places(found[A], revisions)} <= {6, 16, 26}


# --- among commits --------------------------------------------------------------------------------


def among_commits(rule: Behaviour, line_: Sequence[Revision], log: Given) -> list[Further]:
    """The changes among commits that each give another artifact but for the one after each third."""
    keys = [str(place - (place % 3 == 2)) for place in range(len(line_))]
    commits = tuple(Commit(each, (("js", key),)) for each, key in zip(line_, keys, strict=True))
    ground = Ground(commits, 0, len(commits) - 1, builds_wasm=True)
    nothing = cast(Yard, None)
    made = CommitBuilds(ground, nothing, lambda _: pytest.fail("nothing is lent"), lambda *_: b"")
    runs = ground.candidates()
    hunt = Hunt(A, UNIT, tuple(run.revision for run in runs), given=log)
    run_hunts([hunt], NOWHERE_LINE, Planted({A: rule}), Silent())
    root = Further(hunt, Sought(Asked(A, UNIT, new_is_bad=True), made, runs, cast(Bench, None), hunt))
    pursue([root], NOWHERE_LINE, Planted({A: rule}), Silent())
    return root.in_order()


def test_each_change_among_commits_names_its_commit_and_is_proved_in_a_range_without_the_others() -> None:
    line_ = tuple(Revision(f"c{n}", None, f"{n:040x}") for n in range(30))
    rule = changing_at(line_, 6, 13, 27)
    row = among_commits(rule, line_, log_of(line_, rule, 9, 21))
    named = [each.sought.culprit() for each in row if each.sought]
    assert named == [line_[6], line_[13], line_[27]]
    ranges = []
    for place in range(len(row)):
        ground = alone(row, place).builds.ground
        ranges.append((ground.begin, ground.end))
        inside = [at for at in (6, 13, 27) if ground.begin < at <= ground.end]
        assert inside == [(6, 13, 27)[place]]
    assert ranges == [(0, 12), (6, 25), (13, 29)], "as far as the next change on either side"


# --- what a report says of them -------------------------------------------------------------------

LINE = planted_revisions(30)
REQUEST = Request(LINE[0].id, LINE[-1].id, ("case",), backends=("wasm",), isolate=True, all_boundaries=True)
ON_WASM = Unit(NOWHERE, "wasm")


def reported(folder: Path, *changes: int, known: Sequence[int] = (), stop_at: int | None = None) -> Report:
    """The report of a search over builds that change at these places; those at `known` were tried before."""
    after = [place for place in range(len(LINE)) if sum(place >= change for change in changes) % 2]
    with Journal.open(folder / "journal.sqlite3") as journal:
        builds_ = plant(folder / "builds", LINE, lambda i: "times 2" if i in after else "times 1")
        bench = builds_.bench(journal, REQUEST)
        controls = Controls(bench, Surroundings(lambda same: same), budget=Budget())
        found = line(LINE, LINE[0], LINE[-1])
        hunt = Hunt(ON_WASM.cell(bench.cases[0]), ON_WASM, found.main, REQUEST.bad)
        hunt.trials += [trial for place in known for trial in controls.test(LINE[place], ON_WASM, "search")]
        run_hunts([hunt], found, controls, Silent())
        if stop_at is not None:
            controls.budget = Budget(probes=bench.tally["probes"] + stop_at)
        further = AllBoundaries(Supply(REQUEST, Workshop.__new__(Workshop), LINE))
        with contextlib.suppress(OutOfBudget):
            further.among_builds([hunt], found, bench, controls)
        report = make_report([hunt.answer()], bench, Circumstances(LINE, (NOWHERE,), (), 1.0))
        whole = with_others(report, further.of(bench.trials), LINE)
        journal.finish_session(bench.session, SessionState.FINISHED, whole)
        assert journal.report(bench.session) == whole, "the journal keeps all of it"
    return whole


BROKE, MENDED, BROKE_AGAIN = 6, 13, 27
TOLD = (
    f"broken between {LINE[5].id} and {LINE[6].id}, fixed between {LINE[12].id} and {LINE[13].id},"
    f" broken again between {LINE[26].id} and {LINE[27].id}"
)


@pytest.fixture(scope="module")
def thrice(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Broken, fixed and broken again."""
    return reported(tmp_path_factory.mktemp("thrice"), BROKE, MENDED, BROKE_AGAIN, known=(9, 20))


def test_a_report_tells_all_changes_in_the_order_of_history_in_every_form(thrice: Report) -> None:
    (answer,) = thrice.cells
    assert answer.boundary == Boundary(LINE[26], LINE[27])
    assert story(answer) == TOLD
    markdown, terminal = to_markdown(thrice), printed(thrice)
    assert f"{TOLD[:1].upper()}{TOLD[1:]}." in markdown.replace("\\", "")
    assert markdown.count("| retest: held |") == 3
    assert " ".join(TOLD.split()) in " ".join(terminal.split())
    assert "All changes that were found" in to_html(thrice) and "broken again" in to_html(thrice)
    for text in (markdown, terminal, to_html(thrice)):
        assert "changes more than once" not in text, "nothing is left that was not searched for"


def test_the_json_lists_the_further_changes_and_keeps_what_it_said_before(thrice: Report) -> None:
    value = to_json(thrice)
    # The planted builds have no real digests.
    jsonschema.validate(value | {"matrix": []}, SCHEMA)
    others = value["cases"][0]["other_changes"]
    assert [each["boundary"]["first_new"]["id"] for each in others] == [LINE[6].id, LINE[13].id]
    assert [each["direction"] for each in others] == ["regression", "fix"]
    assert value["boundary"]["first_new"]["id"] == LINE[27].id
    assert len(value["other_boundaries"]) == 2
    plain = to_json(replace(thrice, all_boundaries=False))
    assert "other_changes" not in plain["cases"][0]


def test_both_sides_of_every_change_are_marked_where_verdicts_are_listed(thrice: Report) -> None:
    marks = {row.revision.id: set(row.marks) for row in rows(thrice, thrice.cells[0].cell, thrice.cells[0])}
    assert [marks[LINE[place].id] for place in (5, 6, 12, 13)] == [
        {"last good"},
        {"first bad"},
        {"last bad"},
        {"first good"},
    ]


def test_the_bisect_log_is_of_the_change_nearest_to_the_new_end_and_says_so(thrice: Report) -> None:
    log = to_gitlog(thrice)
    assert f"# the verdict changes more than once: {TOLD}" in log
    assert "# this is the log of the last of them" in log


def test_of_ends_that_are_alike_the_report_names_the_change_and_its_way_back(tmp_path: Path) -> None:
    report = reported(tmp_path, 10, 20)
    assert report.result is Result.SAME
    assert f"{LINE[9].id} (good) to {LINE[10].id} (bad)" in headline(report)
    assert f"{LINE[19].id} (bad) to {LINE[20].id} (good)" in headline(report)
    there, back = report.cells[0].others
    assert (there.answer.direction, back.answer.direction) == (Direction.REGRESSION, Direction.FIX)
    assert there.answer.signature is not None, "it is told how the middle fails"


def test_where_nothing_more_showed_the_report_says_so_and_what_that_is_worth(tmp_path: Path) -> None:
    report = reported(tmp_path, 10)
    assert report.cells[0].others == ()
    assert "No further change showed" in to_markdown(report)
    assert "No further change showed" not in to_markdown(replace(report, all_boundaries=False))


def test_a_change_whose_search_was_stopped_is_told_as_one_that_is_not_found_yet(tmp_path: Path) -> None:
    report = reported(tmp_path, BROKE, MENDED, BROKE_AGAIN, known=(9, 20), stop_at=1)
    (answer,) = report.cells
    assert [change.answer.result for change in answer.others] == [Result.STOPPED] * 2
    assert story(answer) == ""
    assert "the verdict changes too: where was not found out" in to_markdown(report)


def test_changes_are_all_only_where_none_is_left_to_be_found(tmp_path: Path, thrice: Report) -> None:
    assert "all changes: broken" in printed(thrice)
    (answer,) = thrice.cells
    first, _ = answer.others
    unsought = replace(thrice, cells=(replace(answer, others=(first,)),))
    stopped = reported(tmp_path, BROKE, MENDED, BROKE_AGAIN, known=(9, 20), stop_at=7)
    assert [change.answer.result for change in stopped.cells[0].others] == [Result.FOUND, Result.STOPPED]
    for report in (unsought, stopped):
        text = printed(report)
        assert "changes found so far: broken" in text and "all changes" not in text
    assert "changes found so far: broken" in printed(replace(thrice, result=Result.STOPPED))


def printed(report: Report) -> str:
    """What a terminal shows."""
    console = Console(width=200, file=io.StringIO())
    console.print(summary(report), crop=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text
