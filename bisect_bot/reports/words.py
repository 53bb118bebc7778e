"""How a case fails, in words: the kinds of failure, and the step or frame that first went wrong."""

from __future__ import annotations

import re

from bisect_bot.model import Failure, Signature
from bisect_bot.reports.escaping import line, shorten

_KINDS = {
    Failure.MISMATCH: "wrong values",
    Failure.ALL_ZERO: "all zero",
    Failure.CONSTANT: "one value everywhere",
    Failure.NAN: "NaN",
    Failure.ERROR: "an error",
    Failure.KERNEL_ERROR: "a kernel that fails",
    Failure.GPU_ERROR: "a GPU error",
    Failure.DEVICE_LOST: "the GPU device is lost",
    Failure.CRASH: "the page crashes",
    Failure.HANG: "no answer within the time limit",
    Failure.FALLBACK: "it runs elsewhere than where it has to",
}
# What a step of the plan means, by its name (see `probes.operations`), as what came before it and what comes with it.
_STEPS = tuple(
    (re.compile(pattern), before, then)
    for pattern, before, then in (
        (r"frame (\d+)", "good at frame 1", r"{what} from frame \1"),
        (r"run (\d+)", "good in the first run", r"{what} from run \1"),
        (r"created again", "good until the session was created again", "then {what}"),
        (r"created again (\d+)", r"good until the session had been created again \1 times", "then {what}"),
        (r"created again(?: \d+)?, run (\d+)", r"good until run \1 of a session created again", "then {what}"),
        (r"session 1 again", "good until the session ran again beside others of the same model", "then {what}"),
        (r"session (\d+)", "good in the first session", r"{what} in session \1 beside it"),
        (r"other model alive", "good until a session of another model was there too", "then {what}"),
        (r"after other model", "good until a session of another model had come and gone", "then {what}"),
        (r"page (\d+)", "good in the first page", r"{what} in page \1"),
        (r"page (\d+): (.+)", "good in the first page", r"{what} in page \1 (\2)"),
    )
)
_LATER_FRAME = re.compile(r"(.+), (frame \d+)")


def failure_words(signature: Signature) -> str:
    """How a failure looks, with what came before it: `good at frame 1, all zero from frame 13`.

    One line of plain text, not escaped for any markup; the message is not in it.
    """
    what = _KINDS[signature.kind]
    when = shorten(line(signature.when), 120)
    later = _LATER_FRAME.fullmatch(when)
    if later is not None:
        return f"{_since(later[1], what)}, from {later[2]} of that step"
    return _since(when, what) if when else what


def _since(step: str, what: str) -> str:
    for pattern, before, then in _STEPS:
        found = pattern.fullmatch(step)
        if found is not None:
            return f"{found.expand(before)}, {found.expand(then).replace('{what}', what)}"
    return f"good at first, {what} from this step on: {step}"


def told(signature: Signature, limit: int) -> str:
    """How a failure looks and what it says of itself, the message with at most `limit` characters."""
    words, message = failure_words(signature), shorten(line(signature.message), limit)
    return f"{words}: {message}" if message and message != words else words


def step_words(step: str) -> str:
    """The name of a step of the plan; the first has none of its own."""
    return step or "first run"
