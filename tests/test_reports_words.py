"""How a case fails, in words that say what came before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot.model import Case, CaseKind, Failure, Plan, Signature
from bisect_bot.probes.operations import operations, step_in_page
from bisect_bot.reports.words import failure_words, told
from tests.test_reports_samples import HOSTILE


@pytest.mark.parametrize(
    ("kind", "when", "words"),
    [
        (Failure.MISMATCH, "", "wrong values"),
        (Failure.ALL_ZERO, "frame 13", "good at frame 1, all zero from frame 13"),
        (Failure.NAN, "run 2", "good in the first run, NaN from run 2"),
        (Failure.CONSTANT, "created again", "good until the session was created again, then one value everywhere"),
        (
            Failure.HANG,
            "session 2",
            "good in the first session, no answer within the time limit in session 2 beside it",
        ),
        (Failure.CRASH, "page 2: run 3", "good in the first page, the page crashes in page 2 (run 3)"),
        (
            Failure.DEVICE_LOST,
            "created again, frame 4",
            "good until the session was created again, then the GPU device is lost, from frame 4 of that step",
        ),
        (Failure.ERROR, "somewhere new", "good at first, an error from this step on: somewhere new"),
    ],
)
def test_a_failure_is_told_with_what_came_before_it(kind: Failure, when: str, words: str) -> None:
    assert failure_words(Signature(kind, "case", "message", when)) == words


def test_every_kind_of_failure_and_every_step_of_a_plan_has_words() -> None:
    assert all(failure_words(Signature(kind, "case", "")) for kind in Failure)
    other = Case("other", "sha256:0", Path("other"), (), "files", CaseKind.MODEL)
    plan = Plan(runs=3, recreate=2, sessions=3, between=other)
    steps = {each.step for each in operations(plan)} - {""}
    for step in steps | {step_in_page(step, 2) for step in steps}:
        assert "from this step on" not in failure_words(Signature(Failure.NAN, "case", "", step))


def test_a_message_follows_in_one_short_line() -> None:
    assert told(Signature(Failure.ERROR, "case", "a\nb"), 80) == "an error: a b"
    assert len(told(Signature(Failure.ERROR, "case", "m" * 10_000, HOSTILE * 20), 80)) < 300
    assert "\x1b" not in told(Signature(Failure.ERROR, "case", HOSTILE, HOSTILE), 80)
