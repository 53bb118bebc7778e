"""Answers "what does this revision do?": from the journal where that is known, else by a build and a probe.

Everything that touches the outside (npm, the disk, a browser, the clock) is called from here, and each answer is
in the journal before anybody uses it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from bisect_bot.errors import BuildFailed, BuildUnusable, NoBrowser, UnknownRevision
from bisect_bot.model import (
    Artifact,
    Bundle,
    Case,
    Observation,
    Outcome,
    Plan,
    Request,
    Revision,
    Trial,
    Verdict,
)
from bisect_bot.probes import Limits, Probe
from bisect_bot.reports.values import counted
from bisect_bot.search import Prices
from bisect_bot.session.against import Answer, Compared, References
from bisect_bot.session.keys import probe_keys
from bisect_bot.session.ledger import Ledger
from bisect_bot.session.logs import last_lines
from bisect_bot.session.smoke import after_smoke, may_be_misfit, parts_do_not_fit, smoke_backends, worst_smoke
from bisect_bot.session.spending import Spending
from bisect_bot.session.tools import Tools
from bisect_bot.session.unanswered import unanswered
from bisect_bot.session.units import Unit, id_of
from bisect_bot.session.violence import if_repeated, violence_of
from bisect_bot.verdicts import JUDGE_VERSION

TRIES = 3
REMARKS = "remarks"


@dataclass(slots=True)
class Bench:
    """The bench of one session.

    `good` is the good end, where there is one, `plan` how often each case is run. `trials` are all answers in their
    order that still stand. `ledgers` hold what waits for a control, `remarks` what the report has to mention, and
    `spending` what the session has cost.
    """

    session: str
    request: Request
    cases: tuple[Case, ...]
    smoke: Case
    tools: Tools
    good: Revision | None = None
    plan: Plan = field(default_factory=Plan)
    trials: list[Trial] = field(default_factory=list)
    ledgers: defaultdict[Unit, Ledger] = field(default_factory=lambda: defaultdict(Ledger))
    remarks: list[str] = field(default_factory=list)
    _intact: set[str] = field(default_factory=set)
    _misfits: set[str] = field(default_factory=set)
    spending: Spending = field(init=False)
    _references: References = field(init=False)

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        assert len(set(names)) == len(names), f"a cell is known by its case's name: {names}"
        self.spending = Spending.of(self.tools.journal, self.session)
        self._references = References(self.request.against, self.good, self)
        self.remarks = list(self.tools.journal.remembered(REMARKS, self.session) or ())

    @property
    def tally(self) -> Counter[str]:
        """What was done in this session, counted by name."""
        return self.spending.tally

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """One more answer of `revision` for every case, in the order of the cases.

        The n-th question is answered by the n-th verdict that the journal holds for exactly this artifact,
        browser and cases, so a repeated question is a fresh test the first time and recalled ever after.
        Raises MachineError (NoAdapter, NoBrowser, …) when this machine cannot answer.
        """
        attempt = self._next_attempt(revision, unit)
        try:
            compared = self._references.compare(revision, unit, self.probe_of(revision, unit))
            recalled = self.recall(compared.probe, attempt)
            if recalled is None:
                compared = self._ready(revision, unit, compared)
            answers = recalled or self.answer(revision, unit, compared.probe, attempt, purpose)
        except BuildUnusable as error:
            verdict = Verdict(Outcome.SKIP, f"no artifact: {error}")
            return self._add(Trial(revision.id, unit.cell(c), attempt, verdict, purpose=purpose) for c in self.cases)
        probe = compared.probe
        misfit = recalled is None and probe.artifact.digest in self._misfits
        if misfit and self.tools.other_parts(revision):
            return self.test(revision, unit, purpose)
        self.tally["verdicts_reused"] += self._of_others(probe, attempt) if recalled else 0
        lent, lacking = self.tools.lent(revision)
        answers = [(seen, compared.overruled.get(i, verdict)) for i, (seen, verdict) in enumerate(answers)]
        if misfit and lent:
            answers = [(seen, parts_do_not_fit(verdict, lent)) for seen, verdict in answers]
        trials = self._add(
            Trial(
                revision=revision.id,
                cell=unit.cell(case),
                attempt=attempt,
                verdict=verdict,
                artifact=probe.artifact.digest,
                bundle=probe.bundle.file,
                dispatches=observation.dispatches,
                adapter=observation.adapter,
                purpose=purpose,
                reused=recalled is not None,
                log=last_lines(observation, verdict),
                providers=observation.providers,
                wasm=lent,
                approximate=lacking,
            )
            for case, (observation, verdict) in zip(self.cases, answers, strict=True)
        )
        self._note(revision, unit, probe, trials)
        return trials

    def settle(self, unit: Unit, *, healthy: bool) -> tuple[Trial, ...]:
        """What a control on `unit` means for the answers that waited for it: they are confirmed, or void.

        Void ones are never recalled, and asked again when their question is. Returns those.
        """
        ledger = self.ledgers[unit]
        self.tools.journal.settle(ledger.places, healthy=healthy)
        void = () if healthy else tuple(ledger.trials)
        if not healthy:
            self._references.clear()
        ledger.clear()
        self.forget(void)
        return void

    def remark(self, text: str) -> None:
        """Keeps a sentence for the report, also for that of the session when it is taken up again."""
        self.remarks.append(text)
        self.tools.journal.remember(REMARKS, self.session, self.remarks)

    def forget(self, trials: Iterable[Trial]) -> None:
        """Takes back `trials`: their questions are open again."""
        gone = {id_of(trial) for trial in trials}
        self.trials = [trial for trial in self.trials if id_of(trial) not in gone]
        self.tally["voided"] += len(gone)

    def _next_attempt(self, revision: Revision, unit: Unit) -> int:
        asked = {t.attempt for t in self.trials if t.revision == revision.id and unit.holds(t.cell)}
        return next(number for number in itertools.count(1) if number not in asked)

    def probe_of(self, revision: Revision, unit: Unit) -> Probe:
        """The probe of all cases with the build of `revision`. Raises BuildUnusable."""
        artifact = self.artifact(revision)
        bundle = self.bundle_for(revision, unit.backend)
        limits = Limits(self.request.case_timeout_s, self.request.probe_timeout_s)
        return Probe(
            artifact=artifact,
            bundle=bundle,
            target=unit.target,
            backend=unit.backend,
            cases=self.cases,
            isolate=self.request.isolate,
            limits=limits,
            plan=self.plan,
        )

    def prices(self) -> Prices:
        """What a build and a probe cost here, in seconds: as measured in this session, else the usual."""
        return self.spending.prices()

    def has_built(self, revision: Revision) -> bool:
        """Whether the artifact of `revision` was had in this session, or cannot be had."""
        return self.spending.has_tried(revision)

    def bundle_for(self, revision: Revision, backend: str) -> Bundle:
        """The file that a page loads of `revision` for `backend`. Raises BuildUnusable."""
        return self.tools.bundle_for(revision, backend)

    def keys(self, probe: Probe) -> tuple[str, ...]:
        """The journal's key of each case of `probe`."""
        return probe_keys(probe, self.tools.rules)

    def _ready(self, revision: Revision, unit: Unit, compared: Compared) -> Compared:
        """`compared` as it can be run: with a build that is not damaged, and expected outputs that are all there."""
        if not self._is_intact(revision, compared.probe.artifact):
            compared = replace(compared, probe=replace(compared.probe, artifact=self._fetch(revision)[0]))
        if compared.is_whole:
            return compared
        return self._references.compare(revision, unit, replace(compared.probe, cases=self.cases), afresh=True)

    def _note(self, revision: Revision, unit: Unit, probe: Probe, trials: Sequence[Trial]) -> None:
        """Writes into the ledger what no control has confirmed yet."""
        ledger = self.ledgers[unit]
        if any(t.verdict.outcome in (Outcome.GOOD, Outcome.BAD) for t in trials):
            ledger.pin(revision.id, probe)
        due = self.tools.journal.due((key, trials[0].attempt) for key in self.keys(probe))
        if due or not trials[0].reused:
            ledger.add(due, trials)

    def _add(self, trials: Iterable[Trial]) -> tuple[Trial, ...]:
        added = tuple(trials)
        for trial in added:
            self.trials.append(trial)
            self.tools.watcher.tried(trial)
        return added

    def artifact(self, revision: Revision) -> Artifact:
        """The artifact of `revision`, from the cache or made now; counted once. Raises BuildUnusable, MachineError.

        A build that failed for good in this session is not tried again.
        """
        self.spending.refuse_failed(revision)
        begin = time.monotonic()
        try:
            artifact, reused = self._fetch(revision)
        except BuildFailed as error:
            self.spending.note_failed(revision, error, time.monotonic() - begin)
            raise
        seconds = max(time.monotonic() - begin, self.tools.took(revision))
        self.spending.note_built(revision, artifact, seconds, reused=reused)
        return artifact

    def _fetch(self, revision: Revision) -> tuple[Artifact, bool]:
        """The artifact of `revision`; a build that the registry lists but no longer serves cannot answer."""
        try:
            return self.tools.fetch(revision)
        except UnknownRevision as error:
            raise BuildUnusable(str(error)) from error

    def _is_intact(self, revision: Revision, artifact: Artifact) -> bool:
        """Whether the artifact may be tested; looked at once in a session."""
        if artifact.digest not in self._intact and not self.tools.is_intact(artifact):
            self.tools.watcher.say(f"{revision.id} was damaged in the cache; fetching it again")
            return False
        self._intact.add(artifact.digest)
        return True

    def _of_others(self, probe: Probe, attempt: int) -> int:
        """How many recalled answers of that attempt are another session's: those of this one were tested by it."""
        owners = [self.tools.journal.recorded_by(key, attempt) for key in self.keys(probe)]
        return sum(owner != self.session for owner in owners)

    def recall(self, probe: Probe, attempt: int) -> list[Answer] | None:
        """The answers of that attempt, or None when one is missing."""
        pairs = zip(self.keys(probe), probe.cases, strict=True)
        answers = [self.recall_one(key, case, attempt) for key, case in pairs]
        found = [answer for answer in answers if answer is not None]
        return found if len(found) == len(answers) else None

    def recall_one(self, key: str, case: Case, attempt: int) -> Answer | None:
        """What the journal knows of one case: seen by this session, or confirmed by a control in another."""
        self.tools.journal.take_back(self.session, [(key, attempt)])
        found = self.tools.journal.recall(key, attempt)
        return (found[0], _named(found[1], case)) if found else None

    def answer(self, revision: Revision, unit: Unit, probe: Probe, attempt: int | None, purpose: str) -> list[Answer]:
        """Runs `probe` until every case has an answer that may be believed, and journals each."""
        keys = self.keys(probe)
        answers: dict[int, Answer] = {}
        violent: Counter[tuple[str, str]] = Counter()
        for tries_left in reversed(range(TRIES)):
            smoked, seen, seconds = self._observe(revision, unit, probe, purpose, tries_left, violent)
            if may_be_misfit(smoked):
                self._misfits.add(probe.artifact.digest)
            # Whether a build fits together is asked again in the next session: only then may it be recalled.
            kept_as = attempt if smoked and smoked.outcome is Outcome.GOOD else None
            for index, (case, observation) in enumerate(zip(probe.cases, seen, strict=False)):
                if index in answers:
                    continue
                verdict = after_smoke(smoked, self._judge(keys[index], observation, case, violent))
                pair = self._keep(keys[index], kept_as, revision, observation, verdict, seconds)
                # Also those waits for a control whose probe is never answered as a whole.
                self.ledgers[unit].add(self.tools.journal.due([(keys[index], attempt)] if attempt else []), ())
                if pair[1].outcome is not Outcome.INFRA:
                    answers[index] = pair
                elif not tries_left:
                    raise unanswered(f"{revision.id}: {case.name}", observation, verdict, probe.target.adapter, TRIES)
            if len(answers) == len(probe.cases):
                break
            self.tally["infra"] += 1
            self.ledgers[unit].doubt("a run had to be repeated")
            self.tools.watcher.say(f"{revision.id}: this machine gave no answer; trying again")
        pairs = [answers[index] for index in range(len(probe.cases))]
        if any(violence_of(observation) for observation, _ in pairs):
            self.ledgers[unit].doubt("a run ended violently")
        return pairs

    def _observe(
        self,
        revision: Revision,
        unit: Unit,
        probe: Probe,
        purpose: str,
        tries_left: int,
        violent: Counter[tuple[str, str]],
    ) -> tuple[Verdict | None, list[Observation], float]:
        """One run of `probe`, with the smoke case before it where this artifact was not smoked yet.

        `violent` counts violent endings by key. Returns the smoke case's verdict (None: not
        answered), the cases' observations (none when the browser did not start and tries are left), and the seconds
        that each took. Raises NoBrowser when none are left.
        """
        keys = {backend: self._smoke_key(probe, backend) for backend in smoke_backends(probe)}
        known = {backend: answer for backend, key in keys.items() if (answer := self.recall_one(key, self.smoke, 1))}
        asked = tuple(backend for backend in keys if backend not in known)
        what = f"{purpose}: {revision.id}"
        self.tools.watcher.doing(f"{what}: starting the browser")

        def on_case(index: int, _seen: Observation) -> None:
            done = max(0, index + 1 - len(asked))
            self.tools.watcher.doing(f"{what}: {done} of {counted(len(probe.cases), 'case')}")

        begin = time.monotonic()
        self.spending.note_probe()
        self.ledgers[unit].probed()
        try:
            seen = self.tools.observe(
                replace(probe, smoke=self.smoke, smoke_backends=asked), self.tools.browsers, on_case
            )
        except NoBrowser:
            if not tries_left:
                raise
            return None, [], 0.0
        took = time.monotonic() - begin
        self.spending.seconds["probes"] += took
        seconds = took / len(seen)
        verdicts = {backend: answer[1] for backend, answer in known.items()}
        for backend, observation in zip(asked, seen, strict=False):
            verdict = self._judge(keys[backend], observation, self.smoke, violent)
            kept_as = 1 if verdict.outcome is Outcome.GOOD else None
            verdicts[backend] = self._keep(keys[backend], kept_as, revision, observation, verdict, seconds)[1]
            if verdict.outcome is Outcome.GOOD:
                # It is what a control asks: nothing else could say more of it.
                self.tools.journal.settle([(keys[backend], 1)], healthy=True)
            self._smoked(unit, backend, verdict)
        smoked = worst_smoke(verdicts)
        if smoked and smoked.outcome is Outcome.GOOD and probe.backend == unit.backend:
            self.ledgers[unit].pin(revision.id, probe)
        return smoked, seen[len(asked) :], seconds

    def _smoked(self, unit: Unit, backend: str, verdict: Verdict) -> None:
        """A smoke case that was run now is as good as a control for what was answered before this probe."""
        if verdict.outcome is not Outcome.GOOD:
            self.ledgers[unit].doubt("a smoke case failed")
        elif backend == unit.backend and not self.ledgers[unit].odd:
            self.settle(unit, healthy=True)
            self.ledgers[unit].probed()

    def _smoke_key(self, probe: Probe, backend: str) -> str:
        alone = replace(probe, cases=(self.smoke,), isolate=True, backend=backend, plan=Plan())
        return self.keys(alone)[0]

    def _judge(self, key: str, observation: Observation, case: Case, violent: Counter[tuple[str, str]]) -> Verdict:
        """The verdict of an observation; a violent ending is counted in `violent` and believed when it repeats."""
        verdict = self.tools.judge(observation, case)
        violence = violence_of(observation)
        if violence is None:
            return verdict
        violent[key, violence] += 1
        return if_repeated(verdict, case, violent[key, violence])

    def _keep(
        self,
        key: str,
        attempt: int | None,
        revision: Revision,
        observation: Observation,
        verdict: Verdict,
        seconds: float,
    ) -> Answer:
        journal = self.tools.journal
        return journal.record(self.session, key, attempt, revision.id, observation, verdict, seconds, JUDGE_VERSION)


def _named(verdict: Verdict, case: Case) -> Verdict:
    """A recalled verdict under the name that the case has now: keys hold content, not names."""
    signature = verdict.signature
    return replace(verdict, signature=replace(signature, case=case.name)) if signature else verdict
