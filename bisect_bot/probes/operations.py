"""What a page does with one case, spelt out: a plan as a list of operations. Pure: `web/page.js` executes it.

An operation is `(what, session, step)`. `what` is `create`, `run` (all data sets of the case, in order) or `release`;
`session` names one of those that are alive; `step` is the step that the operation belongs to, which is what users
read. A step begins with its first operation, so an error while a session is created anew is of the step whose run
that session was for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bisect_bot.model import Ending, Observation, PageError, Plan, Stage, Step

CREATE, RUN, RELEASE = "create", "run", "release"
OWN, OTHER = "1", "other"
"""The case's first session, and the one of the model that comes in between."""
OTHER_ALIVE, AFTER_OTHER = "other model alive", "after other model"
KEPT_CONSOLE_LINES = 200


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that the page does."""

    what: str
    session: str
    step: str


def operations(plan: Plan) -> tuple[Operation, ...]:
    """The operations of `plan` in one page, in this order, each part starting from what the one before left:

    1. the session is created and run `runs` times: ``, `run 2`, …
    2. `recreate` times, it is released, created anew and run as often: `created again`, `created again, run 2`, …,
       `created again 2`, …
    3. further sessions of the same model are created, each run once while those before are alive: `session 2`, …;
       then the first is run: `session 1 again`; the further ones are released.
    4. the other case's model is created and run; ours is run beside it: `other model alive`; the other is released
       and ours run again: `after other model`.

    All sessions are released at the end. `fresh_pages` repeats the whole in other pages (see `merge_pages`).
    """
    made = [Operation(CREATE, OWN, "")]
    made += [Operation(RUN, OWN, _run("", number)) for number in range(1, plan.runs + 1)]
    for again in range(1, plan.recreate + 1):
        step = "created again" if again == 1 else f"created again {again}"
        made += [Operation(RELEASE, OWN, step), Operation(CREATE, OWN, step)]
        made += [Operation(RUN, OWN, _run(step, number)) for number in range(1, plan.runs + 1)]
    further = [str(number) for number in range(2, plan.sessions + 1)]
    for session in further:
        made += [Operation(what, session, f"session {session}") for what in (CREATE, RUN)]
    if further:
        made += [Operation(RUN, OWN, "session 1 again")]
        made += [Operation(RELEASE, session, "session 1 again") for session in further]
    if plan.between is not None:
        made += [Operation(what, OTHER, OTHER_ALIVE) for what in (CREATE, RUN)]
        made += [Operation(RUN, OWN, OTHER_ALIVE)]
        made += [Operation(RELEASE, OTHER, AFTER_OTHER), Operation(RUN, OWN, AFTER_OTHER)]
    return (*made, Operation(RELEASE, OWN, made[-1].step))


def _run(step: str, number: int) -> str:
    words = [step] if step else []
    return ", ".join([*words, f"run {number}"] if number > 1 else words)


def step_in_page(step: str, page: int) -> str:
    """The name of `step` in the how-manyeth page of a probe: `page 2: run 2`, and `page 2` for its first step."""
    if page == 1:
        return step
    return f"page {page}: {step}" if step else f"page {page}"


def merge_pages(pages: list[Observation]) -> Observation:
    """One observation of what the same case did in one page after the other.

    It ends as the last page did; placements are those of all pages. Steps and errors are named after their page.
    """
    if len(pages) == 1:
        return pages[0]
    numbered = list(enumerate(pages, start=1))
    return replace(
        pages[-1],
        steps=tuple(replace(s, name=step_in_page(s.name, n)) for n, page in numbered for s in page.steps),
        times_ms=tuple(time for page in pages for time in page.times_ms),
        console=tuple(line for page in pages for line in page.console)[-KEPT_CONSOLE_LINES:],
        # The error that ended the last page comes first: it is what is judged.
        errors=tuple(_error_in_page(e, n) for n, page in reversed(numbered) for e in page.errors),
        gpu_errors=tuple(text for page in pages for text in page.gpu_errors),
        dispatches=sum(page.dispatches for page in pages),
        placements=tuple(each for placed in dict.fromkeys(page.placements for page in pages) for each in placed),
    )


def whole(observation: Observation, plan: Plan) -> Observation:
    """`observation` of one page. One that was completed without each step of `plan` says nothing of its build."""
    wanted = [each.step for each in operations(plan) if each.what == RUN and each.session != OTHER]
    came = [step.name for step in observation.steps]
    if observation.ending is not Ending.COMPLETED or came == wanted:
        return observation
    error = PageError(Stage.HARNESS, f"the page says it is done after {len(came)} of {len(wanted)} steps")
    return replace(observation, ending=Ending.HARNESS, errors=(error, *observation.errors))


def _error_in_page(error: PageError, page: int) -> PageError:
    return replace(error, step=step_in_page(error.step, page))


def began(steps: tuple[Step, ...], step: str) -> tuple[Step, ...]:
    """`steps` with `step`, which was begun and never finished, at the end."""
    return steps if steps and steps[-1].name == step else (*steps, Step(step))
