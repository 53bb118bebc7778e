"""What flows through the pipeline, in order: Revision, Candidate, Artifact, Case, Target, Observation, Verdict."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bisect_bot.model.verdict import Mismatch

# --- history ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Revision:
    """One point of upstream's history that can become an artifact: a published build, or a commit (`version` None).

    `id` is what a person types to name it again. `commit` is hex as far as it is known (a published dev
    build names only 9 or 10 digits of it) or None; of a commit it is full. `date` is the commit's (or the one in the
    build's name), never a registry's upload time. `on_main` is None where nobody could tell.

    `variant` is what is changed before a commit is built, for questions that no commit answers: `wasm:<version>` (the
    WebAssembly of that published build), `revert:<commit>` or `pick:<commit>` (that commit's diff taken back or
    applied). Its `id` then is a reader's words for it, such as `d3ad76b2cf without d9b91682f1`.
    """

    id: str
    version: str | None = None
    commit: str | None = None
    date: dt.date | None = None
    title: str | None = None
    on_main: bool | None = None
    main_ancestor: str | None = None
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A maximal run of consecutive revisions that build to the same bytes; the first one changed something."""

    revisions: tuple[Revision, ...]

    @property
    def revision(self) -> Revision:
        """The revision that stands for the run: its first."""
        return self.revisions[0]


# --- builds -------------------------------------------------------------------------------------


class Loader(StrEnum):
    """How a page loads a bundle: a classic script that sets `ort`, or an ES module."""

    SCRIPT = "script"
    MODULE = "module"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The file of an artifact that a page loads for one backend, as its era of upstream has it.

    `implementation` names who computes (`jsep`: WebGPU kernels in TypeScript; `native`: the C++ WebGPU
    execution provider; `wasm`; `webgl`). Verdicts on either side of a change of it compare two programs.
    `backends` are all that the file registers.
    """

    name: str
    file: str
    loader: Loader
    implementation: str
    backends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a browser loads: `directory` holds the JavaScript and WebAssembly files, complete and unchanging.

    `key` says what it was made from, `digest` (`sha256:…`) what it is, with the embedded commit id masked.
    `commit` is the id found inside the WebAssembly, where there is one.
    """

    revision: str
    key: str
    digest: str
    directory: Path
    commit: str | None = None


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor. `dtype` is onnxruntime-web's name of the element type (`float32`, `int64`, `bool`, …).

    `data` holds the elements little-endian in C order; 4-bit types are packed two to a byte, `bool` is one
    byte an element, `float16` two. With `any_type`, of expected outputs, the elements stand for numbers, whatever
    type the output has; `dtype` is then one that holds them all.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)
    any_type: bool = False

    def array(self) -> NDArray[np.generic]:
        """The elements as a read-only array of `shape`. Raises ValueError when `data` has another length."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(self.data, dtype=dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs of one run and the outputs that they must give."""

    name: str
    inputs: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]


class CaseKind(StrEnum):
    """What a case's file is: an ONNX model, or a JavaScript module that drives onnxruntime-web itself."""

    MODEL = "model"
    SCRIPT = "script"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that must hold: a model with data sets, pinned by content.

    `digest` covers the model, its external data, the inputs and the expected outputs. `model` is a file of
    the pinned copy (of a script: its `repro.mjs`), so a later change of the user's files changes nothing.
    `reference` says where the expected outputs come from (`files`, `onnxruntime 1.30.0 (CPU)`).

    `external` names the files beside the model that hold its weights, as the model calls them. `manifest` is, of a case
    that was made from an op manifest, its test there: a JSON object, without its name.

    Cases with the same `page` that is not empty run in order in a page that no other case enters. With `feed`, the
    data sets are frames of one recurrent run: before each but the first, the outputs of the frame before replace the
    inputs, by (output, input).
    """

    name: str
    digest: str
    model: Path
    data_sets: tuple[DataSet, ...]
    reference: str
    kind: CaseKind = CaseKind.MODEL
    page: str = ""
    feed: tuple[tuple[str, str], ...] = ()
    external: tuple[str, ...] = ()
    manifest: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How often, and around what, each case is run: some builds are right only the first time.

    A session is created and run `runs` times, then released and created anew `recreate` times, each time run as
    often. `sessions` of the same model are alive and run in turn. With `between`, a session of that case is created
    and run between two runs of ours. All that is done again in `fresh_pages` further pages.
    """

    runs: int = 1
    recreate: int = 0
    sessions: int = 1
    fresh_pages: int = 0
    between: Case | None = None


# --- targets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adapter:
    """The GPU adapter of the device that a session really used, as the browser describes it.

    `fallback` is the browser's own word for a software adapter; `software` adds those it does not admit
    (SwiftShader, llvmpipe, WARP).
    """

    vendor: str
    architecture: str
    device: str = ""
    description: str = ""
    fallback: bool = False
    software: bool = False
    driver: str | None = None

    def __str__(self) -> str:
        words = [self.vendor, self.architecture, self.device, self.description]
        kind = "software" if self.software or self.fallback else "hardware"
        return f"{' '.join(w for w in words if w) or 'unnamed'} ({kind})"


@dataclass(frozen=True, slots=True)
class Target:
    """A browser runtime that was found on this machine, with what distinguishes its results from another's.

    `product` is what the browser calls itself (`Chromium`, `Google Chrome`, `Microsoft Edge`), empty where it does
    not say. `flags` names the set of command-line flags in use and `extra_args` what the user added to them;
    `chosen_by` is whatever else decides which GPU is used: what those flags are, and the environment. A verdict is
    reused only for an equal `fingerprint`.
    """

    name: str
    executable: str
    version: str
    platform: str
    flags: str
    wish: str
    adapter: Adapter | None = None
    extra_args: tuple[str, ...] = ()
    product: str = ""
    chosen_by: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hex digest of all that may change a verdict, readable without starting the browser."""
        parts = [self.name, self.executable, self.version, self.platform, self.flags, self.wish, *self.extra_args]
        driver = self.adapter.driver if self.adapter else None
        return hashlib.sha256(json.dumps([*parts, str(self.adapter), driver, self.chosen_by]).encode()).hexdigest()


# --- probes -------------------------------------------------------------------------------------


class Ending(StrEnum):
    """How the run of one case ended, before anybody judges it."""

    COMPLETED = "completed"
    ERROR = "error"  # an exception; `errors[0].stage` says where
    CRASH = "crash"  # the page's process died
    HANG = "hang"  # the case's time limit passed
    BROWSER_GONE = "browser-gone"  # the whole browser ended
    NO_WEBGPU = "no-webgpu"  # `navigator.gpu` is missing
    NO_ADAPTER = "no-adapter"  # every requestAdapter() answered null
    WRONG_ADAPTER = "wrong-adapter"  # another adapter than the one asked for
    HARNESS = "harness"  # our own page or server failed


class Stage(StrEnum):
    """Where in a case's life an error happened."""

    LOAD = "load"
    CREATE = "create"
    RUN = "run"
    RELEASE = "release"
    HARNESS = "harness"


@dataclass(frozen=True, slots=True)
class PageError:
    """An exception as the page saw it; `step` names the step of the plan that it happened in (empty: the first)."""

    stage: Stage
    message: str
    stack: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a test runner that judges for itself (upstream's own) said of a case.

    Where it did not pass, `message` is its reason and `data_set` the first that failed, with the elements that it
    printed as wrong; outputs that it printed are those of the observation's step.
    """

    passed: bool
    message: str = ""
    data_set: str = ""
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes that the runtime's own log assigned to one execution provider, as `OpType (node name)`."""

    provider: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over all data sets of a case: a run of its plan. `name` is empty for the first.

    `outputs` has one tuple of tensors per data set that completed, in order. `gpu_errors` are those that came up
    in it, `dispatches` counts the GPU compute dispatches of its runs.
    """

    name: str = ""
    outputs: tuple[tuple[Tensor, ...], ...] = ()
    gpu_errors: tuple[str, ...] = ()
    dispatches: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back from running one case with one artifact on one target: raw, nothing judged.

    `steps` are the runs of the plan that were begun, in order; an error, a crash or a hang ends the list. Times are
    milliseconds inside the page, by what took them. `dispatches` counts GPU compute dispatches of the case.
    `backend` is the one execution provider that the session was created with; of a script `providers` are those
    that it asked for, session by session. `told` is set where another test runner than our own page ran the case.
    """

    case: str
    artifact: str
    bundle: str
    backend: str
    ending: Ending
    steps: tuple[Step, ...] = ()
    times_ms: tuple[tuple[str, float], ...] = ()
    console: tuple[str, ...] = ()
    errors: tuple[PageError, ...] = ()
    gpu_errors: tuple[str, ...] = ()
    dispatches: int = 0
    placements: tuple[Placement, ...] = ()
    adapter: Adapter | None = None
    providers: tuple[tuple[str, ...], ...] = ()
    told: Told | None = None

    @property
    def outputs(self) -> tuple[tuple[Tensor, ...], ...]:
        """The outputs of the first step, by data set."""
        return self.steps[0].outputs if self.steps else ()
