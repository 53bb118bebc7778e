"""Clones to search in: the user's own is only read, a private one gets what it lacks. All of it is real."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bisect_bot.errors import BuildUnusable, MachineError, UnknownRevision, UsageError
from bisect_bot.history.clone import Clone, is_url, open_clone
from bisect_bot.history.commits import Inputs, plan
from bisect_bot.history.private_clone import private_clone
from bisect_bot.model import Revision
from tests.repos import Repo, day, make_repo

INPUTS = Inputs((("js", ("js/web/lib",)),))
LIB = "js/web/lib/a.ts"


@dataclass
class Ears:
    """Hears what is said and done."""

    said: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Upstream:
    """Five days of main, and a branch for a release that left it on day 3 (tag v1.2.0, day 6)."""

    repo: Repo
    main: tuple[str, ...]
    released: str

    @property
    def url(self) -> str:
        return f"file://{self.repo.path}"

    @property
    def builds(self) -> tuple[Revision, ...]:
        """As published: 1.2.0 from the branch, then a dev build of day 2 and one of day 4, both on main."""
        return (
            Revision("1.2.0", "1.2.0", self.released, on_main=False, main_ancestor=self.main[2]),
            self._dev("1.3.0-dev.20231117", 1),
            self._dev("1.3.0-dev.20231119", 3),
        )

    def _dev(self, name: str, index: int) -> Revision:
        version = f"{name}-{self.main[index][:9]}"
        return Revision(version, version, self.main[index][:9], on_main=None)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    repo = make_repo(tmp_path_factory.mktemp("original") / "upstream")
    main = [repo.commit(f"commit {n}", {LIB: f"{n}", "core.cc": f"{n // 3}"}) for n in range(3)]
    repo.git("branch", "rel-1.2.0")
    main += [repo.commit(f"commit {n}", {LIB: f"{n}"}) for n in range(3, 5)]
    repo.git("checkout", "-q", "rel-1.2.0")
    released = repo.commit("picked", {"VERSION_NUMBER": "1.2.0"})
    repo.git("tag", "v1.2.0")
    repo.git("checkout", "-q", "main")
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return Upstream(repo, tuple(main), released)


@pytest.fixture
def upstream(original: Upstream, tmp_path: Path) -> Upstream:
    """A copy that a test may change."""
    path = tmp_path / "upstream"
    shutil.copytree(original.repo.path, path, symlinks=True)
    return replace(original, repo=Repo(path, original.repo.days))


@pytest.fixture
def ears() -> Ears:
    return Ears()


def opened(repo: str | Path | None, tmp_path: Path, ears: Ears) -> Clone:
    name = repo if repo is None else str(repo)
    return open_clone(name, tmp_path / "cache", say=ears.said.append, doing=ears.done.append)


def cloned(upstream: Upstream, path: Path, *options: str) -> Path:
    subprocess.run(["git", "clone", "-q", *options, upstream.url, str(path)], check=True)
    return path


def state(folder: Path) -> dict[str, str]:
    """Every file below `folder` with the hash of its content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def blobs(clone: Clone, commit: str) -> dict[str, bytes]:
    files = clone.tree(commit, ["js", "core.cc"])
    return dict(zip(files, (data for _, data in clone.objects([oid for _, oid in files.values()])), strict=True))


# --- the user's own clone -----------------------------------------------------------------------


def test_files_and_contents_of_a_commit_are_read(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    oid = upstream.repo.git("rev-parse", f"{upstream.main[3]}:{LIB}")
    assert clone.tree(upstream.main[3], ["js", "none"]) == {LIB: ("100644", oid)}
    assert list(clone.objects([oid, oid])) == [(oid, b"3"), (oid, b"3")]
    assert list(clone.objects([])) == []


def test_contents_of_any_size_and_kind_come_whole_and_in_order(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    data = [b"", b"\n", b"\0\xff" * 700_000, b"no newline", b"blob missing\n"]
    for number, content in enumerate(data):
        (upstream.repo.path / f"file{number}").write_bytes(content)
    oids = [upstream.repo.git("hash-object", "-w", f"file{number}") for number in range(len(data))]
    clone = opened(upstream.repo.path, tmp_path, ears)
    assert [content for _, content in clone.objects(oids)] == data
    many = oids * 1000
    assert sum(1 for _ in clone.objects([oid for oid in many if oid != oids[2]])) == 4000


def test_a_reader_may_stop_early(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    oid = upstream.repo.git("rev-parse", f"main:{LIB}")
    stream = opened(upstream.repo.path, tmp_path, ears).objects([oid] * 50_000)
    assert next(iter(stream)) == (oid, b"4")
    del stream


@pytest.mark.parametrize("kind", ["checkout", "bare", "partial", "borrowing", "worktree"])
def test_the_users_clone_stays_as_it_is_whatever_is_done(
    upstream: Upstream, tmp_path: Path, ears: Ears, kind: str
) -> None:
    path = tmp_path / "mine"
    options = {"bare": ["--bare"], "partial": ["--bare", "--filter=blob:none"], "borrowing": ["--shared"]}.get(kind, [])
    kept = cloned(upstream, path, *options)
    if kind == "worktree":
        path = tmp_path / "linked"
        subprocess.run(["git", "-C", str(kept), "worktree", "add", "-q", "--detach", str(path)], check=True)
    hook = next(kept.glob("**/hooks")) if list(kept.glob("**/hooks")) else None
    if hook:
        (hook / "post-checkout").write_text("#!/bin/sh\ntouch was-run\n")
        (hook / "post-checkout").chmod(0o755)
    before = state(kept)
    clone = opened(path, tmp_path, ears)
    for text in ("latest", "1.2.0", "2023-11-17", upstream.main[1][:8], "v1.2.0~1", "HEAD"):
        assert clone.resolve(text, upstream.builds).version is None
    for text in ("unknown", "f" * 40, "-x", ""):
        with pytest.raises(UnknownRevision):
            clone.resolve(text, upstream.builds)
    assert len(plan(clone.git, upstream.main[0], upstream.main[4], INPUTS)) == 5
    if kind == "partial":
        with pytest.raises(BuildUnusable):
            blobs(clone, upstream.main[2])
    else:
        assert blobs(clone, upstream.main[2]) == {LIB: b"2", "core.cc": b"0"}
    assert state(kept) == before
    assert not (tmp_path / "cache").exists()


def test_what_a_partial_clone_of_the_user_lacks_is_named_with_what_to_do(
    upstream: Upstream, tmp_path: Path, ears: Ears
) -> None:
    clone = opened(cloned(upstream, tmp_path / "mine", "--bare", "--filter=blob:none"), tmp_path, ears)
    oid = clone.tree("main", [LIB])[LIB][1]
    with pytest.raises(BuildUnusable, match=oid) as told:
        list(clone.objects([oid]))
    assert "complete clone" in told.value.advice


def test_an_object_that_is_nowhere_is_named(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    there = clone.tree("main", [LIB])[LIB][1]
    stream = clone.objects([there, "1" * 40])
    assert next(stream) == (there, b"4")
    with pytest.raises(BuildUnusable, match="1" * 40):
        next(stream)


@pytest.mark.parametrize(
    "kind", ["missing", "file", "plain folder", "another project", "empty repository", "dash", "blank"]
)
def test_what_is_no_clone_of_onnxruntime_is_said_to_be_none(tmp_path: Path, ears: Ears, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "file":
        path.write_text("x")
    elif kind == "plain folder":
        # Not even where a repository lies further up.
        make_repo(tmp_path / "outer").commit("one", {LIB: "1"})
        path = tmp_path / "outer" / "inner"
        path.mkdir()
    elif kind in ("another project", "empty repository"):
        other = make_repo(path)
        if kind == "another project":
            other.commit("one", {"README": "1"})
    with pytest.raises(UsageError) as told:
        opened({"dash": "--upload-pack=touch x", "blank": " "}.get(kind, str(path)), tmp_path, ears)
    assert told.value.advice


def test_a_treeless_clone_is_said_to_be_one(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    path = cloned(upstream, tmp_path / "mine", "--bare", "--filter=tree:0")
    with pytest.raises(UsageError, match="treeless"):
        opened(path, tmp_path, ears)


# --- what a typed revision means ----------------------------------------------------------------


def test_every_way_to_name_a_commit_gives_it(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    upstream.repo.git("tag", "-a", "annotated", "-m", "x", upstream.main[1])
    upstream.repo.git("branch", "abcdef", upstream.main[1])
    second = upstream.main[1]
    dev = upstream.builds[1].version or ""
    unlisted = f"1.3.0-dev.20991231-{second[:10]}"
    names = [
        second,
        second[:7],
        second[:12].upper(),
        f"{upstream.main[2]}~1",
        "main~3",
        "annotated",
        "abcdef",
        "heads/abcdef",
    ]
    names += ["2023-11-17", dev, f" {dev} ", dev[:18], unlisted]
    expected = Revision(second[:10], None, second, day(2), "commit 1", on_main=True)
    assert {name: clone.resolve(name, upstream.builds) for name in names} == dict.fromkeys(names, expected)
    assert ears.said == []


def test_latest_is_the_commit_of_the_newest_build(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    assert opened(upstream.repo.path, tmp_path, ears).resolve("latest", upstream.builds).commit == upstream.main[3]


def test_a_day_is_the_last_commit_of_main_until_then(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    upstream.repo.commit("a week later", {LIB: "9"})
    clone = opened(upstream.repo.path, tmp_path, ears)
    # Day 6 has a commit, but not on main.
    assert [clone.resolve(str(day(n)), ()).title for n in (1, 5, 6, 7, 99)] == [
        "commit 0", "commit 4", "commit 4", "a week later", "a week later",
    ]  # fmt: skip
    with pytest.raises(UnknownRevision, match="as old as") as told:
        clone.resolve(str(day(0)), ())
    assert str(day(1)) in told.value.advice


def test_a_build_beside_main_is_stood_for_by_the_commit_of_main_below_it(
    upstream: Upstream, tmp_path: Path, ears: Ears
) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    assert clone.resolve("1.2.0", upstream.builds).commit == upstream.main[2]
    assert clone.resolve("v1.2.0", upstream.builds).commit == upstream.main[2]
    # A build that no table knows: the clone tells.
    unknown = Revision("1.2.1", "1.2.1", upstream.released[:9], on_main=None)
    assert clone.resolve("1.2.1", [unknown]).commit == upstream.main[2]
    assert len(ears.said) == 3
    assert all(upstream.main[2][:10] in said and upstream.released[:9] in said for said in ears.said)
    # The tag itself is still there for whoever wants that.
    tagged = clone.resolve("refs/tags/v1.2.0", upstream.builds)
    assert (tagged.commit, tagged.on_main) == (upstream.released, False)


def test_a_build_whose_commit_is_not_there_is_unknown(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    newer = Revision("1.4.0-dev.1", "1.4.0-dev.1", "f" * 40, on_main=True, main_ancestor="f" * 40)
    nothing = Revision("1.5.0", "1.5.0", None, on_main=False)
    for build in (newer, nothing):
        with pytest.raises(UnknownRevision) as told:
            clone.resolve(build.version or "", [build])
        assert told.value.advice


def test_for_a_build_without_a_commit_the_newest_one_before_it_that_has_one_is_named(
    upstream: Upstream, tmp_path: Path, ears: Ears
) -> None:
    lost, nothing = Revision("1.4.0", "1.4.0", "f" * 40, on_main=False), Revision("1.5.0", "1.5.0", None, on_main=False)
    with pytest.raises(UnknownRevision) as told:
        opened(upstream.repo.path, tmp_path, ears).resolve("1.5.0", [*upstream.builds, lost, nothing])
    assert f"{upstream.builds[2].version} ({upstream.main[3][:10]})" in told.value.advice


@pytest.mark.parametrize(
    "text",
    ["", " ", "-x", "--all", "main..v1.2.0", "main:js", "^main", "2023-13-40", "nonsense", "a\nb", "main\x1b[31m"],
)
def test_what_names_no_commit_is_refused_with_advice(upstream: Upstream, tmp_path: Path, ears: Ears, text: str) -> None:
    with pytest.raises(UnknownRevision) as told:
        opened(upstream.repo.path, tmp_path, ears).resolve(text, upstream.builds)
    assert told.value.advice
    assert str(told.value).isprintable()


def test_what_was_nearly_right_is_suggested(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.repo.path, tmp_path, ears)
    for typed, meant in (("mian", "main"), ("rel-1.2", "rel-1.2.0"), ("v1.2.9", "v1.2.0")):
        with pytest.raises(UnknownRevision) as told:
            clone.resolve(typed, upstream.builds)
        assert meant in told.value.advice


def test_too_few_digits_are_refused_with_the_commit_that_may_be_meant(
    upstream: Upstream, tmp_path: Path, ears: Ears
) -> None:
    with pytest.raises(UnknownRevision, match="too short") as told:
        opened(upstream.repo.path, tmp_path, ears).resolve(upstream.main[1][:6], ())
    assert upstream.main[1][:10] in told.value.advice


def test_the_commits_that_an_ambiguous_id_fits_are_listed(tmp_path: Path, ears: Ears) -> None:
    repo = make_repo(tmp_path / "many")
    repo.commit("first", {LIB: "1"})
    # Commits until two begin with the same four digits: a few hundred.
    rows = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {1_700_000_000 + n} +0000\ndata 2\n{n % 90 + 10}\n"
        for n in range(1500)
    )
    command = ["git", "-C", str(repo.path), "fast-import", "--quiet", "--force"]
    first = "from refs/heads/main^0\n"
    rows = rows.replace("data 2\n10\n", "data 2\n10\n" + first, 1)
    subprocess.run(command, input=rows, text=True, check=True)
    ids = repo.git("rev-list", "main").split()
    shared = next(sha[:4] for sha in ids if sum(other.startswith(sha[:4]) for other in ids) > 1)
    expected = [sha[:10] for sha in ids if sha.startswith(shared)]
    with pytest.raises(UnknownRevision, match=f"fits {len(expected)} commits") as told:
        opened(repo.path, tmp_path, ears).resolve(shared, ())
    assert all(sha in told.value.advice for sha in expected)


def test_a_day_before_a_shallow_clone_begins_says_to_deepen(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(cloned(upstream, tmp_path / "mine", "--depth", "2"), tmp_path, ears)
    for text in (str(day(2)), upstream.main[0]):
        with pytest.raises(UnknownRevision) as told:
            clone.resolve(text, ())
        assert "--unshallow" in told.value.advice


# --- private clones of a URL --------------------------------------------------------------------


def test_a_url_is_cloned_once_without_contents_which_come_when_they_are_read(
    upstream: Upstream, tmp_path: Path, ears: Ears
) -> None:
    before = state(upstream.repo.path)
    clone = opened(upstream.url, tmp_path, ears)
    assert clone.path.parent == tmp_path / "cache" / "clones"
    assert [path.name for path in clone.path.parent.iterdir()] == [clone.path.name]
    assert "once" in ears.said[0]
    assert upstream.url in ears.said[0]
    assert any(upstream.url in done for done in ears.done)
    assert clone.resolve("2023-11-17", ()).commit == upstream.main[1]
    assert clone.resolve("v1.2.0", ()).commit == upstream.released
    assert not clone.git.read("cat-file", "-e", f"main:{LIB}", may_fail=True)
    assert missing(clone) == 6
    assert blobs(clone, upstream.main[2]) == {LIB: b"2", "core.cc": b"0"}
    # What was asked for is there now, and no more than that.
    assert missing(clone) == 4
    again = opened(upstream.url, tmp_path, ears)
    assert (again.path, len(ears.said)) == (clone.path, 1)
    assert blobs(again, upstream.main[2]) == {LIB: b"2", "core.cc": b"0"}
    assert state(upstream.repo.path) == before


def missing(clone: Clone) -> int:
    listed = clone.git.read("rev-list", "--objects", "--all", "--missing=print")
    return sum(row.startswith("?") for row in listed.splitlines())


def test_contents_are_fetched_in_one_go(
    upstream: Upstream, tmp_path: Path, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = opened(upstream.url, tmp_path, ears)
    traces = tmp_path / "traces"
    traces.mkdir()
    oids = [clone.tree(sha, [LIB])[LIB][1] for sha in upstream.main]
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(traces))
    assert [data for _, data in clone.objects(oids)] == [b"0", b"1", b"2", b"3", b"4"]
    started = "".join(path.read_text() for path in traces.iterdir()).count('"name":"fetch"')
    assert started == 1
    assert len([data for _, data in clone.objects(oids)]) == 5
    assert "".join(path.read_text() for path in traces.iterdir()).count('"name":"fetch"') == 1


def test_what_a_private_clone_does_not_know_is_fetched(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.url, tmp_path, ears)
    newer = upstream.repo.commit("after the clone", {LIB: "new"})
    found = clone.resolve(newer[:9], ())
    assert (found.commit, found.on_main) == (newer, True)
    assert blobs(clone, newer)[LIB] == b"new"
    with pytest.raises(UnknownRevision):
        clone.resolve("nonsense", ())


@pytest.mark.parametrize("text", ["main", "main~0", str(day(7)), str(day(99))])
def test_what_moves_is_looked_up_in_a_clone_that_is_up_to_date(
    upstream: Upstream, tmp_path: Path, ears: Ears, text: str
) -> None:
    opened(upstream.url, tmp_path, ears)
    newer = upstream.repo.commit("after the clone", {LIB: "new"})
    assert opened(upstream.url, tmp_path, ears).resolve(text, ()).commit == newer


def test_a_commit_that_is_on_no_branch_is_fetched_by_its_id(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.url, tmp_path, ears)
    pull = upstream.repo.commit("a pull request", {LIB: "pull"})
    upstream.repo.git("update-ref", "refs/pull/7/head", pull)
    upstream.repo.git("reset", "-q", "--hard", upstream.main[4])
    found = clone.resolve(pull, ())
    assert (found.commit, found.on_main) == (pull, False)


def test_without_a_network_what_was_fetched_before_is_enough(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    clone = opened(upstream.url, tmp_path, ears)
    ears.said.clear()
    upstream.repo.path.rename(tmp_path / "gone")
    assert clone.resolve(upstream.main[1], ()).commit == upstream.main[1]
    assert ears.said == []
    assert clone.resolve("main", ()).commit == upstream.main[4]
    assert "fetched before" in ears.said[0]
    with pytest.raises(BuildUnusable, match="could not be fetched"):
        blobs(clone, "main")


@pytest.mark.parametrize("url", ["file:///nowhere/at/all", "http://127.0.0.1:9/onnxruntime", "ext::sh -c touch% x"])
def test_an_address_that_cannot_be_reached_is_the_machines_fault(tmp_path: Path, ears: Ears, url: str) -> None:
    with pytest.raises(MachineError) as told:
        opened(url, tmp_path, ears)
    assert "--repo" in told.value.advice
    assert list((tmp_path / "cache" / "clones").iterdir()) == []


def test_an_address_of_another_project_is_refused(tmp_path: Path, ears: Ears) -> None:
    make_repo(tmp_path / "other").commit("one", {"README": "1"})
    with pytest.raises(UsageError, match="no clone of onnxruntime"):
        opened(f"file://{tmp_path / 'other'}", tmp_path, ears)


def test_a_password_in_an_address_is_not_told(tmp_path: Path, ears: Ears) -> None:
    with pytest.raises(MachineError) as told:
        opened("http://me:secret@127.0.0.1:9/onnxruntime", tmp_path, ears)
    assert "secret" not in " ".join([str(told.value), told.value.advice, *ears.said, *ears.done])


def test_hooks_and_templates_of_the_user_are_not_run(
    upstream: Upstream, tmp_path: Path, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("reference-transaction", "post-checkout", "post-rewrite"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[init]\ntemplateDir = {hooks.parent}\n[core]\nhooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    clone = opened(upstream.url, tmp_path, ears)
    upstream.repo.commit("newer", {LIB: "5"})
    (tmp_path / "was-run").unlink(missing_ok=True)
    assert clone.resolve("main", ()).title == "newer"
    assert not (clone.path / "hooks").exists()
    assert not (tmp_path / "was-run").exists()


def test_variables_of_a_hook_do_not_lead_the_clone_elsewhere(
    upstream: Upstream, tmp_path: Path, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other")
    other.commit("one", {"README": "1"})
    before = state(other.path)
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    clone = opened(upstream.url, tmp_path, ears)
    assert blobs(clone, upstream.main[4])[LIB] == b"4"
    assert state(other.path) == before


def test_an_interrupted_clone_leaves_nothing_that_counts(upstream: Upstream, tmp_path: Path, ears: Ears) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        private_clone(upstream.url, cache, ears.said.append, interrupt)
    assert list((cache / "clones").iterdir()) == []
    assert private_clone(upstream.url, cache, ears.said.append, ears.done.append).path.is_dir()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((url, True) for url in ("https://x/y", "file:///x", "git@host:a/b.git", "host:a")),
        *((folder, False) for folder in ("/a/b", "a/b", ".", "C:\\a", "C:/a", "./a:b")),
    ],
)
def test_addresses_are_told_from_folders(name: str, expected: bool) -> None:
    assert is_url(name) is expected


@pytest.mark.clone
def test_a_real_clone_is_read_and_not_changed(tmp_path: Path, ears: Ears) -> None:
    clone = opened(os.environ["BISECT_BOT_TEST_CLONE"], tmp_path, ears)
    found = clone.resolve("4ed5bec2e7~3", ())
    files = clone.tree(found.commit or "", ["js/web/lib"])
    assert len(files) > 100
    assert sum(len(data) for _, data in clone.objects([oid for _, oid in files.values()])) > 10**6
