"""Where the nodes of a run had to be computed, and where the runtime's log says that they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisect_bot.model import Demands, Observation, Outcome, Placement
from bisect_bot.verdicts.messages import one_line
from bisect_bot.verdicts.rules import Rules

_NOWHERE = "nothing ran on the GPU"
_SILENT = "not applicable: this build's log does not say where nodes ran"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A demand that was not met (`bad`), or that the run does not tell of (`skip`)."""

    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class _Session:
    """What the log says of one session: one provider for all its nodes, or nodes by operator and provider."""

    all_on: str = ""
    nodes: Mapping[str, Counter[str]] | None = None

    def on(self, operator: str) -> Counter[str]:
        """How many nodes of the type `operator` each provider has, as far as they are listed."""
        return (self.nodes or {}).get(operator, Counter())


def elsewhere(
    observation: Observation, demands: Demands, rules: Rules, counts: Mapping[str, int] | None = None
) -> Elsewhere | None:
    """What a run whose values are right says to the demanded provider; None when it is what was asked for.

    `counts` tells how many nodes of each type the model has; None where nobody knows, as of a script. Nothing is asked
    of a run on another backend than the provider's: that is another question.
    """
    if not demands.provider or observation.backend != demands.provider:
        return None
    if not observation.placements:
        return _without_placements(observation, demands)
    sessions = _sessions(observation.placements)
    if not demands.operators:
        return _all_nodes(sessions, demands, rules)
    wrong: set[str] = set()
    unknown: list[str] = []
    for operator in demands.operators:
        strays, doubt = _placed(operator, sessions, demands, rules, counts)
        wrong |= {f"{operator} on {rules.provider(provider).says}" for provider in strays}
        unknown += [doubt] if doubt and not strays else []
    if wrong:
        return Elsewhere(Outcome.BAD, ", ".join(sorted(wrong)))
    return Elsewhere(Outcome.SKIP, f"not applicable: {'; '.join(sorted(unknown))}") if unknown else None


def _without_placements(observation: Observation, demands: Demands) -> Elsewhere | None:
    if demands.provider == "webgpu" and not observation.dispatches:
        return Elsewhere(Outcome.BAD, _NOWHERE)
    return Elsewhere(Outcome.SKIP, _SILENT) if demands.operators else None


def _all_nodes(sessions: Sequence[_Session], demands: Demands, rules: Rules) -> Elsewhere | None:
    """What `sessions` say where all nodes are demanded to be on the provider."""
    places = {(session.all_on, "all nodes") for session in sessions if session.all_on}
    places |= {
        (provider, operator)
        for session in sessions
        for operator, providers in (session.nodes or {}).items()
        for provider in providers
    }
    strays = {(provider, what) for provider, what in places if not _is_asked(provider, demands, rules)}
    wrong = {f"{what} on {rules.provider(provider).says}" for provider, what in strays}
    return Elsewhere(Outcome.BAD, ", ".join(sorted(wrong))) if wrong else None


def _placed(
    operator: str, sessions: Sequence[_Session], demands: Demands, rules: Rules, counts: Mapping[str, int] | None
) -> tuple[set[str], str]:
    """The providers that have nodes of `operator` and should not, and else why nobody can tell (empty: it is right).

    A session with all nodes on one provider lists none of them: it has the operator for sure where it is a model's, or
    where it is the only place that a script's may be in.
    """
    listed = [session for session in sessions if session.nodes is not None]
    all_on = {session.all_on for session in sessions if session.all_on}
    if counts is not None:
        each = [_in_session(operator, session, demands, rules, counts) for session in listed]
        strays = {provider for found, _ in each for provider in found}
        strays |= {provider for provider in all_on if not _is_asked(provider, demands, rules)}
        return strays, next((doubt for _, doubt in each if doubt), "")
    places = {p for session in listed for name in rules.fitting(operator) for p in session.on(name)}
    if not places and len({_is_asked(provider, demands, rules) for provider in all_on}) > 1:
        return set(), f"the log does not say which session has {operator}"
    places = places or all_on
    strays = {provider for provider in places if not _is_asked(provider, demands, rules)}
    return strays, "" if places else f"the log places no {operator}"


def _in_session(
    operator: str, session: _Session, demands: Demands, rules: Rules, counts: Mapping[str, int]
) -> tuple[set[str], str]:
    """As `_placed`, of one session of a model that has `counts` nodes of each type."""
    strays: set[str] = set()
    doubt = ""
    fitting = rules.fitting(operator)
    for name in fitting:
        nodes = session.on(name)
        # The model may have nodes of that type itself: only what is beyond them is made of the operator for sure.
        own = counts.get(name, 0) if name != operator else 0
        other = Counter({p: n for p, n in nodes.items() if not _is_asked(p, demands, rules)})
        if other.total() > own:
            strays |= other.keys()
        elif other and nodes.total() > own:
            doubt = f"the log does not say which {name} was made of {operator}"
    found = {name: session.on(name).total() for name in fitting}
    if not any(count > (counts.get(name, 0) if name != operator else 0) for name, count in found.items()):
        return strays, doubt or f"the log places no {operator}"
    several = any(name in rules.takes_several and found[name] > counts.get(name, 0) for name in fitting)
    lacking = sum(counts.get(name, 0) for name in fitting) - sum(found.values())
    if lacking > 0 and not several:
        doubt = doubt or f"the log does not say where {lacking} of {counts.get(operator, 0)} {operator} went"
    return strays, doubt


def _sessions(placements: Sequence[Placement]) -> tuple[_Session, ...]:
    """The placements by session, in order.

    The log names each provider once for a session, and one that has all nodes alone.
    """
    sessions: list[_Session] = []
    listed: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for placement in placements:
        if not placement.nodes or placement.provider in seen:
            sessions += [_Session(nodes=listed)] if seen else []
            listed, seen = {}, set()
        if not placement.nodes:
            sessions.append(_Session(all_on=placement.provider))
            continue
        seen.add(placement.provider)
        for node in placement.nodes:
            listed.setdefault(_operator(node), Counter())[placement.provider] += 1
    return (*sessions, *([_Session(nodes=listed)] if seen else []))


def _operator(node: str) -> str:
    """The operator of `OpType (name)`; the type of some inserted nodes is written with its domain."""
    return one_line(node.partition(" (")[0].replace(":", ".").rpartition(".")[2], 80)


def _is_asked(provider: str, demands: Demands, rules: Rules) -> bool:
    return rules.provider(provider).backend == demands.provider
