"""Numbers and counts in words, the same in every medium. Nothing here is escaped."""

from __future__ import annotations

import numpy as np

from bisect_bot.model import Comparison, Proof, Report, Trial

# As JavaScript and report.json spell them.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def number(value: float | int | bool | str, digits: int = 9) -> str:
    """`value` with at most `digits` significant digits: nine tell any two float32 apart (IEEE 754)."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, float):
        return str(plain)
    return _NOT_FINITE.get(f"{plain}") or f"{plain:.{digits}g}"


def max_abs_err(trial: Trial) -> float | None:
    """The largest absolute error over all outputs that could be compared element by element; None without any."""
    compared = [c.max_abs_err for c in trial.verdict.comparisons if c.problem is None]
    return max(compared, default=None)


def overview(comparison: Comparison) -> str:
    """How many elements of an output differ, by how much, and what is odd about it as a whole."""
    told = [f"{comparison.mismatches} of {comparison.elements} elements differ"]
    told.append(f"max abs err {number(comparison.max_abs_err, 3)}, max rel err {number(comparison.max_rel_err, 3)}")
    if comparison.nan or comparison.inf:
        told.append(f"{comparison.nan} NaN, {comparison.inf} infinite")
    if comparison.all_zero:
        told.append("all zero")
    elif comparison.all_equal:
        told.append("all equal")
    return "; ".join(told)


def proof_word(proof: Proof) -> str:
    """Whether a proof held, in words."""
    if proof.held is None:
        return "could not be made"
    return "held" if proof.held else "did not hold"


def cost(report: Report) -> str:
    """What the answer cost: builds, probes, what was reused, and the time."""
    counts = report.counts
    told = [
        f"{counted(counts.builds, 'build')} for {counted(counts.revisions, 'revision')}",
        f"{counted(counts.artifacts_reused, 'artifact')} reused",
        counted(counts.probes, "probe"),
        f"{counted(counts.verdicts_reused, 'verdict')} reused",
    ]
    if counts.proof_builds:
        told.append(f"{counted(counts.proof_builds, 'build')} for proofs")
    if counts.infra:
        told.append(f"{counted(counts.infra, 'probe')} without an answer from this machine")
    return ", ".join(told) + f", {_duration(report.wall_s)}"


def counted(count: int, noun: str) -> str:
    """`count` of a `noun` with a regular plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
