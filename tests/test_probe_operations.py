"""What a page says of a plan, held against the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisect_bot.model import Ending, Observation, PageError, Placement, Plan, Stage, Step
from bisect_bot.probes.operations import merge_pages, whole

PLAN = Plan(runs=2, recreate=1)
NAMES = ("", "run 2", "created again", "created again, run 2")


def seen(names: tuple[str, ...], ending: Ending = Ending.COMPLETED) -> Observation:
    return Observation("c", "sha256:0", "ort.mjs", "wasm", ending, tuple(Step(name) for name in names))


def test_a_page_that_ran_its_plan_is_taken_at_its_word() -> None:
    for plan, names in ((PLAN, NAMES), (Plan(), ("",)), (Plan(sessions=2), ("", "session 2", "session 1 again"))):
        assert whole(seen(names), plan) == seen(names)


@pytest.mark.parametrize("names", [(), NAMES[:1], NAMES[:3], NAMES[1:], (*NAMES, "run 3"), NAMES[::-1]])
def test_a_page_that_is_done_before_its_plan_is_says_nothing_of_the_build(names: tuple[str, ...]) -> None:
    found = whole(seen(names), PLAN)
    assert (found.ending, found.errors[0].stage) == (Ending.HARNESS, Stage.HARNESS)
    assert found.errors[0].message == f"the page says it is done after {len(names)} of 4 steps"


def test_an_error_ends_a_plan_early() -> None:
    failed = replace(seen(NAMES[:1], Ending.ERROR), errors=(PageError(Stage.RUN, "kernel failed", step="run 2"),))
    assert whole(failed, PLAN) == failed


def test_placements_are_those_of_whole_pages() -> None:
    """A provider that has the same nodes in both pages is in both."""
    cpu = Placement("CPUExecutionProvider", ("Shape (s)",))
    first, second = (Placement("JsExecutionProvider", (f"Conv ({name})",)) for name in "ab")
    pages = [replace(seen(("",)), placements=(cpu, each)) for each in (first, second, second)]
    assert merge_pages(pages).placements == (cpu, first, cpu, second)
