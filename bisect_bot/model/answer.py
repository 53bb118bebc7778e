"""What a session asks and answers: Request, Trial, and the Report with its parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bisect_bot.model.commits import Culprit
from bisect_bot.model.pipeline import Adapter, Revision, Target
from bisect_bot.model.verdict import Signature, Verdict

# --- session ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One question asked of every revision: this case, on this target, with this backend."""

    case: str
    target: str
    backend: str

    def __str__(self) -> str:
        return f"{self.case} on {self.target}/{self.backend}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One verdict in its place: which revision, which cell, the how-manyeth of its kind, and with what.

    `log` has the last messages of a run that was not good. `providers` are those that a script asked for, session by
    session; what ran is the verdict's. `wasm` is the published build whose WebAssembly stood in for the revision's own,
    `approximate` the commits (full ids) by whose C++ changes the two differ.
    """

    revision: str
    cell: Cell
    attempt: int
    verdict: Verdict
    artifact: str = ""
    bundle: str = ""
    dispatches: int = 0
    adapter: Adapter | None = None
    purpose: str = "search"  # end, search, retest, attribution, proof
    reused: bool = False
    log: tuple[str, ...] = ()
    providers: tuple[tuple[str, ...], ...] = ()
    wasm: str = ""
    approximate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, as text that can be stored and asked again.

    `command` is what to type to ask the same, `kind` which command it was (`run`, `check`, `matrix`, `verify`: only
    runs can be taken up again). `pinned` names the pinned cases (name, digest) that `cases` meant when it was first
    asked, `pages` the page group of each, `pinned_between` what `between` meant. `runs` to `feed` are the plan that
    each case is run by; `against` says what outputs are compared with. A `matrix` names `revisions` instead of two
    ends. `source` says among what is searched (`auto`, `published`, `commits`), `wasm` where commits get their
    WebAssembly (`auto`, `build`, or the version of a published build), `driver` what runs the cases. A search goes on
    until `confidence` is reached or a limit is (`budget_s` to `max_probes`; 0: none); `rarest` is the lowest rate at
    which the case may fail where it is bad. `replay` are the verdicts of a `git bisect log` (commit; good, bad or skip,
    also old or new before it was looked up), `replay_file` is where that log was. With `all_boundaries` each change
    that the search comes across is searched for by itself. With `prefetch` builds are made ahead while probes run, with
    `full_history` what a merge brought is searched where that is what was found.
    """

    good: str
    bad: str
    cases: tuple[str, ...]
    targets: tuple[str, ...] = ("chrome",)
    backends: tuple[str, ...] = ("webgpu",)
    source: str = "auto"
    adapter: str = "any"
    bundle: str = "default"
    dims: tuple[tuple[str, int], ...] = ()
    seed: int = 0
    isolate: bool = False
    case_timeout_s: float = 60.0
    probe_timeout_s: float = 600.0
    browser_args: tuple[str, ...] = ()
    repo: str | None = None
    out: str | None = None
    pinned: tuple[tuple[str, str], ...] = ()
    command: str = ""
    kind: str = "run"
    runs: int = 1
    recreate: int = 0
    sessions: int = 1
    fresh_pages: int = 0
    between: str = ""
    frames: int = 0
    feed: tuple[tuple[str, str], ...] = ()
    initial_state: str = "given"
    against: str = "reference"
    require_provider: str = ""
    foreground: tuple[str, ...] = ()
    any_failure: bool = False
    revisions: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    pinned_between: tuple[tuple[str, str], ...] = ()
    wasm: str = "auto"
    driver: str = "harness"
    confidence: float = 0.95
    rarest: float = 1.0
    budget_s: float = 0.0
    max_builds: int = 0
    max_probes: int = 0
    replay: tuple[tuple[str, str], ...] = ()
    replay_file: str = ""
    all_boundaries: bool = False
    prefetch: bool = True
    full_history: bool = False


# --- reports ------------------------------------------------------------------------------------


class Result(StrEnum):
    """How a `run` ended; the exit status follows from it. `tested` is for a matrix, which searches nothing."""

    FOUND = "found"
    RANGE = "range"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    STOPPED = "stopped"
    UNUSABLE = "unusable"
    TESTED = "tested"


class Direction(StrEnum):
    """`regression`: the older end is good. `fix`: the older end is bad."""

    REGRESSION = "regression"
    FIX = "fix"


@dataclass(frozen=True, slots=True)
class Boundary:
    """Two neighbouring revisions between which the verdict changes (in a range: the tested ends of the gap)."""

    last_old: Revision
    first_new: Revision


@dataclass(frozen=True, slots=True)
class Suspect:
    """A candidate that may be the first new one, with its probability."""

    revisions: tuple[Revision, ...]
    probability: float
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class CellResult:
    """The answer for one cell.

    `signature` is how the bad end fails; `also` are further ways in which it failed when it was tested again. `tested`
    names the two revisions whose verdicts speak for the two sides of the boundary, where those are commits that were
    not built because they give the same artifact. `others` are further changes that were searched for by themselves, in
    the order of history.
    """

    cell: Cell
    result: Result
    direction: Direction | None
    boundary: Boundary | None
    suspects: tuple[Suspect, ...] = ()
    signature: Signature | None = None
    confidence: float | None = None
    note: str = ""
    also: tuple[Signature, ...] = ()
    tested: tuple[str, str] | None = None
    others: tuple[Change, ...] = ()

    @property
    def sides(self) -> tuple[str, str] | None:
        """The ids of the two revisions that were tested for the two sides of the boundary; None without a boundary."""
        if self.boundary is None:
            return None
        return self.tested or (self.boundary.last_old.id, self.boundary.first_new.id)

    def is_other(self, failure: Signature) -> bool:
        """Whether `failure` is another one than what was searched for."""
        searched = (*([self.signature] if self.signature else []), *self.also)
        return bool(searched) and not any(failure.same_failure(each) for each in searched)


@dataclass(frozen=True, slots=True)
class Change:
    """A further change of one cell's verdict, that lies elsewhere than the boundary which the cell names.

    It was hinted at by two revisions that answered differently: those of `between`. `answer` is what the search between
    them came to, of which the change is only known where that is found or a range. `culprit` and `proofs` are as those
    of a report.
    """

    between: Boundary
    answer: CellResult
    culprit: Culprit | None = None
    proofs: tuple[Proof, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the search for it found it, be it only within a range."""
        return self.answer.result in (Result.FOUND, Result.RANGE) and self.answer.boundary is not None


@dataclass(frozen=True, slots=True)
class Proof:
    """One check of the answer. `held` is None, with a reason, where it could not be made.

    It is of the answer for `cell`, and by its tests; `commit` (a full id) is what was put to the proof, where that is a
    commit. Journals of earlier versions tell neither.
    """

    kind: str
    held: bool | None
    reason: str | None = None
    runs: int = 0
    cell: Cell | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What the answer cost. `controls` are runs of the control, `voided` verdicts that it took back."""

    revisions: int = 0
    candidates: int = 0
    builds: int = 0
    proof_builds: int = 0
    artifacts_reused: int = 0
    probes: int = 0
    verdicts_reused: int = 0
    infra: int = 0
    controls: int = 0
    voided: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the reports say. `cells[0]` is the headline; `warnings` are sentences for the reader.

    With `any_failure`, runs that fail in another way than the bad end were taken for the same failure. `culprit` is
    known of a boundary between two commits, and is the headline's; `culprits` are those of all cells, each once.
    `ends` are the older and the newer end of a search, as they were named, `next_step` is what would have come next in
    one that was stopped. With `all_boundaries` the `others` of the cells were searched for.
    """

    session: str
    result: Result
    cells: tuple[CellResult, ...]
    targets: tuple[Target, ...]
    revisions: tuple[Revision, ...]
    trials: tuple[Trial, ...]
    proofs: tuple[Proof, ...]
    counts: Counts
    warnings: tuple[str, ...]
    reference: str
    environment: tuple[tuple[str, str], ...]
    reproduce: str
    wall_s: float
    reason: str = ""
    any_failure: bool = False
    culprit: Culprit | None = None
    ends: tuple[Revision, Revision] | None = None
    all_boundaries: bool = False
    culprits: tuple[Culprit, ...] = ()
    next_step: str = ""
