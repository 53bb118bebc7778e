"""Builds that differ in what they answer, and a machine that can fall ill, for searches in a browser or without.

All builds are files of one folder, one a revision. A file named `machine` beside them says how the machine is: every
build asks for it whenever it runs. `observe` does what the builds do, for searches too many for a browser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from bisect_bot import paths
from bisect_bot.errors import NoBrowser
from bisect_bot.history import order_revisions
from bisect_bot.model import (
    Adapter,
    Artifact,
    Bundle,
    Case,
    DataSet,
    Ending,
    Loader,
    Observation,
    PageError,
    Request,
    Revision,
    Stage,
    Step,
    Target,
    Tensor,
    Trial,
)
from bisect_bot.probes import Probe, run_probe
from bisect_bot.session.bench import Bench
from bisect_bot.session.journal import Journal
from bisect_bot.session.tools import Tools
from bisect_bot.session.watcher import Silent
from bisect_bot.targets.browsers import BrowserConfig, load_config
from bisect_bot.verdicts import judge, load_rules, load_tolerances

CONFIG = load_config()
TOLERANCES = load_tolerances(paths.config_file("tolerances.toml"))
RULES = load_rules(paths.config_file("verdicts.toml"))
INPUT = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
# For searches without a browser.
NOWHERE = Target("chrome", "/nowhere/chrome", "1", "linux", "", "any", Adapter("planted", "planted"))
OnCase = Callable[[int, Observation], None]
HEALTHY, WRONG, THROWS, GONE = "healthy", "wrong", "throws", "gone"

# ANSWERS gives the words of this build by backend: "times N" (the case's output is N times its input) or "throws", and
# "smoke fails", where not even the smoke case is right.
MODULE = """
const ANSWERS = %s;
class Tensor { constructor(type, data, dims) { this.type = type; this.data = data; this.dims = dims; } }
class InferenceSession {
  static async create(bytes, options) {
    const session = new InferenceSession();
    session.isSmoke = new TextDecoder().decode(bytes).includes('smoke');
    session.answer = ANSWERS[options.executionProviders[0]];
    session.inputNames = ['x'];
    session.outputNames = ['y'];
    return session;
  }
  async run(feeds) {
    const machine = await (await fetch(new URL('machine', import.meta.url))).text();
    if (machine === 'throws') { throw new Error('the machine is ill'); }
    const factor = /times (-?\\d+)/.exec(this.answer);
    if (this.answer.includes('throws') && !this.isSmoke) { throw new Error('this build is wrong'); }
    if (this.answer.includes('smoke fails') && this.isSmoke) { throw new Error('the parts do not fit'); }
    const times = machine === 'wrong' ? 99 : this.isSmoke || !factor ? 1 : Number(factor[1]);
    return { y: new Tensor('float32', feeds.x.data.map((value) => value * times), feeds.x.dims) };
  }
  async release() { }
}
export { Tensor, InferenceSession };
"""


def revisions(count: int) -> tuple[Revision, ...]:
    """1.20.1, dev builds of 1.21.0, and 1.22.0: `count` in all."""
    dev = [f"1.21.0-dev.2024{1 + n // 28:02}{1 + n % 28:02}-{n:010x}" for n in range(count - 2)]
    return order_revisions(["1.20.1", *dev, "1.22.0"], {})


@dataclass
class Planted:
    """A folder of builds, their cases, and the machine that they run on. `names` tells which file is
    whose, `answers` what it says on each backend."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    backends: tuple[str, ...] = ("wasm", "webgpu")

    def build(self, revision: Revision, answers: str | Mapping[str, str]) -> None:
        """Makes the build of `revision`, which answers alike on all backends or as is said for each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        said = dict.fromkeys(self.backends, answers) if isinstance(answers, str) else dict(answers)
        self.names[revision.id] = f"{len(self.names)}.mjs"
        self.answers[self.names[revision.id]] = said
        (self.folder / self.names[revision.id]).write_text(MODULE % json.dumps(said))
        self.machine(HEALTHY)

    def machine(self, state: str) -> None:
        """How the machine is from now on: healthy, or it makes every build compute wrongly or throw."""
        (self.folder / "machine").write_text(state)

    def bundle_for(self, revision: Revision, _backend: str) -> Bundle:
        """The file of a revision."""
        return Bundle("planted", self.names[revision.id], Loader.MODULE, "planted", self.backends)

    def case(self, name: str) -> Case:
        """The case `name`, whose output must be its input."""
        model = self.folder / f"{name}.model"
        x, y = (helper.make_tensor_value_info(tensor, TensorProto.FLOAT, INPUT.shape) for tensor in ("x", "y"))
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], name, [x], [y])
        onnx.save(helper.make_model(graph), model)
        given, wanted = (Tensor(tensor, "float32", INPUT.shape, INPUT.tobytes()) for tensor in ("x", "y"))
        return Case(name, name, model, (DataSet("0", (given,), (wanted,)),), "files")

    def observe(self, probe: Probe, _config: BrowserConfig, on_case: OnCase) -> list[Observation]:
        """What the browser would see, without one."""
        if (self.folder / "machine").read_text() == GONE:
            raise NoBrowser("the browser does not start")
        said = self.answers[probe.bundle.file]
        seen = []
        for index, case in enumerate(probe.in_order):
            answer = said[probe.backend_of(index)]
            seen.append(self._observation(case, answer, probe, probe.backend_of(index)))
            on_case(index, seen[-1])
        return seen

    def _observation(self, case: Case, answer: str, probe: Probe, backend: str) -> Observation:
        machine = (self.folder / "machine").read_text()
        failed = (machine == THROWS) or ("smoke fails" if case.name == "smoke" else THROWS) in answer
        blank = Observation(case.name, probe.artifact.digest, probe.bundle.file, backend, Ending.ERROR)
        if failed:
            return replace(blank, errors=(PageError(Stage.RUN, "it throws"),))
        factor = re.search(r"times (-?\d+)", answer)
        times = 99 if machine == WRONG else int(factor[1]) if factor and case.name != "smoke" else 1
        outputs = Tensor("y", "float32", INPUT.shape, (INPUT * np.float32(times)).tobytes())
        return replace(blank, ending=Ending.COMPLETED, steps=(Step(outputs=((outputs,),)),))

    def bench(
        self,
        journal: Journal,
        request: Request,
        good: Revision | None = None,
        tried: Callable[[Trial], None] = lambda _trial: None,
        in_browser: bool = False,
    ) -> Bench:
        """A bench over the builds with one case; `tried` hears of each verdict."""
        artifact = Artifact("planted", "planted", "sha256:planted", self.folder)

        class Watching(Silent):
            def tried(self, trial: Trial) -> None:
                tried(trial)

        tools = Tools(
            journal=journal,
            judge=lambda observation, case: judge(observation, case, TOLERANCES, RULES),
            rules="",
            browsers=CONFIG,
            fetch=lambda _revision: (artifact, True),
            is_intact=lambda _artifact: True,
            bundle_for=self.bundle_for,
            watcher=Watching(),
            observe=run_probe if in_browser else self.observe,
        )
        session = journal.start_session(request)
        return Bench(session, request, (self.case("case"),), self.case("smoke"), tools, good)


def plant(folder: Path, line: Iterable[Revision], answer: Callable[[int], str | Mapping[str, str]]) -> Planted:
    """Builds for the revisions of `line`, by their place in it."""
    planted = Planted(folder)
    for index, revision in enumerate(line):
        planted.build(revision, answer(index))
    return planted
