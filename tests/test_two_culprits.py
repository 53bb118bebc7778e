"""Two cases that two commits of one range broke, as a whole: each is told whose it is, in every form of the report."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from onnx import TensorProto

from tests import models
from tests.test_commits import Site, changed, commits, site, transpose

__all__ = ["site"]  # a fixture

pytestmark = [pytest.mark.network, pytest.mark.browser]


def negate(folder: Path) -> str:
    """A case with another operator than `transpose`."""
    inputs = {"x": models.counting(2, 2)}
    return str(models.save_case(folder, models.one_node("Neg", inputs, TensorProto.FLOAT, opset=13, ir=7), inputs))


def replayed(repository: Path, log: str, folder: Path) -> str:
    """What git says when it replays `log` in a clone of `repository`."""
    clone = folder / "replayed"
    git(folder, "clone", "--quiet", str(repository), str(clone))
    (folder / "bisect.log").write_text(log, encoding="utf-8")
    return git(clone, "bisect", "replay", str(folder / "bisect.log"))


def git(folder: Path, *words: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def case_of(told: Sequence[dict[str, str]]) -> list[str]:
    return [each["case"] for each in told]


def test_a_session_with_two_culprits_that_is_stopped_and_taken_up_tells_whose_each_is(
    site: Site, tmp_path: Path
) -> None:
    upstream = site.upstream
    first = changed(upstream, 1)
    one = upstream.plant("Break Transpose (#1)", wrong=["Transpose"])
    broken = upstream.plant("Does not build", wrong=["Transpose"], fails="no such type")
    upstream.plant("Builds again", wrong=["Transpose"])
    two = upstream.plant("Break Neg (#2)", wrong=["Transpose", "Neg"])
    newest = changed(upstream, 3)
    site.publish(first)
    cases = ["--case", transpose(tmp_path / "transpose"), "--case", negate(tmp_path / "neg")]
    ends = ["--source", "commits", "--good", first, "--bad", newest, "--no-prefetch"]

    done = site.run(*ends, *cases, "--max-builds", "2")
    assert done.status == 13, done.err
    stopped = site.shell.report()
    assert stopped["next"]["command"] == f"bisect-bot resume {stopped['session']}"
    assert stopped["next"]["step"].startswith("search of ") and stopped["counts"]["builds"] == 2
    assert commits(stopped["boundary"]) == (first, newest), "the best range so far"
    for name in ("report.md", "report.html"):
        assert f"bisect-bot resume {stopped['session']}" in (site.shell.folder / "report" / name).read_text("utf-8")

    status = 13
    for _ in range(4):  # each has as much to spend again
        if status == 13:
            status = site.shell.run("resume").status
    assert status == 0
    report = site.shell.report()
    named = {
        each["commit"]: (each["title"], each["pull_request"], case_of(each["cases"])) for each in report["culprits"]
    }
    assert named[two] == ("Break Neg (#2)", 2, ["neg"])
    assert named[one] == ("Break Transpose (#1)", 1, ["transpose"])
    proofs = {(each["kind"], each["commit"], each["case"]) for each in report["proofs"]}
    assert {("revert", one, "transpose"), ("revert", two, "neg"), ("retest", one, "transpose")} <= proofs
    # Six commits, of which each was built once at most, over all processes; the one that fails is among them.
    counts = report["counts"]
    assert counts["builds"] <= 6 and counts["probes"] > stopped["counts"]["probes"]
    assert counts["verdicts_reused"] == 0, "no other session has tested any of it"
    assert report["wall_s"] > stopped["wall_s"]
    tried = [path for path in (site.shell.cache / "logs").iterdir() if f"-{broken[:10]}-the-TypeScript" in path.name]
    assert len(tried) <= 1

    written = (site.shell.folder / "report" / "report.md").read_text(encoding="utf-8")
    assert "broke: transpose" in written and "broke: neg" in written
    assert f"revert of {one[:10]}, for transpose: " in written and f"revert of {two[:10]}, for neg: held" in written
    root = ElementTree.fromstring(site.shell.run("report", "--format", "junit").out)
    texts = {case.attrib["name"]: case.findtext("failure") or "" for case in root.iter("testcase")}
    assert "Break Neg" in texts["neg"] and "Break Transpose" in texts["transpose"]
    headline = report["cases"][0]["boundary"]["first_new"]["commit"]
    log = site.shell.run("report", "--format", "gitlog").out
    assert f"{headline} is the first bad commit" in replayed(upstream.path, log, tmp_path)

    agreed = site.shell.run("verify", "report/report.json", "--json")
    assert agreed.status == 0, agreed.err
    told = json.loads(agreed.out)
    assert f"the clone is that of the session {report['session']}" in " ".join(told["notes"])
