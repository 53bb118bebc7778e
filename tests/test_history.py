"""Published builds in order: what a typed name means, which builds lie between two, what of them is on main."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bisect_bot.errors import ConfigError, UnknownRevision
from bisect_bot.history import is_older, line, load_ancestry, order_revisions, resolve
from bisect_bot.history.known import How, Known, dump, load, merge
from bisect_bot.history.published import named_commit

FULL = "d9ca84ef96bae72da9ebcac5c591faca8dd52e78"
VERSIONS = (
    "1.20.1",
    "1.21.0-dev.20241205-d27fecd3d3",
    "1.9.0",
    "1.21.0",
    "1.21.0-dev.20250203-75f394ca3e",
    "1.20.0-dev.20241016-2b8fc5529b",
    "1.21.0-dev.20241024-d9ca84ef96",
    "1.21.0-dev.20250206-d981b153d3",
    "1.20.0",
    "no version",
)
KNOWN = {
    k.version: k
    for k in (
        Known(version="1.20.1", how=How.SOURCES, commit="5c1b7ccbff", main_ancestor="8" * 40, on_main=False),
        Known(
            version="1.21.0-dev.20241024-d9ca84ef96",
            how=How.COMMIT,
            commit=FULL,
            date=dt.date(2024, 10, 24),
            title="Add DoEsrp Check",
            on_main=True,
            main_ancestor=FULL,
        ),
        Known(version="1.21.0-dev.20250203-75f394ca3e", how=How.SOURCES, commit="75f394ca3e", on_main=False),
        Known(version="1.20.0-dev.20241016-2b8fc5529b", how=How.COMMIT, commit="2b8fc5529b" + "0" * 30, on_main=True),
    )
}
BUILDS = order_revisions(VERSIONS, KNOWN)


def ids(builds: tuple[object, ...]) -> list[str]:
    return [b.id for b in builds]  # type: ignore[attr-defined]


def test_builds_are_in_the_order_of_their_versions() -> None:
    assert ids(BUILDS) == [
        "1.9.0",
        "1.20.0-dev.20241016-2b8fc5529b",
        "1.20.0",
        "1.20.1",
        "1.21.0-dev.20241024-d9ca84ef96",
        "1.21.0-dev.20241205-d27fecd3d3",
        "1.21.0-dev.20250203-75f394ca3e",
        "1.21.0-dev.20250206-d981b153d3",
        "1.21.0",
    ]
    assert is_older(BUILDS[0], BUILDS[1])
    assert not is_older(BUILDS[1], BUILDS[1])


def test_a_build_says_what_its_name_and_the_table_know() -> None:
    known = resolve("1.21.0-dev.20241024", BUILDS)
    assert (known.commit, known.title, known.on_main, known.main_ancestor) == (FULL, "Add DoEsrp Check", True, FULL)
    unknown = resolve("1.21.0-dev.20241205", BUILDS)
    assert (unknown.commit, unknown.date, unknown.on_main) == ("d27fecd3d3", dt.date(2024, 12, 5), None)
    assert resolve("1.20.1", BUILDS).main_ancestor == "8" * 40


def test_a_release_is_never_on_main() -> None:
    table = {"1.20.1": Known(version="1.20.1", how=How.COMMIT, commit="5c1b7ccbff", on_main=True)}
    assert [b.on_main for b in order_revisions(["1.20.1", "1.20.0"], table)] == [False, False]


def test_a_table_that_contradicts_a_builds_own_name_is_not_believed() -> None:
    version = "1.21.0-dev.20241205-d27fecd3d3"
    table = {version: Known(version=version, how=How.COMMIT, commit=FULL, title="another", on_main=False)}
    (build,) = order_revisions([version], table)
    assert (build.commit, build.title, build.on_main) == ("d27fecd3d3", None, None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.20.1", "1.20.1"),
        ("v1.20.1", "1.20.1"),
        (" 1.20.1 ", "1.20.1"),
        ("1.21.0", "1.21.0"),
        ("1.9", "1.9.0"),
        ("1.21.0-dev.20241205", "1.21.0-dev.20241205-d27fecd3d3"),
        ("d27fecd", "1.21.0-dev.20241205-d27fecd3d3"),
        ("D27FECD3D3", "1.21.0-dev.20241205-d27fecd3d3"),
        ("d27fecd3d3" + "0" * 30, "1.21.0-dev.20241205-d27fecd3d3"),
        (FULL, "1.21.0-dev.20241024-d9ca84ef96"),
        ("5c1b7cc", "1.20.1"),
        ("2024-10-24", "1.21.0-dev.20241024-d9ca84ef96"),
        ("2024-11-07", "1.21.0-dev.20241024-d9ca84ef96"),
        ("2025-02-04", "1.21.0-dev.20241205-d27fecd3d3"),
        ("2099-01-01", "1.21.0-dev.20250206-d981b153d3"),
    ],
)
def test_a_person_may_type_any_of_these(text: str, version: str) -> None:
    assert resolve(text, BUILDS).id == version


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1.21.1", "1.21.0"),
        ("1.20", "1.20.0, 1.20.1, 1.20.0-dev.20241016-2b8fc5529b"),
        ("2024-10-01", "The first is 1.20.0-dev.20241016-2b8fc5529b of 2024-10-16"),
        ("2024-13-01", "year-month-day"),
        ("d27fec", "bisect-bot versions"),
        ("0000000", "bisect-bot versions"),
        ("--good", "Give a version"),
        ("", "Give a version"),
        ("main", "is called 'latest'"),
        ("\x1b[31m", "bisect-bot versions"),
    ],
)
def test_anything_else_is_unknown_and_says_what_may_be_meant(text: str, hint: str) -> None:
    with pytest.raises(UnknownRevision) as caught:
        resolve(text, BUILDS)
    assert hint in caught.value.advice
    assert str(caught.value).isprintable()


@given(st.text(max_size=12))
def test_no_text_is_a_bug(text: str) -> None:
    try:
        found = resolve(text, BUILDS)
    except UnknownRevision:
        return
    assert found in BUILDS


def test_the_line_is_the_ends_and_main_between_them() -> None:
    between = line(BUILDS, resolve("1.20.0", BUILDS), resolve("1.21.0", BUILDS))
    assert ids(between.main) == [
        "1.20.0",
        "1.21.0-dev.20241024-d9ca84ef96",
        "1.21.0-dev.20241205-d27fecd3d3",
        "1.21.0-dev.20250206-d981b153d3",
        "1.21.0",
    ]
    assert ids(between.aside) == ["1.20.1", "1.21.0-dev.20250203-75f394ca3e"]
    assert ids(between.unknown) == ["1.21.0-dev.20241205-d27fecd3d3", "1.21.0-dev.20250206-d981b153d3"]
    assert ids(between.between(between.main[0], between.main[1])) == ["1.20.1"]


def test_neighbours_have_nothing_between_them() -> None:
    between = line(BUILDS, BUILDS[3], BUILDS[4])
    assert between.main == (BUILDS[3], BUILDS[4])
    assert between.aside == ()


@given(st.integers(0, len(BUILDS) - 1), st.integers(0, len(BUILDS) - 1))
def test_every_build_between_two_is_on_the_line_or_aside(one: int, two: int) -> None:
    first, last = sorted((one, two))
    found = line(BUILDS, BUILDS[first], BUILDS[last])
    if first < last:
        together = sorted({*found.main, *found.aside}, key=BUILDS.index)
        assert together == list(BUILDS[first : last + 1])
    assert [BUILDS.index(r) for r in found.main] == sorted(BUILDS.index(r) for r in found.main)


@pytest.mark.parametrize(
    ("version", "commit", "day"),
    [
        ("1.21.0-dev.20241024-d9ca84ef96", "d9ca84ef96", dt.date(2024, 10, 24)),
        ("1.31.0-dev.20260914-8d85527a0", "8d85527a0", dt.date(2026, 9, 14)),
        ("1.31.0-dev.20269914-8d85527a0", "8d85527a0", None),
        ("1.8.0-dev.20210708.0", None, None),
        ("1.20.1", None, None),
        ("1.21.0-dev.20241024-d9ca84", None, None),
    ],
)
def test_a_dev_builds_name_carries_commit_and_day(version: str, commit: str | None, day: dt.date | None) -> None:
    assert named_commit(version) == (commit, day)


titles = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@example('tab\t, "quotes", back\\slash, \x7f, \x1b[31m, \u2028', None, None)
@given(titles, st.booleans() | st.none(), st.dates() | st.none())
def test_what_is_saved_is_read_again_the_same(title: str, on_main: bool | None, day: dt.date | None) -> None:
    saved = Known(version="1.20.1", how=How.COMMIT, commit="5c1b7ccbff", title=title, on_main=on_main, date=day)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "published.toml"
        path.write_text(dump([saved]), encoding="utf-8", newline="")
        assert load(path) == {"1.20.1": saved}


def test_a_poorer_clone_does_not_make_the_table_poorer() -> None:
    good = Known(version="1.20.1", how=How.COMMIT, commit=FULL)
    newer = Known(version="1.20.1", how=How.COMMIT, commit="0" * 40)
    poor = Known(version="1.20.1", how=How.SOURCES, commit="5c1b7ccbff")
    nothing = Known(version="1.21.0", how=How.NONE)
    assert merge({"1.20.1": good}, [poor, nothing]) == {"1.20.1": good, "1.21.0": nothing}
    assert merge({"1.20.1": good}, [newer]) == {"1.20.1": newer}


def test_a_table_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    for text in ('[[build]]\nversion = "1.0.0"\n', "[[build]\n", '[[build]]\nversion = "1.0.0"\nhow = "guess"\n'):
        path = tmp_path / "published.toml"
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"published\.toml"):
            load(path)


def test_the_shipped_table_orders_main_by_day() -> None:
    known = load_ancestry()
    builds = [b for b in order_revisions(known, known) if b.on_main]
    assert len(builds) >= 30
    days = [b.date for b in builds if b.date]
    assert len(days) == len(builds)
    assert days == sorted(days)
    assert all(b.commit and len(b.commit) == 40 and b.title for b in builds)


def test_the_shipped_table_knows_which_dev_builds_are_beside_main() -> None:
    known = load_ancestry()
    beside = [b.id for b in order_revisions(known, known) if b.on_main is False and "-dev." in b.id]
    assert beside == [
        "1.19.0-dev.20240804-ee2fe87e2d",
        "1.20.0-dev.20241022-2d00351d7b",
        "1.21.0-dev.20250203-75f394ca3e",
    ]


def test_the_latest_is_the_newest_build_of_main() -> None:
    newest = [build for build in BUILDS if build.on_main is not False][-1]
    assert resolve("latest", BUILDS) == newest
