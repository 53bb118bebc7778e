"""Files of a revision, read from real repositories that are made here, and never written to."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from bisect_bot.cases.gitobject import GitObject
from bisect_bot.errors import CaseError, UsageError

LIMIT = 1000
NAME = "ops/matmul.jsonc"


@dataclass(frozen=True)
class Clone:
    """A repository with two commits: `ops/matmul.jsonc` says `old`, then `new`."""

    path: Path
    old: str
    new: str

    def git(self, *words: str) -> str:
        return git(self.path, *words)

    def read(self, rev: str, path: str = NAME, limit: int = LIMIT) -> bytes:
        return GitObject(rev, path).read(str(self.path), limit)


def git(path: Path, *words: str, stdin: str = "") -> str:
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-C", str(path)]
    command += words
    return subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    path = tmp_path / "onnxruntime"
    (path / "ops").mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    commits = []
    for text in ("old", "new"):
        (path / NAME).write_bytes(text.encode() + b"\r\n\xff\0")
        (path / "ops" / "add.jsonc").write_text("[]")
        (path / "ops" / "*.jsonc").write_text("a name with a star")
        (path / "ops" / "link.jsonc").unlink(missing_ok=True)
        (path / "ops" / "link.jsonc").symlink_to("add.jsonc")
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", text)
        commits.append(git(path, "rev-parse", "HEAD"))
    git(path, "tag", "v1.2", commits[0])
    git(path, "tag", "-a", "-m", "annotated", "v1.3", commits[0])
    git(path, "branch", "rel/1.2", commits[0])
    return Clone(path, *commits)


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(folder)): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


@pytest.mark.parametrize("rev", ["old", "old:10", "old:7", "v1.2", "v1.3", "rel/1.2", "main~1", "HEAD^", "main^{/old}"])
def test_a_revision_is_whatever_git_takes_for_a_commit(clone: Clone, rev: str) -> None:
    named, _, digits = rev.partition(":")
    rev = clone.old[: int(digits or 40)] if named == "old" else rev
    assert clone.read(rev) == b"old\r\n\xff\0", "the very bytes"
    assert clone.read("main") == b"new\r\n\xff\0"


def test_a_bare_clone_is_read_too(clone: Clone, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(clone.path), "bare")
    assert GitObject("v1.2", NAME).read(str(tmp_path / "bare"), LIMIT) == b"old\r\n\xff\0"


def test_reading_writes_nothing_and_runs_no_hook(clone: Clone) -> None:
    hook = clone.path / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {clone.path}/ran\n")
    hook.chmod(0o755)
    before = tree(clone.path)
    clone.read("v1.2")
    with pytest.raises(CaseError):
        clone.read("v1.2", "ops/none.jsonc")
    assert tree(clone.path) == before


@pytest.mark.parametrize(
    ("rev", "path", "says", "advice"),
    [
        ("v9", NAME, "v9:ops/matmul.jsonc: there is no revision v9 in", "a commit, a branch or a tag"),
        ("0" * 40, NAME, "there is no revision 000", "a commit, a branch or a tag"),
        ("HEAD:ops", NAME, "there is no revision HEAD:ops in", "a commit"),
        ("main", "ops/matmull.jsonc", "main has no file ops/matmull.jsonc", "is one of these meant: ops/matmul.jsonc"),
        ("main", "matmul.jsonc", "main has no file matmul.jsonc", "paths begin at the top"),
        ("main", "ops/../ops/add.jsonc", "main has no file", ""),
        ("main", "/etc/passwd", "main has no file /etc/passwd", ""),
        ("main", "ops", "is no file, but a folder", ""),
        ("main", "ops/link.jsonc", "is no file, but a folder, a link", ""),
        ("main", "", "main has no file", ""),
        ("", NAME, "names no git object", "type REV:path"),
        ("--output=x", NAME, "names no git object", "type REV:path"),
        ("-p", NAME, "names no git object", "type REV:path"),
        ("main\0", NAME, "names no git object", "type REV:path"),
        ("main", "ops/\x1b[2Jadd.jsonc", "names no git object", "type REV:path"),
    ],
)
def test_what_is_not_there_is_said_with_what_could_be_meant(
    clone: Clone, rev: str, path: str, says: str, advice: str
) -> None:
    before = tree(clone.path)
    with pytest.raises(CaseError) as caught:
        clone.read(rev, path)
    assert says in str(caught.value)
    assert advice in caught.value.advice
    assert str(caught.value).isprintable()
    assert tree(clone.path) == before


def test_a_path_is_no_pattern(clone: Clone) -> None:
    assert clone.read("main", "ops/*.jsonc") == b"a name with a star"


def test_digits_that_begin_several_commits_are_too_few(clone: Clone) -> None:
    commits = "".join(
        f"reset refs/heads/many\ncommit refs/heads/many\nmark :{n}\ncommitter a <a@b> {n} +0000\ndata 0\n"
        for n in range(1, 1201)
    )
    marks = clone.path / "marks"
    git(clone.path, "fast-import", "--quiet", f"--export-marks={marks}", stdin=commits)
    beginnings = Counter(line.split()[1][:4] for line in marks.read_text().splitlines())
    ((twice, count),) = beginnings.most_common(1)
    assert count > 1
    with pytest.raises(CaseError, match="is not the beginning of just one commit") as caught:
        clone.read(twice)
    assert caught.value.advice == "type more digits"


def test_a_partial_clone_says_what_it_lacks_and_fetches_nothing(clone: Clone, tmp_path: Path) -> None:
    clone.git("config", "uploadpack.allowFilter", "true")
    clone.git("config", "uploadpack.allowAnySHA1InWant", "true")
    url = f"file://{clone.path}"
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", url, "partial")
    git(tmp_path, "clone", "-q", "--bare", "--filter=tree:0", url, "treeless")
    for name, says in (("partial", "lacks the content of v1.2:ops/matmul.jsonc"), ("treeless", "cannot be looked up")):
        before = tree(tmp_path / name)
        with pytest.raises(CaseError, match=says):
            GitObject("v1.2", NAME).read(str(tmp_path / name), LIMIT)
        assert tree(tmp_path / name) == before


def test_a_large_file_is_refused_before_it_is_read(clone: Clone) -> None:
    with pytest.raises(CaseError, match="is larger than 0 MiB"):
        clone.read("main", limit=3)


def test_without_a_clone_the_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="none was named") as caught:
        GitObject("main", NAME).read(None, LIMIT)
    assert caught.value.advice == "add --repo PATH"
    for repo, says in ((tmp_path / "none", "is no folder"), (tmp_path, "there is no revision main")):
        with pytest.raises(UsageError, match=says):
            GitObject("main", NAME).read(str(repo), LIMIT)
