"""What a session has cost so far, over all the processes that worked on it.

It is in the journal as it grows: whoever takes up a killed session goes on counting, and tries no build again that
has failed in it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from bisect_bot.errors import BuildFailed
from bisect_bot.model import Artifact, Revision
from bisect_bot.search import Prices
from bisect_bot.session.journal import Journal
from bisect_bot.session.proofs import is_proof

KIND = "spending"
BUILDS, PROOF_BUILDS, ARTIFACTS_REUSED, PROBES = "builds", "proof_builds", "artifacts_reused", "probes"
# Whoever takes a session up asks all its questions again, so these are counted anew.
_OF_ONE_PROCESS = ("verdicts_reused",)


@dataclass(slots=True)
class Spending:
    """What `session` has cost. `tally` counts what was done, by name; `seconds` are those of builds and of probes.

    `built` are the revisions whose artifact was had, `failed` those whose build failed for good, with problem and
    advice.
    """

    journal: Journal
    session: str
    tally: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    built: set[str] = field(default_factory=set)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    _before_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, journal: Journal, session: str) -> Spending:
        """What the journal knows of it; nothing for a new session."""
        known: dict[str, Any] = journal.remembered(KIND, session) or {}
        tally = Counter({name: count for name, count in known.get("tally", {}).items() if name not in _OF_ONE_PROCESS})
        return cls(
            journal,
            session,
            tally,
            defaultdict(float, known.get("seconds", {})),
            set(known.get("built", ())),
            {revision: (problem, advice) for revision, (problem, advice) in known.get("failed", {}).items()},
            known.get("wall_s", 0.0),
        )

    @property
    def wall_s(self) -> float:
        """The seconds that processes worked on the session, this one up to now."""
        return self._before_s + time.monotonic() - self._began

    def save(self) -> None:
        """Writes it into the journal."""
        self.journal.remember(
            KIND,
            self.session,
            {
                "tally": dict(self.tally),
                "seconds": dict(self.seconds),
                "built": sorted(self.built),
                "failed": self.failed,
                "wall_s": self.wall_s,
            },
        )

    def prices(self) -> Prices:
        """What a build and a probe cost here, in seconds: as measured in this session, else the usual."""
        usual = Prices()
        builds, probes = self.tally[BUILDS] + self.tally[PROOF_BUILDS], self.tally[PROBES]
        build_s = self.seconds["builds"] / builds if builds else usual.build_s
        rerun_s = self.seconds["probes"] / probes if self.seconds["probes"] else usual.rerun_s
        return Prices(build_s, rerun_s)

    def has_tried(self, revision: Revision) -> bool:
        """Whether it is known in this session what the build of `revision` comes to."""
        return revision.id in self.built or revision.id in self.failed

    def refuse_failed(self, revision: Revision) -> None:
        """Raises BuildFailed, as it was, where the build of `revision` has failed for good in this session."""
        if revision.id in self.failed:
            raise BuildFailed(*self.failed[revision.id])

    def note_built(self, revision: Revision, artifact: Artifact, took_s: float, *, reused: bool) -> None:
        """Counts the artifact of `revision`, made in `took_s` seconds or found in the cache; once in a session."""
        if revision.id in self.built:
            return
        self.built.add(revision.id)
        self.tally[ARTIFACTS_REUSED if reused else self._made(revision)] += 1
        self.seconds["builds"] += 0.0 if reused else took_s
        self.journal.record_build(self.session, revision.id, artifact.key, artifact.digest, took_s, reused=reused)
        self.save()

    def note_failed(self, revision: Revision, error: BuildFailed, took_s: float) -> None:
        """Counts a build of `revision` that took `took_s` seconds and failed; one that failed for good is kept."""
        self.tally[self._made(revision)] += 1
        self.seconds["builds"] += took_s
        if error.lasting:
            self.failed[revision.id] = (str(error), error.advice)
        self.save()

    def note_probe(self) -> None:
        """Counts a probe that is about to be run: also one that does not live to see its end."""
        self.tally[PROBES] += 1
        self.save()

    @staticmethod
    def _made(revision: Revision) -> str:
        return PROOF_BUILDS if is_proof(revision) else BUILDS
