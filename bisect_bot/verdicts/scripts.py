"""What is different in judging a script: which outputs are compared, how, and where it ran.

A script that throws is bad, as a model that fails is. Of what it gives, that is compared which `expected.json` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bisect_bot.model import Case, Ending, Observation, Outcome, Signature, Verdict
from bisect_bot.verdicts.messages import one_line
from bisect_bot.verdicts.rules import Rules

OUT_OF_MEMORY = "out of memory"
"""How the probe begins to say that a script took more memory than it may."""
_WEBGPU, _WASM, _WEBGL = "webgpu", "wasm", "webgl"


def judge_script(
    observation: Observation, case: Case, rules: Rules, judge: Callable[[Observation], Verdict]
) -> Verdict:
    """The verdict on `observation` of the script `case`; `judge` judges what it is given as it does a model's.

    `provider` and `ran_on` of the verdict are what really ran, as far as anything tells.
    """
    verdict = judge(only_expected(observation, case))
    ran = really_ran(observation, rules)
    reason, signature = verdict.reason, verdict.signature
    if verdict.outcome is Outcome.GOOD and not case.data_sets:
        reason = "ran to its end" + ("" if observation.providers else ", without creating a session")
    if signature and observation.errors and observation.errors[0].message.startswith(OUT_OF_MEMORY):
        reason = one_line(observation.errors[0].message)
        signature = Signature(signature.kind, signature.case, OUT_OF_MEMORY, signature.when)
    if verdict.outcome in (Outcome.GOOD, Outcome.BAD) and is_open(observation.providers):
        reason = f"{reason}; asked for {asked_for(observation.providers)}: {what_ran(ran)}"
    if verdict.provider is None:  # neither good nor bad
        return replace(verdict, reason=reason)
    return replace(
        verdict, reason=reason, signature=signature, provider=", ".join(ran) or None, ran_on=_place(frozenset(ran))
    )


def really_ran(observation: Observation, rules: Rules) -> tuple[str, ...]:
    """The backends that computed for a script, by name; empty where nothing tells, or no session was created.

    Where the runtime's log places nodes, it decides, together with GPU dispatches. Where it does not, dispatches do,
    and without any it was another of the providers that were asked for, if the script came to its end at all.
    """
    placed = (rules.provider(placement.provider).backend for placement in observation.placements)
    ran = dict.fromkeys(backend for backend in placed if backend)
    if observation.dispatches and observation.providers:
        ran[_WEBGPU] = None
    if ran or not observation.providers or observation.ending is not Ending.COMPLETED:
        return tuple(ran)
    names = {_WASM if name == "cpu" else name for asked in observation.providers for name in asked}
    # Nothing was placed and nothing dispatched: the CPU it was, unless WebGL, which tells nobody, was asked for too.
    if not names or (_WEBGL in names and len(names) > 1):
        return ()
    return (_WEBGL,) if _WEBGL in names else (_WASM,)


def is_open(providers: Iterable[tuple[str, ...]]) -> bool:
    """Whether any of the provider lists leaves it to the runtime what runs."""
    return any(len(asked) != 1 for asked in providers)


def asked_for(providers: Iterable[tuple[str, ...]]) -> str:
    """The provider lists in words, each once: `webgpu, wasm`; `no provider` for a list without names."""
    return " and ".join(dict.fromkeys(one_line(", ".join(asked), 80) or "no provider" for asked in providers))


def what_ran(ran: Iterable[str]) -> str:
    """What ran in words: `webgpu and wasm ran`, `nothing tells what ran`."""
    return f"{' and '.join(ran) or 'nothing tells what'} ran"


def only_expected(observation: Observation, case: Case) -> Observation:
    """`observation` with those outputs alone that the script `case` expects."""
    expected = {tensor.name for data_set in case.data_sets for tensor in data_set.expected}
    steps = tuple(
        replace(
            step,
            outputs=tuple(
                tuple(tensor for tensor in outputs if tensor.name in expected)
                for outputs in step.outputs[: len(case.data_sets)]
            ),
        )
        for step in observation.steps
    )
    return replace(observation, steps=steps)


def _place(ran: frozenset[str]) -> str | None:
    if not ran:
        return None
    if _WASM not in ran:
        return "gpu"
    return "cpu" if len(ran) == 1 else "mixed"
