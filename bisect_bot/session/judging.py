"""How a session judges: the configured rules, with what its request demands of its cases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from json import dumps

from bisect_bot.cases.operators import computes_in_half, operator_counts, operators
from bisect_bot.model import Case, CaseKind, Demands, Observation, Request, Verdict
from bisect_bot.verdicts import Facts, Rules, Tolerances, check_demands, judge, narrowed, parse_demands
from bisect_bot.verdicts.scripts import judge_script
from bisect_bot.verdicts.told import judge_told

# The driver that judges by itself: its own word is what there is.
UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Judging:
    """`judge` gives the verdict on an observation of a case; `digest` covers all that it goes by."""

    judge: Callable[[Observation, Case], Verdict]
    digest: str


def check_demands_of(request: Request, cases: Sequence[Case], rules: Rules) -> None:
    """Raises UsageError when `request` demands what says nothing, or what none of `cases` can meet."""
    demands = parse_demands(request.require_provider, request.foreground, rules)
    check_demands(demands, request.backends, [_facts(case) for case in cases])


def judging(request: Request, cases: Sequence[Case], tolerances: Tolerances, rules: Rules, digest: str) -> Judging:
    """How observations of `cases` are judged for `request`; `digest` is that of `tolerances` and `rules`.

    Nothing is demanded of other cases, such as the smoke case, and of a case only what concerns it. Raises UsageError
    for demands that say nothing.
    """
    demands = parse_demands(request.require_provider, request.foreground, rules)
    facts = {case.model: _facts(case) for case in cases}
    asked = {model: narrowed(demands, each) for model, each in facts.items()}
    exact = {case.model: tolerances.for_half() if computes_in_half(case) else tolerances for case in cases}
    counts = {case.model: operator_counts(case) for case in cases} if demands.operators else {}

    def judged(observation: Observation, case: Case) -> Verdict:
        # A case whose expected outputs were replaced keeps its model.
        mine = asked.get(case.model, Demands())

        def by_rules(seen: Observation) -> Verdict:
            return judge(seen, case, exact.get(case.model, tolerances), rules, mine, counts.get(case.model))

        if request.driver == UPSTREAM:
            return judge_told(observation, case, exact.get(case.model, tolerances), rules)
        if case.kind is CaseKind.SCRIPT:
            return judge_script(observation, case, rules, by_rules)
        return by_rules(observation)

    if demands != Demands():
        digest = hashlib.sha256(f"{digest} {dumps(asdict(demands), sort_keys=True)}".encode()).hexdigest()
    return Judging(judged, digest)


def _facts(case: Case) -> Facts:
    outputs = frozenset(tensor.name for data_set in case.data_sets for tensor in data_set.expected)
    return Facts(outputs, operators(case))
