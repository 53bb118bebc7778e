"""Failures that were met on the way to the answer and are not the one that was searched for."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.model import CellResult, Failure, Outcome, Report, Signature, Trial


@dataclass(frozen=True, slots=True)
class OtherFailure:
    """One revision that failed in another way: `trial` is the first that showed it, `times` how many did."""

    trial: Trial
    signature: Signature
    times: int


@dataclass(frozen=True, slots=True)
class OtherKind:
    """One other way to fail, with the revisions that met it and how often, in the order of their trials."""

    signature: Signature
    reason: str
    seen: tuple[tuple[str, int], ...]


def other_failures(report: Report, answer: CellResult) -> tuple[OtherFailure, ...]:
    """Each revision with each way in which it failed that is not the one searched for, in the order of the trials."""
    found: dict[tuple[str, Failure, str, str], list[Trial]] = {}
    for trial in report.trials:
        mine = trial.verdict.signature
        if trial.cell == answer.cell and mine is not None and _is_other(trial, mine, answer):
            found.setdefault((trial.revision, mine.kind, mine.message, mine.when), []).append(trial)
    return tuple(
        OtherFailure(trials[0], signature, len(trials))
        for trials in found.values()
        if (signature := trials[0].verdict.signature) is not None
    )


def other_kinds(report: Report, answer: CellResult) -> tuple[OtherKind, ...]:
    """The same by the way of failing: what a reader wants to know first."""
    found: dict[tuple[Failure, str, str], list[OtherFailure]] = {}
    for other in other_failures(report, answer):
        mine = other.signature
        found.setdefault((mine.kind, mine.message, mine.when), []).append(other)
    return tuple(
        OtherKind(
            others[0].signature,
            others[0].trial.verdict.reason,
            tuple((other.trial.revision, other.times) for other in others),
        )
        for others in found.values()
    )


def _is_other(trial: Trial, mine: Signature, answer: CellResult) -> bool:
    if trial.verdict.outcome is Outcome.INFRA:
        return False
    if answer.signature is None:
        return trial.verdict.outcome is not Outcome.BAD
    return answer.is_other(mine)
