"""Bugs planted in a published build, one line each: every one gets a signature of its own.

The build is 1.20.1, whose WebGPU kernels are JavaScript and WGSL text; a plant replaces a piece of its bundle.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from bisect_bot import paths
from bisect_bot.builds import Npm, bundle_for, fetch
from bisect_bot.cases import Making, load, smoke
from bisect_bot.model import Artifact, Case, Demands, Failure, Plan, Request, Revision, Signature, Target, Trial
from bisect_bot.probes import choose_target
from bisect_bot.session.bench import Bench
from bisect_bot.session.journal import Journal
from bisect_bot.session.tools import Tools
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.targets.browsers import load_config, locate
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from tests.models import one_node, save_case

pytestmark = [pytest.mark.network, pytest.mark.browser]

VERSION = "1.20.1"
CONFIG = load_config()
TOLERANCES = load_tolerances(paths.config_file("tolerances.toml"))
RULES = load_rules(paths.config_file("verdicts.toml"))
BUNDLE = "ort.webgpu.bundle.min.mjs"

# Where plants are put, each once in the bundle: the shader of element-wise operators, the start of a kernel's run, the
# creation of a kernel, the way of an output back from the GPU, and the choice of the execution provider.
SHADER = 'let a = ${c.getByOffset("global_idx")};'
COMPUTE = "computeKernel(t,r,n){"
CREATE = "createKernel(t,r,n,o){"
DOWNLOAD = "await eo(this.backend,n.gpuData.buffer,n.originalSize,r)"
PROVIDER = 'case"webgpu":'
# The smoke case adds, and must go on to work.
FOR_ABS = 'if(this.kernels.get(t).kernelType==="Abs")'
SPOIL = "{let v=r();new Float32Array(v.buffer,v.byteOffset,v.byteLength/4).fill(7)}"
# Few megabytes, so that a page that allocates without end dies soon.
SMALL_HEAP = ("--js-flags=--max-old-space-size=64",)


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: pairs of text and replacement, the plan and demands under which it shows, and its signature."""

    changes: tuple[tuple[str, str], ...]
    kind: Failure
    when: str = ""
    says: str = ""
    plan: Plan = field(default_factory=Plan)
    demands: Demands = field(default_factory=Demands)
    between: bool = False


BUGS = {
    "wrong on the second run": Planted(
        ((DOWNLOAD, f"{DOWNLOAD};globalThis.runs=(globalThis.runs||0)+1;if(globalThis.runs===2){SPOIL}"),),
        Failure.CONSTANT,
        "run 2",
        plan=Plan(runs=2),
    ),
    "wrong after the session was created again": Planted(
        (
            (CREATE, f"{CREATE}globalThis.made=(globalThis.made||0)+1;"),
            (DOWNLOAD, f"{DOWNLOAD};if(globalThis.made>1){SPOIL}"),
        ),
        Failure.CONSTANT,
        "created again",
        plan=Plan(recreate=1),
    ),
    "wrong with another model in between": Planted(
        (
            (CREATE, f'{CREATE}if(t==="Softmax")globalThis.other=1;'),
            (DOWNLOAD, f"{DOWNLOAD};if(globalThis.other){SPOIL}"),
        ),
        Failure.CONSTANT,
        "other model alive",
        between=True,
    ),
    "a GPU error that nobody throws": Planted(
        ((SHADER, "let a = nonsense;"),), Failure.GPU_ERROR, says="unresolved value 'nonsense'"
    ),
    "all zero": Planted(((SHADER, SHADER.replace(";", "*0.0;")),), Failure.ALL_ZERO, says="y0"),
    "NaN": Planted(
        ((SHADER, 'let b = ${c.getByOffset("global_idx")}; let a = sqrt(-abs(b) - 1.0);'),), Failure.NAN, says="y0"
    ),
    "moved to the CPU": Planted(
        ((PROVIDER, f"{PROVIDER}continue;"),),
        Failure.FALLBACK,
        says="CPU",
        demands=Demands("webgpu"),
    ),
    "a hang in run": Planted(((COMPUTE, f"{COMPUTE}{FOR_ABS}for(;;);"),), Failure.HANG),
    "a crash of the page": Planted(
        ((COMPUTE, f"{COMPUTE}{FOR_ABS}for(let l=[];;)l.push(new Array(1e6).fill(l.length));"),), Failure.CRASH
    ),
    "the device destroyed": Planted(((COMPUTE, f"{COMPUTE}{FOR_ABS}this.device.destroy();"),), Failure.DEVICE_LOST),
    "an error in another operator": Planted(
        ((COMPUTE, f'{COMPUTE}if(this.kernels.get(t).kernelType==="Softmax")throw new Error("planted");'),),
        Failure.ERROR,
        says="planted",
    ),
}


@pytest.fixture(scope="module")
def published() -> Path:
    """The files of the published build."""
    artifact, _ = fetch(VERSION, npm=Npm.find(), cache=paths.cache_root())
    return artifact.directory


@pytest.fixture(scope="module")
def target() -> Target:
    """The installed browser with its software adapter."""
    return choose_target(locate("chrome", CONFIG), "software", SMALL_HEAP, CONFIG)


def plant(published: Path, folder: Path, changes: Sequence[tuple[str, str]]) -> Artifact:
    """The published build with `changes` in its bundle; each text to be replaced is there once."""
    folder.mkdir()
    for name in ("ort-wasm-simd-threaded.jsep.wasm", "ort-wasm-simd-threaded.jsep.mjs"):
        shutil.copyfile(published / name, folder / name)
    shutil.copyfile(published / BUNDLE, folder / BUNDLE)
    text = (folder / BUNDLE).read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / BUNDLE).write_text(text, encoding="utf-8")
    return Artifact(VERSION, folder.name, f"sha256:{folder.name}", folder)


def two_operators(folder: Path) -> Path:
    """Abs, then Softmax: of float32[2,3]."""
    inputs = {"x": np.linspace(-3, 2, 6, dtype=np.float32).reshape(2, 3)}
    model = one_node("Abs", inputs, TensorProto.FLOAT, opset=13, ir=7)
    model.graph.node.append(helper.make_node("Softmax", ["y0"], ["y1"]))
    model.graph.output.append(helper.make_tensor_value_info("y1", TensorProto.FLOAT, None))
    return save_case(folder, model, inputs)


def softmax(folder: Path) -> Path:
    """The other model: a Softmax."""
    inputs = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    return save_case(folder, one_node("Softmax", inputs, TensorProto.FLOAT, opset=13, ir=7), inputs)


def absolute(folder: Path) -> Path:
    """Abs of float32[2,3], no element 0."""
    inputs = {"x": np.linspace(-3, 2, 6, dtype=np.float32).reshape(2, 3) + np.float32(0.25)}
    return save_case(folder, one_node("Abs", inputs, TensorProto.FLOAT, opset=13, ir=7), inputs)


def answer_of(artifact: Artifact, case: Case, bug: Planted, target: Target, folder: Path) -> Trial:
    """The trial of `case` with `artifact`, as a session makes it."""
    request = Request(VERSION, VERSION, (case.name,), isolate=True, case_timeout_s=6, adapter="software")
    with Journal.open(folder / "journal.sqlite3") as journal:
        tools = Tools(
            journal=journal,
            judge=lambda seen, of: judge(seen, of, TOLERANCES, RULES, bug.demands if of is case else Demands()),
            rules="",
            browsers=CONFIG,
            fetch=lambda _: (artifact, False),
            is_intact=lambda _: True,
            bundle_for=lambda _, backend: bundle_for(VERSION, backend),
            watcher=Silent(),
        )
        bench = Bench(journal.start_session(request), request, (case,), smoke(folder / "cache"), tools, plan=bug.plan)
        (trial,) = bench.test(Revision(VERSION, VERSION), Unit(target, "webgpu"), "end")
    return trial


@pytest.mark.parametrize("name", BUGS)
def test_each_planted_bug_has_its_own_signature(name: str, published: Path, target: Target, tmp_path: Path) -> None:
    bug = BUGS[name]
    folder = two_operators(tmp_path / "case") if "operator" in name else absolute(tmp_path / "case")
    case = load(str(folder), Making(tmp_path / "cache"))
    if bug.between:
        bug = replace(bug, plan=Plan(between=load(str(softmax(tmp_path / "other")), Making(tmp_path / "cache"))))
    signature = answer_of(
        plant(published, tmp_path / "planted", bug.changes), case, bug, target, tmp_path
    ).verdict.signature
    assert signature is not None
    assert (signature.kind, signature.when) == (bug.kind, bug.when)
    assert bug.says in signature.message


def test_the_build_without_a_plant_is_good(published: Path, target: Target, tmp_path: Path) -> None:
    case = load(str(absolute(tmp_path / "case")), Making(tmp_path / "cache"))
    other = load(str(softmax(tmp_path / "other")), Making(tmp_path / "cache"))
    everything = Planted((), Failure.MISMATCH, plan=Plan(runs=2, recreate=1, between=other), demands=Demands("webgpu"))
    trial = answer_of(plant(published, tmp_path / "planted", ()), case, everything, target, tmp_path)
    assert trial.verdict.outcome.value == "good", trial.verdict.reason


def test_no_two_planted_bugs_are_the_same_failure() -> None:
    signatures = [Signature(bug.kind, "", bug.says, bug.when) for bug in BUGS.values()]
    assert len({(each.kind, each.message, each.when) for each in signatures}) == len(BUGS)
