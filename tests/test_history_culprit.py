"""What is told of a culprit, and its diff, from real repositories that are made here and never written to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history.culprit import culprit
from bisect_bot.history.git import Git
from bisect_bot.history.patches import diff_of, reverse_diff_of
from tests.limits import CLONE

LIB = "js/web/lib"
HOSTILE = "\x1b]0;pwned\x07<script>alert(1)</script> | `rm -rf ~` \x01 $(id) (#1) [x](http://evil) (#22536)"
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(path: Path, *words: str, stdin: bytes = b"", **more: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-C", str(path)]
    env = {**os.environ, **QUIET, **more}
    done = subprocess.run([*command, *words], env=env, input=stdin, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace").strip()


def write(root: Path, files: dict[str, bytes | None]) -> None:
    for name, data in files.items():
        path = root / name
        if data is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def commit(root: Path, title: str, files: dict[str, bytes | None], **more: str) -> str:
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-F", "-", "--cleanup=verbatim", stdin=title.encode(), **more)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "onnxruntime"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    commit(root, "first", {f"{LIB}/a.ts": b"1\n2\n3\n", f"{LIB}/logo.bin": bytes(range(256)), "cmake/x": b"x\n"})
    return root


def test_a_culprit_is_told_with_author_time_pull_request_and_files(repo: Path) -> None:
    when = {"GIT_AUTHOR_DATE": "2024-11-07T10:20:30-0800", "GIT_AUTHOR_NAME": "Zoë Ünal"}
    sha = commit(repo, "fix matmul (#22536)\n\nbody (#7)", {f"{LIB}/a.ts": b"1\n", "ümlaut \t.txt": b"x"}, **when)
    told = culprit(Git(repo), sha)
    assert (told.commit, told.author, told.date) == (sha, "Zoë Ünal", "2024-11-07T10:20:30-08:00")
    assert (told.title, told.pull_request) == ("fix matmul (#22536)", 22536)
    assert told.files == (f"{LIB}/a.ts", "ümlaut \t.txt")


def test_hostile_texts_are_passed_on_as_they_are(repo: Path) -> None:
    sha = commit(repo, HOSTILE, {"x\ny": b"1"}, GIT_AUTHOR_NAME="a \x1b[31m`whoami` --format=%H")
    told = culprit(Git(repo), sha)
    assert told.title == HOSTILE
    assert told.author == "a \x1b[31m`whoami` --format=%H"
    assert (told.pull_request, told.files) == (22536, ("x\ny",))


@pytest.mark.parametrize(
    ("title", "number"),
    [
        ('Revert "a (#21)" (#35)', 35),
        ("see #21", None),
        ("a (#)", None),
        ("a (#99999999999999999999)", None),
        ("", None),
    ],
)
def test_the_pull_request_is_the_last_number_in_parentheses(repo: Path, title: str, number: int | None) -> None:
    sha = commit(repo, title, {}) if title else git(repo, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "")
    assert culprit(Git(repo), sha).pull_request == number


def test_a_merge_is_compared_with_its_first_parent_and_a_first_commit_with_nothing(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    commit(repo, "side", {"side.txt": b"s"})
    git(repo, "checkout", "-q", "main")
    commit(repo, "main", {"main.txt": b"m"})
    git(repo, "merge", "-q", "--no-ff", "-m", "merge (#9)", "side")
    assert culprit(Git(repo), git(repo, "rev-parse", "HEAD")).files == ("side.txt",)
    first = culprit(Git(repo), git(repo, "rev-list", "--max-parents=0", "HEAD"))
    assert first.files == ("cmake/x", f"{LIB}/a.ts", f"{LIB}/logo.bin")


def test_where_a_shallow_clone_ends_no_files_are_claimed(repo: Path, tmp_path: Path) -> None:
    sha = commit(repo, "second", {"b": b"2"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    assert culprit(Git(tmp_path / "shallow"), sha).files == ()
    with pytest.raises(BuildUnusable, match="ends at"):
        diff_of(Git(tmp_path / "shallow"), sha, ["b"])


def test_what_the_user_has_configured_changes_nothing(repo: Path) -> None:
    sha = commit(repo, "second (#2)", {f"{LIB}/a.ts": b"1\n2\nthree\n"})
    expected = culprit(Git(repo), sha), diff_of(Git(repo), sha, [LIB])
    for setting in (
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.external=false",
        "diff.context=0",
        "log.showSignature=true",
        "i18n.logOutputEncoding=latin1",
        "color.ui=always",
        "log.showRoot=false",
    ):
        git(repo, "config", *setting.split("=", 1))
    (repo / ".git" / "info" / "attributes").write_text("*.ts diff=own\n")
    git(repo, "config", "diff.own.textconv", "false")
    assert (culprit(Git(repo), sha), diff_of(Git(repo), sha, [LIB])) == expected


@pytest.mark.parametrize("unknown", ["f" * 40, "--help", "HEAD:cmake/x"])
def test_what_is_no_commit_of_the_clone_is_refused(repo: Path, unknown: str) -> None:
    with pytest.raises(UsageError):
        culprit(Git(repo), unknown)
    with pytest.raises(UsageError):
        diff_of(Git(repo), unknown, [LIB])


CHANGES: dict[str, bytes | None] = {
    f"{LIB}/a.ts": b"1\r\n2\nthree",
    f"{LIB}/logo.bin": bytes(reversed(range(256))) * 3,
    f"{LIB}/new \xff*.ts": b"n\n",
    "cmake/x": b"y\n",
    "js/web/lib2/other.ts": b"o\n",
}


def test_a_diff_holds_what_lies_within_the_paths_and_applies_there_and_back(repo: Path, tmp_path: Path) -> None:
    sha = commit(repo, "second", CHANGES)
    forth, back = diff_of(Git(repo), sha, [LIB]), reverse_diff_of(Git(repo), sha, [LIB])
    assert b"cmake" not in forth and b"lib2" not in forth

    def state(root: Path) -> dict[str, bytes]:
        return {str(p.relative_to(root)): p.read_bytes() for p in (root / LIB).rglob("*") if p.is_file()}

    after = state(repo)
    git(repo, "checkout", "-q", f"{sha}~1")
    before = state(repo)
    assert before != after
    # Outside of any repository, whose objects could help.
    plain = tmp_path / "plain"
    shutil.copytree(repo / "js", plain / "js")
    git(plain, "apply", "--whitespace=nowarn", stdin=forth, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert state(plain) == after
    git(plain, "apply", "--whitespace=nowarn", stdin=back, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert state(plain) == before


def test_paths_are_taken_literally_and_can_be_left_out(repo: Path) -> None:
    sha = commit(repo, "second", {f"{LIB}/a.ts": b"1\n", f"{LIB}/*.ts": b"star\n", f"{LIB}/deep/b.ts": b"b\n"})
    assert b"a.ts" not in diff_of(Git(repo), sha, [f"{LIB}/*.ts"])
    within = diff_of(Git(repo), sha, [LIB, f"!{LIB}/deep"])
    assert b"a.ts" in within and b"deep" not in within
    assert diff_of(Git(repo), sha, ["onnxruntime"]) == b""
    assert diff_of(Git(repo), sha, []) == b""


def test_a_diff_that_needs_a_missing_blob_says_which_file(repo: Path, tmp_path: Path) -> None:
    sha = commit(repo, "second", {f"{LIB}/a.ts": b"1\n", f"{LIB}/large.bin": os.urandom(3000)})
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:limit=1k", f"file://{repo}", "partial")
    partial = Git(tmp_path / "partial")
    assert culprit(partial, sha).files == (f"{LIB}/a.ts", f"{LIB}/large.bin")
    with pytest.raises(BuildUnusable, match=r"js/web/lib/large\.bin"):
        diff_of(partial, sha, [LIB])
    assert b"a.ts" in diff_of(partial, sha, [f"{LIB}/a.ts"])


@pytest.mark.clone
def test_the_culprit_of_the_first_report_is_told() -> None:
    clone = Git(Path(os.environ[CLONE]))
    sha = clone.read("rev-parse", "d9b91682f1").strip()
    told = culprit(clone, sha)
    assert told.pull_request == 22536
    assert told.date.startswith("2024-11-0")
    assert any(name.startswith(f"{LIB}/wasm/jsep/webgpu/ops/") for name in told.files)
    diff = diff_of(clone, sha, [LIB])
    assert diff.startswith(b"diff --git a/js/web/lib/")
    assert b"matmul.jsonc" not in diff
    assert reverse_diff_of(clone, sha, [LIB]) != diff
