"""A report as `report.json`, schema 1 (`docs/report.schema.json`): what other programs read.

All keys of the schema are there for every result. Numbers that JSON does not have are the strings `NaN`,
`Infinity` and `-Infinity`: an element that came out as NaN must stay told from one that is missing (null).
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from bisect_bot.model import (
    Adapter,
    Boundary,
    CellResult,
    Change,
    Comparison,
    Proof,
    Report,
    Result,
    Revision,
    Signature,
    Suspect,
    Target,
    Trial,
)
from bisect_bot.reports.commits import culprits
from bisect_bot.reports.differences import difference_sentences
from bisect_bot.reports.drift import Pass, passes
from bisect_bot.reports.failures import other_failures
from bisect_bot.reports.gitlog import to_gitlog
from bisect_bot.reports.rows import by_cell, other_boundaries, sides
from bisect_bot.reports.sentence import compare_link, headline, hex_id, step_to_go_on, to_go_on
from bisect_bot.reports.values import lowest_cosine, max_abs_err

SCHEMA = 1
_NO_BOUNDARY = (Result.SAME, Result.UNUSABLE)


def to_json(report: Report) -> dict[str, Any]:
    """`report` as an object of schema 1, of plain Python values that any JSON writer takes.

    Text from outside stands in it unchanged but for halves of surrogate pairs, which become U+FFFD.
    """
    first = report.cells[0] if report.cells else None
    cells = by_cell(report)
    value = {
        "schema": SCHEMA,
        "session": report.session,
        "result": report.result.value,
        "sentence": headline(report),
        "reason": report.reason,
        "next": {"step": step_to_go_on(report), "command": command} if (command := to_go_on(report)) else None,
        "direction": first.direction.value if first and first.direction else None,
        "boundary": _boundary(first, report.result),
        "candidates": [_suspect(suspect) for suspect in first.suspects] if first else [],
        "cases": [{**_answer(answer), **_others(report, answer)} for answer in report.cells],
        "targets": [_target(target) for target in report.targets],
        "revisions": [_revision(revision) for revision in report.revisions],
        "matrix": [_trial(trial) for trial in report.trials],
        "proofs": [_proof(proof) for proof in report.proofs],
        "counts": asdict(report.counts),
        "culprit": asdict(report.culprit) if report.culprit else None,
        "culprits": [
            {**asdict(each.culprit), "direction": effect.direction.value, "cases": [_cell(c) for c in effect.cells]}
            for each in culprits(report)
            for effect in each.effects
        ],
        "ends": [_revision(revision) for revision in report.ends] if report.ends else None,
        "confidence": first.confidence if first else None,
        "other_boundaries": [
            {**_cell(answer), **_pair(boundary)} for answer, own in cells for boundary in other_boundaries(own, answer)
        ],
        "other_failures": [
            {
                **_cell(answer),
                "revision": other.trial.revision,
                "verdict": other.trial.verdict.outcome.value,
                "signature": _signature(other.signature),
                "reason": other.trial.verdict.reason,
                "times": other.times,
            }
            for answer, own in cells
            for other in other_failures(own, answer)
        ],
        "warnings": list(report.warnings),
        "differences": list(difference_sentences(report)),
        "reference": {"onnxruntime": dict(report.environment).get("onnxruntime"), "expected": report.reference},
        "wall_s": report.wall_s,
        "environment": dict(report.environment),
        "reproduce": report.reproduce,
        "git_bisect_log": to_gitlog(report),
    }
    made: dict[str, Any] = plain(value)
    return made


def dumps(report: Report) -> str:
    """`report` as the text of `report.json`: ASCII, so that no byte of it acts on a terminal that shows it."""
    return json.dumps(to_json(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _boundary(answer: CellResult | None, result: Result) -> dict[str, Any] | None:
    if answer is None or answer.boundary is None or result in _NO_BOUNDARY:
        return None
    old, new = sides(answer.direction)
    return {**_pair(answer.boundary), "old": old, "new": new, "compare": compare_link(answer.boundary)}


def _pair(boundary: Boundary) -> dict[str, Any]:
    return {"last_old": _revision(boundary.last_old), "first_new": _revision(boundary.first_new)}


def _revision(revision: Revision) -> dict[str, Any]:
    commit = hex_id(revision.commit)
    full = commit if commit and len(commit) == 40 else None
    return {
        "id": revision.id,
        "commit": full,
        "commit_prefix": None if full else commit,
        "version": revision.version,
        "date": revision.date.isoformat() if revision.date else None,
        "title": revision.title,
        "on_main": revision.on_main,
        "main_ancestor": hex_id(revision.main_ancestor),
    }


def _suspect(suspect: Suspect) -> dict[str, Any]:
    revisions = [_revision(revision) for revision in suspect.revisions]
    return {
        # A published build stands for all commits since the build before it, which nobody has listed.
        "commits": [r["commit"] for r in revisions if r["commit"] and not r["version"]],
        "revisions": [revision["id"] for revision in revisions],
        "probability": suspect.probability,
        "skipped": suspect.skipped,
    }


def _cell(answer: CellResult) -> dict[str, Any]:
    return {"case": answer.cell.case, "target": answer.cell.target, "backend": answer.cell.backend}


def _answer(answer: CellResult) -> dict[str, Any]:
    return {
        "name": answer.cell.case,
        "target": answer.cell.target,
        "backend": answer.cell.backend,
        "result": answer.result.value,
        "direction": answer.direction.value if answer.direction else None,
        "signature": _signature(answer.signature),
        "boundary": _boundary(answer, answer.result),
        "candidates": [_suspect(suspect) for suspect in answer.suspects],
        "confidence": answer.confidence,
        "note": answer.note,
    }


def _others(report: Report, answer: CellResult) -> dict[str, Any]:
    """The further changes, left out where they were not searched for."""
    return {"other_changes": [_change(change) for change in answer.others]} if report.all_boundaries else {}


def _change(change: Change) -> dict[str, Any]:
    return {
        **_answer(change.answer),
        "between": _pair(change.between),
        "culprit": asdict(change.culprit) if change.culprit else None,
        "proofs": [_proof(proof) for proof in change.proofs],
    }


def _signature(signature: Signature | None) -> dict[str, Any] | None:
    if signature is None:
        return None
    return {
        "kind": signature.kind.value,
        "case": signature.case,
        "message": signature.message,
        "when": signature.when,
    }


def _proof(proof: Proof) -> dict[str, Any]:
    """A proof with the case that it was made with (None: not told) and the commit that it is of."""
    own = {"case": proof.cell.case, "target": proof.cell.target, "backend": proof.cell.backend} if proof.cell else {}
    told = {"kind": proof.kind, "held": proof.held, "reason": proof.reason, "runs": proof.runs, "commit": proof.commit}
    return {**told, **dict.fromkeys(("case", "target", "backend")), **own}


def _target(target: Target) -> dict[str, Any]:
    # The path of the executable stays out: it names the user, and reports are pasted in public.
    return {
        "name": target.name,
        "version": target.version,
        "platform": target.platform,
        "flags": target.flags,
        "extra_args": list(target.extra_args),
        "wish": target.wish,
        "adapter": _adapter(target.adapter),
    }


def _adapter(adapter: Adapter | None) -> dict[str, Any] | None:
    return asdict(adapter) if adapter else None


def _trial(trial: Trial) -> dict[str, Any]:
    verdict = trial.verdict
    return {
        "revision": trial.revision,
        "target": trial.cell.target,
        "case": trial.cell.case,
        "backend": trial.cell.backend,
        "verdict": verdict.outcome.value,
        "reason": verdict.reason,
        "signature": _signature(verdict.signature),
        "provider": verdict.provider,
        "ran_on": verdict.ran_on,
        "dispatches": trial.dispatches,
        "bundle": trial.bundle or None,
        "artifact": trial.artifact or None,
        "adapter": _adapter(trial.adapter),
        "approximate": list(trial.approximate),
        "wasm": trial.wasm or None,
        "max_abs_err": max_abs_err(trial),
        "cosine": lowest_cosine(trial),
        "foreground": [_foreground(c, c.foreground) for c in verdict.comparisons if c.foreground is not None],
        "steps": [_pass(each) for each in passes(trial)],
        "first_mismatch": _first_mismatch(verdict.comparisons),
        "attempt": trial.attempt,
        "purpose": trial.purpose,
        "reused": trial.reused,
        "asked_providers": [list(providers) for providers in trial.providers],
        "log": list(trial.log),
    }


def _pass(one: Pass) -> dict[str, Any]:
    return {
        "step": one.step,
        "data_set": one.data_set,
        "matches": one.matches,
        "max_abs_err": one.error,
        "cosine": one.cosine,
        "odd": one.odd,
    }


def _foreground(comparison: Comparison, shares: tuple[float, float]) -> dict[str, Any]:
    return {
        "step": comparison.step,
        "data_set": comparison.data_set,
        "output": comparison.output,
        "actual": shares[0],
        "expected": shares[1],
    }


def _first_mismatch(comparisons: tuple[Comparison, ...]) -> dict[str, Any] | None:
    for comparison in comparisons:
        for mismatch in comparison.first[:1]:
            return {
                "data_set": comparison.data_set,
                "output": comparison.output,
                "index": list(mismatch.index),
                "actual": mismatch.actual,
                "expected": mismatch.expected,
            }
    return None


def plain(value: Any) -> Any:
    """`value` without what JSON or UTF-8 cannot hold: numpy scalars, tuples, NaN, infinities, lone surrogates."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
