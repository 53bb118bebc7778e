"""Numbers and counts in words, the same in every medium. Nothing here is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    if comparison.cosine is not None:
        told.append(f"cosine similarity {number(comparison.cosine, 4)}")
    if comparison.foreground is not None:
        told.append(f"foreground {foreground(comparison.foreground)}")
    if len(comparison.channels) > 1:
        told.append(f"largest error by channel: {worst_channels(comparison.channels)}")
    return "; ".join(told)


def foreground(shares: tuple[float, float]) -> str:
    """The share of elements above the watched threshold, actual and expected, in percent."""
    actual, expected = (number(100 * share, 3) for share in shares)
    return f"{actual} % (expected {expected} %)"


def worst_channels(channels: tuple[float, ...], most: int = 3) -> str:
    """The `most` channels with the largest errors, by index, and over how many there are."""
    order = sorted(range(len(channels)), key=lambda i: (-_size(channels[i]), i))[:most]
    said = ", ".join(f"{i}: {number(channels[i], 3)}" for i in order)
    return f"{said} (of {len(channels)})"


def lowest_cosine(trial: Trial) -> float | None:
    """The lowest similarity of an output to what was expected; None where none was computed."""
    return min((c.cosine for c in trial.verdict.comparisons if c.cosine is not None), default=None)


def _size(error: float) -> float:
    """`error` for sorting: what is not a number is worse than any."""
    return math.inf if math.isnan(error) else error


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


def times(count: int) -> str:
    """How often something was seen, as an addition to its name; nothing for once."""
    return f" ({count}×)" if count > 1 else ""


def short_list(items: Sequence[str], most: int) -> str:
    """`items` in one line, those after the first `most` only counted."""
    left = len(items) - most
    return ", ".join(items[:most]) + (f" and {left} more" if left > 0 else "")


def counted(count: int, noun: str) -> str:
    """`count` of a `noun` with a regular plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
