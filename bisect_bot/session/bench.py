"""Answers "what does this revision do?": from the journal where that is known, else by a build and a probe.

Everything that touches the outside (npm, the disk, a browser, the clock) is called from here, and each answer is
in the journal before anybody uses it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bisect_bot.errors import BuildUnusable, MachineError, NoAdapter, NoBrowser, UnknownRevision
from bisect_bot.model import (
    Artifact,
    Bundle,
    Case,
    Cell,
    Ending,
    Failure,
    Observation,
    Outcome,
    Plan,
    Request,
    Revision,
    Signature,
    Target,
    Trial,
    Verdict,
)
from bisect_bot.probes import Limits, Probe, run_probe
from bisect_bot.session.journal import Journal
from bisect_bot.session.keys import probe_keys
from bisect_bot.session.watcher import Watcher
from bisect_bot.targets.browsers import BrowserConfig
from bisect_bot.verdicts import JUDGE_VERSION

TRIES = 3
# How often a violent ending must come before it is the case's own.
REPEATS = 2
VIOLENT = (Ending.CRASH, Ending.HANG, Ending.BROWSER_GONE)
# How web/gpu.js begins its line about a device that was lost for another reason than its own destroy().
DEVICE_LOST = "device lost"
NO_ADAPTER_ENDINGS = (Ending.NO_ADAPTER, Ending.NO_WEBGPU, Ending.WRONG_ADAPTER)


@dataclass(frozen=True, slots=True)
class Unit:
    """What one probe covers: all cases on one target with one backend."""

    target: Target
    backend: str

    def cell(self, case: Case) -> Cell:
        """The question that `case` is here."""
        return Cell(case.name, self.target.name, self.backend)


@dataclass(frozen=True, slots=True)
class Tools:
    """What a bench works with.

    `fetch` gives a revision's artifact and whether it was in the cache, `is_intact` whether its bytes are
    unchanged, `bundle_for` the file that a page loads of it for a backend, `judge` a verdict; `rules` is a digest of
    what the judge goes by.
    """

    journal: Journal
    judge: Callable[[Observation, Case], Verdict]
    rules: str
    browsers: BrowserConfig
    fetch: Callable[[Revision], tuple[Artifact, bool]]
    is_intact: Callable[[Artifact], bool]
    bundle_for: Callable[[Revision, str], Bundle]
    watcher: Watcher


@dataclass(slots=True)
class Bench:
    """The bench of one session. `tally` counts what was done, by name; `trials` are all answers in their order."""

    session: str
    request: Request
    cases: tuple[Case, ...]
    smoke: Case
    tools: Tools
    trials: list[Trial] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    _attempts: Counter[tuple[str, Unit]] = field(default_factory=Counter)
    _intact: set[str] = field(default_factory=set)

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """One more answer of `revision` for every case, in the order of the cases.

        The n-th question is answered by the n-th verdict that the journal holds for exactly this artifact,
        browser and cases, so a repeated question is a fresh test the first time and recalled ever after.
        Raises MachineError (NoAdapter, NoBrowser, …) when this machine cannot answer.
        """
        self._attempts[revision.id, unit] += 1
        attempt = self._attempts[revision.id, unit]
        try:
            artifact = self._artifact(revision)
            bundle = self.tools.bundle_for(revision, unit.backend)
        except BuildUnusable as error:
            verdict = Verdict(Outcome.SKIP, f"no artifact: {error}")
            return self._add(Trial(revision.id, unit.cell(c), attempt, verdict, purpose=purpose) for c in self.cases)
        limits = Limits(self.request.case_timeout_s, self.request.probe_timeout_s)
        probe = Probe(
            artifact, bundle, unit.target, unit.backend, self.cases, isolate=self.request.isolate, limits=limits
        )
        recalled = self._recall(probe, attempt)
        if recalled is None and not self._is_intact(revision, artifact):
            artifact, _ = self._fetch(revision)
            probe = replace(probe, artifact=artifact)
        answers = recalled or self._probe(revision, probe, attempt, purpose)
        self.tally["verdicts_reused"] += len(self.cases) if recalled else 0
        return self._add(
            Trial(
                revision=revision.id,
                cell=unit.cell(case),
                attempt=attempt,
                verdict=verdict,
                artifact=artifact.digest,
                bundle=bundle.file,
                dispatches=observation.dispatches,
                adapter=observation.adapter,
                purpose=purpose,
                reused=recalled is not None,
            )
            for case, (observation, verdict) in zip(self.cases, answers, strict=True)
        )

    def _add(self, trials: Iterable[Trial]) -> tuple[Trial, ...]:
        added = tuple(trials)
        for trial in added:
            self.trials.append(trial)
            self.tools.watcher.tried(trial)
        return added

    def _artifact(self, revision: Revision) -> Artifact:
        begin = time.monotonic()
        artifact, reused = self._fetch(revision)
        if self._attempts_of(revision) == 1:
            self.tally["artifacts_reused" if reused else "builds"] += 1
            seconds = time.monotonic() - begin
            self.tools.journal.record_build(
                self.session, revision.id, artifact.key, artifact.digest, seconds, reused=reused
            )
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

    def _attempts_of(self, revision: Revision) -> int:
        return sum(count for (name, _), count in self._attempts.items() if name == revision.id)

    def _recall(self, probe: Probe, attempt: int) -> list[tuple[Observation, Verdict]] | None:
        """The answers of that attempt, or None when one is missing."""
        answers = []
        for key, case in zip(probe_keys(probe, self.tools.rules), probe.cases, strict=True):
            found = self.tools.journal.recall(key, attempt)
            if found is None:
                return None
            answers.append((found[0], _named(found[1], case)))
        return answers

    def _probe(self, revision: Revision, probe: Probe, attempt: int, purpose: str) -> list[tuple[Observation, Verdict]]:
        """Runs `probe` until every case has an answer that may be believed, and journals each."""
        keys = probe_keys(probe, self.tools.rules)
        answers: dict[int, tuple[Observation, Verdict]] = {}
        violent: Counter[tuple[str, str]] = Counter()
        for tries_left in reversed(range(TRIES)):
            smoked, seen, seconds = self._observe(revision, probe, purpose, tries_left, violent)
            # Whether a build fits together is asked again in the next session: only then may it be recalled.
            kept_as = attempt if smoked and smoked.outcome is Outcome.GOOD else None
            for index, (case, observation) in enumerate(zip(probe.cases, seen, strict=False)):
                if index in answers:
                    continue
                verdict = after_smoke(smoked, self._judge(keys[index], observation, case, violent))
                pair = self._keep(keys[index], kept_as, revision, observation, verdict, seconds)
                if pair[1].outcome is not Outcome.INFRA:
                    answers[index] = pair
                elif not tries_left:
                    raise _unanswered(revision, case, observation, verdict)
            if len(answers) == len(probe.cases):
                break
            self.tally["infra"] += 1
            self.tools.watcher.say(f"{revision.id}: this machine gave no answer; trying again")
        return [answers[index] for index in range(len(probe.cases))]

    def _observe(
        self, revision: Revision, probe: Probe, purpose: str, tries_left: int, violent: Counter[tuple[str, str]]
    ) -> tuple[Verdict | None, list[Observation], float]:
        """One run of `probe`, with the smoke case before it where this artifact was not smoked yet.

        `violent` counts violent endings by key. Returns the smoke case's verdict (None: not
        answered), the cases' observations (none when the browser did not start and tries are left), and the seconds
        that each took. Raises NoBrowser when none are left.
        """
        keys = {backend: self._smoke_key(probe, backend) for backend in smoke_backends(probe)}
        known = {backend: answer for backend, key in keys.items() if (answer := self.tools.journal.recall(key, 1))}
        asked = tuple(backend for backend in keys if backend not in known)
        what = f"{purpose}: {revision.id}"
        self.tools.watcher.doing(f"{what}: starting the browser")

        def on_case(index: int, _seen: Observation) -> None:
            done = max(0, index + 1 - len(asked))
            self.tools.watcher.doing(f"{what}: {done} of {len(probe.cases)} cases")

        begin = time.monotonic()
        self.tally["probes"] += 1
        try:
            seen = run_probe(replace(probe, smoke=self.smoke, smoke_backends=asked), self.tools.browsers, on_case)
        except NoBrowser:
            if not tries_left:
                raise
            return None, [], 0.0
        seconds = (time.monotonic() - begin) / len(seen)
        verdicts = {backend: answer[1] for backend, answer in known.items()}
        for backend, observation in zip(asked, seen, strict=False):
            verdict = self._judge(keys[backend], observation, self.smoke, violent)
            kept_as = 1 if verdict.outcome is Outcome.GOOD else None
            verdicts[backend] = self._keep(keys[backend], kept_as, revision, observation, verdict, seconds)[1]
        return worst_smoke(verdicts), seen[len(asked) :], seconds

    def _smoke_key(self, probe: Probe, backend: str) -> str:
        alone = replace(probe, cases=(self.smoke,), isolate=True, backend=backend, plan=Plan())
        return probe_keys(alone, self.tools.rules)[0]

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
    ) -> tuple[Observation, Verdict]:
        journal = self.tools.journal
        return journal.record(self.session, key, attempt, revision.id, observation, verdict, seconds, JUDGE_VERSION)


def _named(verdict: Verdict, case: Case) -> Verdict:
    """A recalled verdict under the name that the case has now: keys hold content, not names."""
    signature = verdict.signature
    return replace(verdict, signature=replace(signature, case=case.name)) if signature else verdict


def smoke_backends(probe: Probe) -> tuple[str, ...]:
    """What the smoke case is run with before a build is believed: wasm, where the bundle has it, and what is tested.

    A build whose WebAssembly does not fit its JavaScript fails on wasm too, whatever is wrong with the GPU.
    """
    return tuple(dict.fromkeys(b for b in ("wasm", probe.backend) if b == probe.backend or b in probe.bundle.backends))


def worst_smoke(verdicts: Mapping[str, Verdict]) -> Verdict | None:
    """What the smoke case's verdicts by backend say together, None when one of them was not answered."""
    if any(verdict.outcome is Outcome.INFRA for verdict in verdicts.values()):
        return None
    failed = {backend: verdict for backend, verdict in verdicts.items() if verdict.outcome is not Outcome.GOOD}
    for backend, verdict in failed.items():
        return replace(verdict, reason=f"on {backend}: {verdict.reason}")
    return next(iter(verdicts.values()))


def after_smoke(smoked: Verdict | None, verdict: Verdict) -> Verdict:
    """A case's verdict, seen together with the smoke case's: a build that cannot add two tensors cannot answer."""
    if smoked is None:
        return Verdict(Outcome.INFRA, "the smoke case was not answered")
    if smoked.outcome is Outcome.GOOD:
        return verdict
    return Verdict(Outcome.SKIP, f"does not run here: the smoke case is {smoked.outcome}: {smoked.reason}")


def violence_of(observation: Observation) -> str | None:
    """The kind of an ending that may be the machine's fault as well as the case's; None for any other."""
    if observation.ending in VIOLENT:
        return observation.ending.value
    return DEVICE_LOST if any(text.startswith(DEVICE_LOST) for text in observation.gpu_errors) else None


def if_repeated(verdict: Verdict, case: Case, times: int) -> Verdict:
    """What a crash, a hang, a lost device or the end of the browser means when it happened in `times` of the tries.

    Once, it may be the machine's fault (a busy GPU, another program's memory); when it repeats with the case, it
    is how the case fails.
    """
    if times < REPEATS:
        return Verdict(Outcome.INFRA, f"{verdict.reason} (once)")
    if verdict.outcome is not Outcome.INFRA:
        return verdict
    signature = Signature(Failure.CRASH, case.name, "the browser ended")
    return Verdict(Outcome.BAD, f"the browser ended {times} times: {verdict.reason}", signature)


def _unanswered(revision: Revision, case: Case, observation: Observation, verdict: Verdict) -> MachineError:
    problem = f"{revision.id}: {case.name} could not be answered here ({TRIES} tries): {verdict.reason}"
    if observation.ending in NO_ADAPTER_ENDINGS:
        return NoAdapter(problem, "Does the browser still have the adapter? See chrome://gpu.")
    return MachineError(
        problem, "See what else keeps this machine busy (or raise --probe-timeout), then: bisect-bot resume"
    )


def units(targets: Sequence[Target], backends: Sequence[str]) -> tuple[Unit, ...]:
    """Every target with every backend."""
    return tuple(Unit(target, backend) for target in targets for backend in backends)
