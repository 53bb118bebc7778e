"""The cache as its owner sees it: what lies there, whether it is whole, and what goes when room is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import filelock
import pytest
from jsonschema import validate

from bisect_bot.builds.housekeeping import Stock, take_stock
from bisect_bot.builds.housekeeping_check import check
from bisect_bot.builds.housekeeping_clear import Choice, Limits, choose, remove
from bisect_bot.builds.in_use import used_since, using
from bisect_bot.builds.store import Record, Store
from bisect_bot.cases import smoke
from bisect_bot.cases.pin import digest_of, load_pinned
from bisect_bot.cli.cache_output import Cleared, Listing, Verified, freed, size_of
from bisect_bot.errors import UsageError
from bisect_bot.model import Artifact, Request
from bisect_bot.scratch import scratch
from bisect_bot.session.journal import FILE_NAME, Journal, SessionState
from tests.command import Shell

DAY = 86400.0
KIB = 1024


def add(cache: Path, key: str, size: int = 40 * KIB, share: Path | None = None) -> Artifact:
    """A build of `size` bytes, in which `share` is linked."""
    store = Store(cache)
    folder = store.tmp / f"made-for-{key}"
    folder.mkdir(parents=True)
    (folder / "a.js").write_bytes(key.encode().ljust(size, b"."))
    if share is not None:
        os.link(share, folder / "shared.wasm")
    return store.add(Record(key=key, revision=f"revision {key}"), folder)


def entry_of(build: Artifact) -> Path:
    return build.directory.parent


def age(path: Path, days: float) -> None:
    """Makes the entry at `path` one that was made and used so long ago."""
    then = time.time() - days * DAY
    for each in (path, *path.rglob("*")):
        os.utime(each, (then, then))


def chosen(cache: Path, limits: Limits, kept: frozenset[Path] = frozenset()) -> Choice:
    return choose(take_stock(cache), limits, now=time.time(), since=used_since(cache), kept=kept)


def gone(choice: Choice) -> list[str]:
    return [each.entry.what for each in choice.doomed]


def clear(cache: Path, limits: Limits) -> list[str]:
    return [each.entry.what for each in remove(cache, chosen(cache, limits).doomed)]


def on_disk(cache: Path) -> int:
    done = subprocess.run(["du", "-s", "--block-size=1", str(cache)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of three builds that were last used 3, 2 and 1 days ago, a case, a journal and a stranger's file."""
    root = tmp_path / "root"
    for days, key in ((3, "old"), (2, "middle"), (1, "new")):
        age(entry_of(add(root, key)), days)
    age(smoke(root).model.parent, 30)
    with Journal.open(root / FILE_NAME):
        pass
    (root / "notes.txt").write_text("a stranger's")
    return root


# --- what is there ------------------------------------------------------------------------------


def test_everything_is_listed_with_its_size_on_disk(cache: Path) -> None:
    stock = take_stock(cache)
    kinds = sorted(entry.kind.name for entry in stock.entries)
    assert kinds == ["builds", "builds", "builds", "cases", "journal", "other", "records"]
    builds = {entry.what: round((time.time() - entry.used) / DAY) for entry in stock.entries if entry.what}
    assert builds == {"revision old": 3, "revision middle": 2, "revision new": 1}
    # All but the folders that hold the kinds.
    assert 0.8 * on_disk(cache) < stock.total <= on_disk(cache)


def test_a_file_that_several_builds_share_counts_once_and_for_the_oldest(cache: Path) -> None:
    part = add(cache, "part", 400 * KIB)
    age(entry_of(part), 9)
    alone = take_stock(cache).total
    whole = add(cache, "whole", share=part.directory / "a.js")
    stock = take_stock(cache)
    assert stock.total - alone < 100 * KIB
    sizes = stock.listed()
    assert sizes[entry_of(part)] > 400 * KIB > sizes[entry_of(whole)]
    assert sum(sizes.values()) == stock.total


def test_a_build_counts_as_used_when_it_is_found_or_made_again(cache: Path) -> None:
    def used() -> dict[str, bool]:
        return {e.what: time.time() - e.used < DAY / 2 for e in take_stock(cache).entries if e.what}

    assert not any(used().values())
    assert Store(cache).find("old") is not None
    add(cache, "middle")
    assert used() == {"revision old": True, "revision middle": True, "revision new": False}


def test_a_cache_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert take_stock(tmp_path / "none") == Stock(tmp_path / "none", ())


# --- what goes ----------------------------------------------------------------------------------


def test_what_was_not_used_within_the_days_goes(cache: Path) -> None:
    assert gone(chosen(cache, Limits(keep_s=1.5 * DAY))) == ["", "revision old", "revision middle"]
    assert clear(cache, Limits(keep_s=1.5 * DAY)) == ["", "revision old", "revision middle"]
    assert Store(cache).find("old") is None
    assert Store(cache).find("new") is not None
    assert Store(cache).record("old") is not None, "what is known of a build stays"
    assert (cache / FILE_NAME).is_file() and (cache / "notes.txt").is_file()
    assert list((cache / "tmp").iterdir()) == []


def test_what_was_not_used_longest_goes_until_the_rest_is_small_enough(cache: Path) -> None:
    before = take_stock(cache).total
    choice = chosen(cache, Limits(max_bytes=before - 50 * KIB))
    assert gone(choice) == ["", "revision old"]
    assert choice.left == before - choice.frees <= before - 50 * KIB
    disk = on_disk(cache)
    assert len(list(remove(cache, choice.doomed))) == 2
    assert take_stock(cache).total == choice.left
    assert abs((disk - on_disk(cache)) - choice.frees) <= 16 * KIB, "folders aside"
    assert gone(chosen(cache, Limits(max_bytes=before))) == []


def test_shared_files_are_freed_with_the_last_build_that_has_them(cache: Path) -> None:
    part = add(cache, "part", 400 * KIB)
    whole = add(cache, "whole", share=part.directory / "a.js")
    age(entry_of(part), 9)
    age(entry_of(whole), 8)
    first, second = (d for d in chosen(cache, Limits(keep_s=5 * DAY)).doomed if d.entry.what)
    assert (first.entry.what, second.entry.what) == ("revision part", "revision whole")
    assert first.frees < 100 * KIB < 400 * KIB < second.frees
    os.link(part.directory / "a.js", cache.parent / "kept elsewhere")
    assert chosen(cache, Limits(keep_s=5 * DAY)).frees < 200 * KIB


def test_without_a_limit_only_what_nobody_can_find_goes(cache: Path) -> None:
    lost = add(cache, "lost")
    for record in (cache / "keys").iterdir():
        if '"lost"' in record.read_text():
            record.unlink()
    assert chosen(cache, Limits()).doomed == (), "its record may just be on its way"
    age(entry_of(lost), 1)
    assert [d.entry.path for d in chosen(cache, Limits()).doomed] == [entry_of(lost)]


@pytest.mark.parametrize(
    ("spared", "told"), [(1, "1 entry stays because a running process or an unfinished session needs it"),
                         (2, "2 entries stay because a running process or an unfinished session needs them")]
)  # fmt: skip
def test_what_stays_is_counted_in_a_sentence(spared: int, told: str) -> None:
    assert told in freed(
        Cleared(root="x", dry_run=False, freed_bytes=0, left_bytes=1, removed=(), spared=spared, swept=0)
    )


def test_what_a_running_process_used_since_it_began_stays(cache: Path) -> None:
    everything = Limits(max_bytes=0)
    with using(cache):
        assert Store(cache).find("old") is not None
        choice = chosen(cache, everything)
        assert "revision old" not in gone(choice)
        assert [entry.what for entry in choice.spared] == ["revision old"]
        assert "revision new" in gone(choice), "it was not used by anybody who runs"
    assert "revision old" in gone(chosen(cache, everything))


USER = """
import sys, time
from pathlib import Path
from bisect_bot.builds.in_use import using
from bisect_bot.builds.store import Store
cache = Path(sys.argv[1])
with using(cache):
    assert Store(cache).find("old")
    print("using", flush=True)
    time.sleep(600)
"""


@contextmanager
def user(cache: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the build `old`."""
    process = subprocess.Popen([sys.executable, "-c", USER, str(cache)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "using\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_another_process_keeps_what_it_uses_until_it_ends_however_it_ends(cache: Path) -> None:
    with user(cache) as process:
        assert clear(cache, Limits(max_bytes=0)) == ["", "revision middle", "revision new"]
        assert Store(cache).find("old") is not None
        age(entry_of(add(cache, "middle")), 0)
        process.kill()
        process.wait()
        assert "revision old" in clear(cache, Limits(max_bytes=0))


def test_what_is_used_between_the_look_and_the_removal_stays(cache: Path) -> None:
    choice = chosen(cache, Limits(keep_s=1.5 * DAY))
    assert Store(cache).find("old") is not None
    assert [each.entry.what for each in remove(cache, choice.doomed)] == ["", "revision middle"]
    assert Store(cache).find("old") is not None


class Racing(type(Path())):  # type: ignore[misc]
    """The path of the build `old` that somebody finds in the instant before it is moved away."""

    def rename(self, target: Path) -> Path:
        assert Store(self.parents[2]).find("old") is not None
        return Path(super().rename(target))


def test_what_is_found_in_the_instant_of_its_removal_comes_back(cache: Path) -> None:
    (each,) = (d for d in chosen(cache, Limits(keep_s=1.5 * DAY)).doomed if d.entry.what == "revision old")
    racing = replace(each, entry=replace(each.entry, path=Racing(each.entry.path)))
    assert list(remove(cache, [racing])) == []
    assert Store(cache).find("old") is not None
    assert [one.problem for one in check(take_stock(cache), digest_of) if one.problem] == []


def test_what_another_process_works_in_stays_until_its_lock_is_free(cache: Path) -> None:
    for name in ("trees/0", "trees/1"):
        (cache / name / "src").mkdir(parents=True)
        age(cache / name, 5)
    choice = chosen(cache, Limits(keep_s=4 * DAY))
    with filelock.FileLock(cache / "trees" / "0.lock"):
        assert {d.entry.name for d in remove(cache, choice.doomed)} >= {"1"}
        assert (cache / "trees" / "0").is_dir()
    assert [d.entry.name for d in remove(cache, choice.doomed)] == ["0"]
    assert take_stock(cache).entries and not any(e.kind.name == "trees" for e in take_stock(cache).entries)


def test_a_clone_in_the_making_is_no_clone_to_be_removed(cache: Path) -> None:
    with scratch(cache / "clones") as place:
        age(place.path, 5)
        assert place.path not in [d.entry.path for d in chosen(cache, Limits(max_bytes=0)).doomed]


def test_a_case_counts_as_used_when_it_is_pinned_or_loaded(cache: Path) -> None:
    def idle() -> float:
        (entry,) = (e for e in take_stock(cache).entries if e.kind.name == "cases")
        return time.time() - entry.used

    assert idle() > 29 * DAY
    case = smoke(cache)
    assert idle() < DAY
    age(case.model.parent, 30)
    load_pinned(case.digest, case.name, cache)
    assert idle() < DAY


def test_cases_that_are_to_be_kept_stay(cache: Path) -> None:
    case = smoke(cache).model.parent
    choice = chosen(cache, Limits(max_bytes=0), frozenset({case}))
    assert case not in [d.entry.path for d in choice.doomed]
    assert case in [entry.path for entry in choice.spared]


def test_several_that_clear_at_once_remove_each_entry_once(cache: Path) -> None:
    for number in range(12):
        age(entry_of(add(cache, f"more {number}")), 5)
    choice = chosen(cache, Limits(keep_s=DAY / 2))
    removed: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        removed.extend(each.entry.what for each in remove(cache, choice.doomed))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(removed) == sorted(each.entry.what for each in choice.doomed)
    assert list((cache / "tmp").iterdir()) == []


MAKING = """
import sys
from pathlib import Path
from tests.test_cache import add
for _ in range(60):
    build = add(Path(sys.argv[1]), "contested", 4096)
    assert build.digest
    from bisect_bot.builds.store import Store
    found = Store(Path(sys.argv[1])).find("contested")
    assert found is None or found == build
"""


def test_making_and_clearing_at_once_leaves_whole_entries_or_none(cache: Path) -> None:
    maker = subprocess.Popen([sys.executable, "-c", MAKING, str(cache)], stderr=subprocess.PIPE, text=True)
    while maker.poll() is None:
        clear(cache, Limits(max_bytes=0))
    assert maker.stderr is not None
    assert maker.wait() == 0, maker.stderr.read()
    assert [one.problem for one in check(take_stock(cache), digest_of) if one.problem] == []


# --- whether it is whole ------------------------------------------------------------------------


def problems(cache: Path) -> dict[str, str]:
    return {f"{one.kind}: {one.what}": one.problem for one in check(take_stock(cache), digest_of) if one.problem}


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def test_a_sound_cache_is_read_whole_and_stays_as_it_is(cache: Path) -> None:
    seen = list(check(take_stock(cache), digest_of))
    assert [one.problem for one in seen] == [""] * 7, "three builds, a case, three records"
    assert {one.kind for one in seen} == {"builds", "cases", "records"}
    assert Store(cache).find("old") is not None


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "one bit": (lambda entry: flip(entry / "files" / "a.js"), "a.js was changed"),
    "lost": (lambda entry: (entry / "files" / "a.js").unlink(), "a.js is missing"),
    "stray": (lambda entry: (entry / "files" / "b.js").write_text("b"), "b.js was added"),
    "stamp": (lambda entry: (entry / "stamp.json").write_text("{"), "stamp.json cannot be read"),
    "no stamp": (lambda entry: (entry / "stamp.json").unlink(), "it was never completed"),
    "no files": (lambda entry: (entry / "files").rename(entry / "f"), "a.js is missing"),
}


@pytest.mark.parametrize(("damage", "problem"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_build_is_named_and_removed(cache: Path, damage: Callable[[Path], object], problem: str) -> None:
    build = Store(cache).find("old")
    assert build is not None
    damage(entry_of(build))
    assert problems(cache) == {"builds: revision old": problem}
    assert not entry_of(build).exists()
    assert problems(cache) == {}
    assert list((cache / "tmp").iterdir()) == []


def test_a_build_under_another_name_a_changed_case_and_a_broken_record_are_found(cache: Path) -> None:
    build, case = Store(cache).find("old"), smoke(cache)
    assert build is not None
    entry_of(build).rename(entry_of(build).with_name("0" * 64))
    flip(next(case.model.parent.rglob("*.pb")))
    next((cache / "keys").glob("*.json")).write_text('{"key": "k"}')
    assert problems(cache) == {
        "builds: ": "it lies under another digest than its own",
        "cases: ": "it was changed",
        "records: ": "it cannot be read",
    }
    assert not case.model.parent.exists()
    assert problems(cache) == {}


def test_what_is_removed_while_it_is_read_is_not_called_damaged(cache: Path) -> None:
    stock = take_stock(cache)
    clear(cache, Limits(max_bytes=0))
    assert [one for one in check(stock, digest_of) if one.kind != "records"] == []


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def owner(tmp_path: Path, cache: Path) -> Shell:
    """A shell whose cache is that of these tests."""
    return Shell(tmp_path, cache)


def test_ls_tells_the_same_to_people_and_to_programs(owner: Shell) -> None:
    done = owner.run("cache", "ls", "--json")
    told = json.loads(done.out)
    assert done.status == 0, done.err
    validate(told, Listing.model_json_schema(mode="serialization", by_alias=True))
    assert told["schema"] == 1
    assert told["bytes"] == sum(row["bytes"] for row in told["entries"]) == sum(row["bytes"] for row in told["kinds"])
    sizes = [row["bytes"] for row in told["entries"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {row["kind"] for row in told["kinds"] if row["clearable"]} == {"builds", "cases"}
    shown = owner.run("cache", "ls").out
    for words in ("revision old", "3 d", "pinned cases", "free on its disk"):
        assert words in shown


def test_gc_says_what_it_would_free_and_then_frees_it(owner: Shell) -> None:
    before = take_stock(owner.cache).total
    tried = owner.run("cache", "gc", "--keep-days", "1.5", "--dry-run")
    assert tried.status == 0 and "would free" in tried.err and "revision old" in tried.out
    assert take_stock(owner.cache).total == before
    done = owner.run("cache", "gc", "--keep-days", "1.5", "--json")
    told = json.loads(done.out)
    validate(told, Cleared.model_json_schema(mode="serialization", by_alias=True))
    assert (done.status, len(told["removed"]), told["dry_run"]) == (0, 3, False)
    assert before - told["freed_bytes"] == told["left_bytes"] == take_stock(owner.cache).total
    assert "freed" in done.err


def test_gc_keeps_the_cases_of_unfinished_sessions(owner: Shell) -> None:
    case = smoke(owner.cache)
    age(case.model.parent, 30)
    request = Request("1.20.1", "1.21.0", ("a",), pinned=((case.name, case.digest),))
    with Journal.open(owner.cache / FILE_NAME) as journal:
        session = journal.start_session(request)
        assert "unfinished session" in owner.run("cache", "gc", "--keep-days", "10").err
        assert case.model.is_file()
        journal.finish_session(session, SessionState.FINISHED)
    assert owner.run("cache", "gc", "--keep-days", "10").status == 0
    assert not case.model.exists()


def test_verify_ends_with_14_after_damage_and_sweeps_what_the_dead_left(owner: Shell) -> None:
    with user(owner.cache):
        pass
    with scratch(owner.cache / "tmp") as mine:
        flip(next((owner.cache / "artifacts").rglob("a.js")))
        done = owner.run("cache", "verify", "--json")
        told = json.loads(done.out)
        validate(told, Verified.model_json_schema(mode="serialization", by_alias=True))
        assert (done.status, told["checked"], told["swept"]) == (14, 7, 1)
        assert [row["problem"] for row in told["damaged"]] == ["a.js was changed"]
        assert mine.path.is_dir(), "its maker lives"
    again = owner.run("cache", "verify")
    assert (again.status, again.out) == (0, "")
    assert "6 entries read, 0 damaged" in again.err


def test_ctrl_c_in_the_middle_leaves_whole_entries_and_tells_what_is_gone(owner: Shell) -> None:
    for number in range(400):
        age(entry_of(add(owner.cache, f"more {number}", 100)), 5)
    process = owner.start("cache", "gc", "--max-size", "0")
    deadline = time.monotonic() + 30
    while len(list((owner.cache / "artifacts").glob("*/*"))) > 390 and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 13, err
    assert "freed" in err and "interrupted" in err
    left = take_stock(owner.cache)
    assert any(entry.kind.name == "builds" for entry in left.entries)
    assert [one.problem for one in check(left, digest_of) if one.problem] == []
    assert list((owner.cache / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20 * 10**9), ("1.5 GiB", 3 * 2**29), ("500m", 5 * 10**8), ("0", 0), ("12B", 12), ("2KiB", 2048)],
)
def test_sizes_are_read_as_people_type_them(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "1XB", "1e9", "GB", "٣GB", "9" * 40])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        size_of(text)
