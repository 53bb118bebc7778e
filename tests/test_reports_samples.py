"""Reports as a session makes them, one for each way in which it can end; other tests of reports start from these."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import replace

from bisect_bot.model import (
    Adapter,
    Boundary,
    Cell,
    CellResult,
    Comparison,
    Counts,
    Direction,
    Failure,
    Mismatch,
    Outcome,
    Proof,
    Report,
    Result,
    Revision,
    Signature,
    Suspect,
    Target,
    Trial,
    Verdict,
)

SWIFTSHADER = Adapter(
    "google", "swiftshader", "0xc0de", "SwiftShader Device (Subzero)", fallback=True, software=True, driver="5.0.0"
)
CHROME = Target("chrome", "/opt/browser/chrome", "156.0.7204.49", "Linux x86_64", "swiftshader", "any", SWIFTSHADER)
ENVIRONMENT = (
    ("bisect-bot", "0.1.0"),
    ("python", "3.11.7"),
    ("onnxruntime", "1.30.0"),
    ("platform", "Linux 6.1 x86_64"),
)
POOL = Cell("test_averagepool_2d_ceil", "chrome", "webgpu")
RESIZE = Cell("test_resize_tf_crop_and_resize_axes_2_3", "chrome", "webgpu")
# In order of history; a release is built from a branch and counts at its nearest ancestor on main.
BUILDS = tuple(
    Revision(version, version, commit, dt.date.fromisoformat(date), None, ancestor is None, ancestor)
    for version, commit, date, ancestor in (
        ("1.20.0-dev.20241016-2b8fc5529b", "2b8fc5529b", "2024-10-16", None),
        ("1.20.0", "c4fb724e81", "2024-10-16", "f9e623e4d1"),
        ("1.20.1", "5c1b7ccbff", "2024-10-16", "f9e623e4d1"),
        ("1.21.0-dev.20241024-d9ca84ef96", "d9ca84ef96", "2024-10-24", None),
        ("1.21.0-dev.20241205-d27fecd3d3", "d27fecd3d3", "2024-12-05", None),
        ("1.21.0-dev.20250111-73f5b0c597", "73f5b0c597", "2025-01-10", None),
        ("1.21.0-dev.20250114-228dd16893", "228dd16893", "2025-01-14", None),
        ("1.21.0", "e0b66cad28", "2025-02-21", "98511b0fe8"),
    )
)
REASONS = {
    Outcome.GOOD: "all outputs match",
    Outcome.BAD: "output y differs in 3 of 16 elements",
    Outcome.SKIP: "the smoke case fails: TypeError: wasm3.getValue is not a function",
    Outcome.INFRA: "no GPU adapter",
}


def comparison(outcome: Outcome) -> Comparison:
    """What the comparison of one 4 x 4 output gives for a good or a bad verdict."""
    if outcome is Outcome.GOOD:
        return Comparison("test_data_set_0", "y", True, 16, max_abs_err=2.38e-07, max_rel_err=1.1e-07)
    first = (
        Mismatch((0, 0, 1, 3), 5.25, 10.5),
        Mismatch((0, 0, 3, 1), float("nan"), 14.0),
        Mismatch((0, 0, 3, 3), 0.0, 16.0),
    )
    return Comparison("test_data_set_0", "y", False, 16, 3, first, 16.0, 1.0, nan=1)


def signature(cell: Cell) -> Signature:
    """The signature of the failure that the samples search for."""
    return Signature(Failure.MISMATCH, cell.case, "output y: values differ")


def trial(revision: Revision, cell: Cell, outcome: Outcome, purpose: str = "search", attempt: int = 1) -> Trial:
    """One trial of `revision` with the numbers that its outcome usually has."""
    answered = outcome in (Outcome.GOOD, Outcome.BAD)
    verdict = Verdict(
        outcome,
        REASONS[outcome],
        signature(cell) if outcome is Outcome.BAD else None,
        (comparison(outcome),) if answered else (),
        "webgpu" if answered else None,
        "gpu" if answered else None,
    )
    digest = f"sha256:{hashlib.sha256(repr(revision.id).encode()).hexdigest()}"
    return Trial(
        revision.id, cell, attempt, verdict, digest, "ort.webgpu.min.mjs", 2 if answered else 0, SWIFTSHADER, purpose
    )


def history(cell: Cell, letters: str, revisions: tuple[Revision, ...] = BUILDS) -> tuple[Trial, ...]:
    """Trials by one letter a revision (g, b, s, i, or - for untried): the two ends first, then the others."""
    outcomes = dict(zip("gbsi", Outcome, strict=True))
    tried = [(i, outcomes[letter]) for i, letter in enumerate(letters) if letter != "-"]
    outer = (tried[0][0], tried[-1][0])
    ordered = sorted(tried, key=lambda pair: pair[0] not in outer)
    return tuple(trial(revisions[i], cell, o, "end" if i in outer else "search") for i, o in ordered)


def found_regression() -> Report:
    """Broken between two published builds; the boundary was tried again, and it crosses no change of bundle."""
    old, new = BUILDS[3], BUILDS[4]
    retests = (
        trial(old, POOL, Outcome.GOOD, "retest", 2),
        trial(new, POOL, Outcome.BAD, "retest", 2),
        trial(old, POOL, Outcome.GOOD, "retest", 3),
    )
    answer = CellResult(
        POOL,
        Result.FOUND,
        Direction.REGRESSION,
        Boundary(old, new),
        (Suspect((new,), 0.99),),
        signature(POOL),
        0.99,
    )
    return Report(
        session="20261130-101500-averagepool",
        result=Result.FOUND,
        cells=(answer,),
        targets=(CHROME,),
        revisions=BUILDS,
        trials=history(POOL, "g--gb--b") + retests,
        proofs=(Proof("retest", True, None, 3), Proof("revert", None, "published builds cannot be reverted")),
        counts=Counts(8, 8, 4, 0, 1, 7, 0, 0),
        warnings=("The adapter is a software one (SwiftShader): a failure of GPU drivers would not show.",),
        reference="onnxruntime 1.30.0 (CPU)",
        environment=ENVIRONMENT,
        reproduce=(
            "bisect-bot run --good 1.20.0-dev.20241016-2b8fc5529b --bad 1.21.0 --case node/test_averagepool_2d_ceil"
        ),
        wall_s=94.25,
    )


def found_fix() -> Report:
    """Fixed between two commits, with more cases: one shares the boundary, one gave another answer."""
    commits = tuple(
        Revision(commit, None, commit, dt.date(2024, 11, day), title, True)
        for commit, day, title in (
            (
                "6a295eb75bb6e1044cfa6a63df3cb641b9d566a9",
                7,
                "[JS/WebGPU] Creating devices with subgroup features (#21833)",
            ),
            ("0e4b1a5d7c3f2b6e8a9d0c1f2e3b4a5d6c7f8e90", 8, None),
            (
                "d9b91682f17d038b9392ef84fa92586d14e973b9",
                8,
                "WebGPU JSEP: Make shader code not depend on input (#22536)",
            ),
            ("d3ad76b2cf7911fc1304e67e53d57f4ad0bb8acc", 8, "[VitisAI] Cache node subgraph when necessary (#22073)"),
        )
    )
    matmul = Cell("matmul.jsonc#same ranks, different | broadcast", "chrome", "webgpu")
    twin, other = replace(matmul, case="matmul.jsonc#larger 1"), replace(matmul, case="matmul.jsonc#two axes")
    boundary = Boundary(commits[1], commits[2])
    answer = CellResult(
        matmul, Result.FOUND, Direction.FIX, boundary, (Suspect((commits[2],), 0.97),), signature(matmul), 0.97
    )
    same = CellResult(other, Result.SAME, None, None, note="good with both ends")
    return replace(
        found_regression(),
        session="20261130-113000-matmul",
        cells=(answer, replace(answer, cell=twin, signature=signature(twin)), same),
        revisions=commits,
        trials=history(matmul, "bbgg", commits) + history(twin, "bbgg", commits) + history(other, "g--g", commits),
        proofs=(Proof("retest", True, None, 4), Proof("cherry-pick", False, "still 3 of 16 elements differ", 2)),
        warnings=(),
        reproduce=f"bisect-bot run --good d3ad76b2cf --bad 6a295eb75b --case '{matmul.case}'",
    )


def narrowed() -> Report:
    """A range: what lies between its two ends cannot be tested; another build failed in a way of its own."""
    boundary = Boundary(BUILDS[2], BUILDS[5])
    suspects = (Suspect((BUILDS[3],), 0.33, True), Suspect((BUILDS[4],), 0.33, True), Suspect((BUILDS[5],), 0.33))
    answer = CellResult(RESIZE, Result.RANGE, Direction.REGRESSION, boundary, suspects, signature(RESIZE), 0.98)
    odd = Signature(Failure.ERROR, RESIZE.case, 'Error: [WebGPU] Kernel "[Resize] node" failed.\n    at <anonymous>')
    trials = [
        replace(t, verdict=replace(t.verdict, signature=odd, reason=f"fails in another way: {odd.message}"))
        if t.revision == BUILDS[4].id
        else t
        for t in history(RESIZE, "g-gssb-b")
    ]
    return replace(
        found_regression(),
        session="20261130-120000-resize",
        result=Result.RANGE,
        cells=(answer,),
        trials=tuple(trials),
        proofs=(Proof("retest", True, None, 4),),
    )


def same() -> Report:
    """Both ends are good."""
    answer = CellResult(POOL, Result.SAME, None, None)
    return replace(
        found_regression(),
        result=Result.SAME,
        cells=(answer,),
        trials=history(POOL, "g------g"),
        proofs=(),
        warnings=(),
    )


def inconclusive() -> Report:
    """One build answered both ways, and the verdict changes more than once."""
    answer = CellResult(
        POOL, Result.INCONCLUSIVE, Direction.REGRESSION, Boundary(BUILDS[3], BUILDS[5]), (), signature(POOL), None
    )
    trials = (*history(POOL, "gb-ggb-b"), trial(BUILDS[4], POOL, Outcome.BAD, "retest", 2))
    return replace(
        found_regression(),
        result=Result.INCONCLUSIVE,
        cells=(answer,),
        trials=trials,
        proofs=(Proof("retest", False, "1.21.0-dev.20241205-d27fecd3d3 was good and bad", 1),),
        reason="1.21.0-dev.20241205-d27fecd3d3 answered both good and bad.",
    )


def stopped() -> Report:
    """Interrupted when only the ends were known."""
    answer = CellResult(POOL, Result.STOPPED, Direction.REGRESSION, Boundary(BUILDS[0], BUILDS[7]))
    return replace(
        found_regression(),
        result=Result.STOPPED,
        cells=(answer,),
        trials=history(POOL, "g------b"),
        proofs=(),
        reason="interrupted",
        wall_s=3725.0,
    )


def unusable() -> Report:
    """The browser gave no adapter at either end."""
    answer = CellResult(POOL, Result.UNUSABLE, None, None)
    return replace(
        found_regression(),
        result=Result.UNUSABLE,
        cells=(answer,),
        targets=(replace(CHROME, adapter=None, flags="plain"),),
        trials=tuple(replace(t, adapter=None) for t in history(POOL, "i------i")),
        proofs=(),
        warnings=(),
        counts=Counts(revisions=8, candidates=8, builds=2, probes=6, infra=6),
        reason="chrome gives no GPU adapter",
    )


def nothing_known() -> Report:
    """Ended before anything was tried: not even the cases are settled."""
    return replace(
        unusable(), cells=(), trials=(), targets=(), revisions=(), counts=Counts(), reason="no browser found"
    )


FRAMES = 13
VAD = Cell("silero_vad", "chrome", "webgpu")


def frames(first_wrong: int | None) -> tuple[Comparison, ...]:
    """A recurrent run whose error grows slowly, and whose output is empty from the frame `first_wrong` on."""
    seen = []
    for number in range(1, FRAMES + 1):
        name, error = f"frame {number}", 2e-7 * 1.6**number
        if first_wrong is None or number < first_wrong:
            seen.append(Comparison(name, "output", True, 64, 0, (), error, error, cosine=1.0, foreground=(0.53, 0.53)))
        else:
            first = tuple(Mismatch((0, i), 0.0, 0.5 + i / 64) for i in range(10))
            wrong = Comparison(name, "output", False, 64, 64, first, 0.98, 1.0, all_zero=True, all_equal=True)
            seen.append(replace(wrong, cosine=0.0, channels=(0.98, 1e-7, 0.25, 0.0), foreground=(0.0, 0.53)))
    return tuple(seen)


def drifting() -> Report:
    """A recurrent model that is empty from frame 9 on, with two other ways to fail on the way, and logs."""
    own = Signature(Failure.ALL_ZERO, VAD.case, "output: all zero", "frame 9")
    kernel = Signature(Failure.KERNEL_ERROR, VAD.case, 'Kernel "[LSTM]" failed. Error: out of workgroups')
    lost = Signature(Failure.DEVICE_LOST, VAD.case, "device lost: unknown", "run 2")
    good = Verdict(Outcome.GOOD, "13 outputs match (largest error 9.01e-05)", None, frames(None), "webgpu", "gpu")
    bad = Verdict(Outcome.BAD, "output[0,0] is 0 instead of 0.5 in frame 9", own, frames(9), "webgpu", "mixed")
    verdicts = {
        0: good,
        2: Verdict(Outcome.BAD, "run: Kernel failed", kernel, (), "webgpu", "gpu"),
        3: good,
        4: bad,
        6: Verdict(Outcome.BAD, "the GPU device was lost", lost, (), "webgpu", "gpu"),
        7: bad,
    }
    log = ("[W:onnxruntime] Some nodes were not assigned to the preferred provider", "GPU: device lost: unknown")
    tried = (0, 7, 3, 4, 2, 2, 6)
    trials = tuple(
        Trial(
            BUILDS[i].id,
            VAD,
            1,
            verdicts[i],
            bundle="ort.webgpu.min.mjs",
            dispatches=130,
            adapter=SWIFTSHADER,
            purpose="end" if i in (0, 7) else "search",
            log=() if verdicts[i] is good else log,
        )
        for i in tried
    )
    answer = CellResult(
        VAD, Result.FOUND, Direction.REGRESSION, Boundary(BUILDS[3], BUILDS[4]), (), own, 0.99, "13 frames"
    )
    return replace(
        found_regression(),
        session="20261130-123000-silero",
        cells=(answer,),
        trials=trials,
        warnings=("silero_vad on chrome/webgpu: asked for webgpu, wasm: wasm ran with 1.21.0.",),
        reproduce="bisect-bot run --good 1.20.0 --bad 1.21.0 --case silero_vad --frames 13 --feed stateN=state",
    )


def verdict_table() -> Report:
    """A matrix: the same model on two backends, nothing searched."""
    report = drifting()
    wasm = replace(VAD, backend="wasm")
    trials = (*report.trials, *(replace(t, cell=wasm) for t in report.trials if t.verdict.outcome is Outcome.GOOD))
    return replace(report, result=Result.TESTED, cells=(), trials=trials, proofs=(), warnings=())


SAMPLES = {
    "drift": drifting(),
    "found regression": found_regression(),
    "found fix": found_fix(),
    "range": narrowed(),
    "same": same(),
    "inconclusive": inconclusive(),
    "stopped": stopped(),
    "unusable": unusable(),
    "nothing known": nothing_known(),
}

HOSTILE = (
    "\x1b[2J\x9b31m\u202egpj.exe\u200b <img src=x onerror=alert(1)> | `x` ``` [a](http://e.vil) @octocat #1 "
    "\r\n\x7f\ud800</details>[red]"
)


def hostile() -> Report:
    """A report in which all text from outside tries to be something else."""
    revisions = tuple(
        replace(r, id=f"{i}{HOSTILE}", title=f"{HOSTILE}{i}\ngit bisect reset") for i, r in enumerate(BUILDS)
    )
    cell = Cell(HOSTILE, f"chrome{HOSTILE}", HOSTILE)
    failure = Signature(Failure.ERROR, HOSTILE, HOSTILE)
    differs = replace(comparison(Outcome.BAD), output=HOSTILE, first=(Mismatch((0,), HOSTILE, HOSTILE),))
    trials = tuple(
        replace(t, verdict=replace(t.verdict, reason=HOSTILE, ran_on="gpu", comparisons=(differs,), signature=failure))
        for t in history(cell, "g-sgbgbb", revisions)
    )
    answer = CellResult(
        cell, Result.FOUND, Direction.REGRESSION, Boundary(revisions[3], revisions[4]), (), failure, 0.9, HOSTILE
    )
    adapter = Adapter(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    return replace(
        found_regression(),
        session=HOSTILE,
        cells=(answer, replace(answer, cell=replace(cell, case=f"2{HOSTILE}"))),
        targets=(replace(CHROME, version=HOSTILE, adapter=adapter, extra_args=(HOSTILE,)),),
        revisions=revisions,
        trials=trials,
        proofs=(Proof("retest", None, HOSTILE),),
        warnings=(HOSTILE,),
        reference=HOSTILE,
        environment=((HOSTILE, HOSTILE),),
        reproduce=HOSTILE,
        reason=HOSTILE,
    )


def test_the_samples_hold_every_result() -> None:
    assert {report.result for report in (*SAMPLES.values(), verdict_table())} == set(Result)
