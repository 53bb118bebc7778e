"""A half-done `git bisect` is gone on with, and git goes on with what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repos import Repo
from tests.test_commits import Site, changed, commits, site, transpose

__all__ = ["site"]
pytestmark = [pytest.mark.network, pytest.mark.browser]


def test_a_users_bisect_is_gone_on_with_and_its_mistake_found_and_git_replays_the_answer(
    site: Site, tmp_path: Path
) -> None:
    upstream = site.upstream
    line = [changed(upstream, 1), upstream.cpp("Change C++")]
    site.publish(line[0])
    line += [upstream.plant("Break Transpose", wrong=["Transpose"]), *(changed(upstream, n) for n in range(2, 6))]
    bad, before, wrong, unasked = line[2], line[1], line[3], line[5]
    repo = Repo(upstream.path)
    repo.git("bisect", "start", "HEAD", line[0])
    repo.git("bisect", "bad", unasked)
    # Too soon: the one that broke it is before.
    repo.git("bisect", "good", wrong)
    (tmp_path / "log").write_text(repo.git("bisect", "log") + "\n")
    repo.git("bisect", "reset")

    done = site.run("--replay", str(tmp_path / "log"), "--case", transpose(tmp_path / "case"))

    assert done.status == 0, done.err + done.out
    report = site.shell.report()
    assert (report["result"], report["direction"]) == ("found", "regression")
    assert commits(report["boundary"]) == (before, bad)
    warnings = " ".join(report["warnings"])
    assert f"not tested here: 1 verdict of the bisect log ({unasked[:10]})" in warnings
    assert f"the log calls {wrong[:10]} good, which its tests here speak against" in warnings
    assert unasked[:10] not in {row["revision"] for row in report["matrix"]}
    assert f"--good {line[0]} --bad {line[-1]}" in report["reproduce"] and "--replay" in report["reproduce"]

    log = site.shell.run("report", "--format", "gitlog")
    assert log.status == 0, log.err
    (tmp_path / "found").write_text(log.out)
    told = repo.git("bisect", "replay", str(tmp_path / "found"))
    repo.git("bisect", "reset")
    assert f"{bad} is the first bad commit" in told
