"""A session's judge goes by what its request demands, and its digest says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from bisect_bot import cases
from bisect_bot.cases import Making
from bisect_bot.errors import UsageError
from bisect_bot.model import Case, Ending, Observation, Outcome, Placement, Request, Step, Verdict
from bisect_bot.paths import config_file
from bisect_bot.session.judging import check_demands_of, judging
from bisect_bot.verdicts import load_rules, load_tolerances
from tests import models

TOLERANCES = load_tolerances(config_file("tolerances.toml"))
RULES = load_rules(config_file("verdicts.toml"))
ASKED = Request(good="1", bad="2", cases=("add",))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return cases.load(str(models.add(tmp_path)), Making(root=tmp_path / "cache"))


def judged(request: Request, case: Case, judges: tuple[Case, ...], shift: float = 0.0) -> Verdict:
    """The verdict on a run of `case` on the CPU, by the judge of a session of the cases `judges`."""
    outputs = tuple(
        replace(t, data=(t.array() * np.asarray(1 + shift, t.dtype)).astype(t.dtype).tobytes())
        for t in case.data_sets[0].expected
    )
    placed = (Placement("CPUExecutionProvider", ()),)
    seen = Observation(
        "add", "sha256:0", "b", "webgpu", Ending.COMPLETED, (Step(outputs=(outputs,)),), placements=placed
    )
    return judging(request, judges, TOLERANCES, RULES, "d").judge(seen, case)


def test_a_demand_holds_for_the_sessions_cases_and_no_other(case: Case) -> None:
    request = replace(ASKED, require_provider="webgpu:Add")
    assert judged(ASKED, case, (case,)).outcome is Outcome.GOOD
    assert judged(request, case, (case,)).outcome is Outcome.BAD
    assert judged(request, case, ()).outcome is Outcome.GOOD


def test_a_case_whose_expected_outputs_were_replaced_is_still_the_sessions(case: Case) -> None:
    other = replace(case, digest="f" * 64)
    assert judged(replace(ASKED, require_provider="webgpu"), other, (case,)).outcome is Outcome.BAD


def test_demands_change_the_digest_that_verdicts_are_kept_by(case: Case) -> None:
    requests = [
        ASKED,
        replace(ASKED, require_provider="webgpu"),
        replace(ASKED, require_provider="webgpu:Add"),
        replace(ASKED, foreground=("y0>0.5",)),
    ]
    digests = [judging(request, (case,), TOLERANCES, RULES, "d").digest for request in requests]
    assert digests[0] == "d"
    assert len(set(digests)) == len(digests)


def test_a_demand_that_no_case_can_meet_is_refused(case: Case) -> None:
    with pytest.raises(UsageError, match="no case has the operator Conv"):
        check_demands_of(replace(ASKED, require_provider="webgpu:Conv"), (case,), RULES)
    check_demands_of(replace(ASKED, require_provider="webgpu:Add", foreground=("y0>0",)), (case,), RULES)


@pytest.mark.parametrize("inside", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_a_model_of_float16_is_judged_by_its_tolerance_though_its_outputs_are_float32(
    tmp_path: Path, inside: int
) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=inside),
        helper.make_node("Add", ["h", "h"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    folder = models.save_case(tmp_path / "half", model, {"x": models.counting(2, 3)})
    case = cases.load(str(folder), Making(root=tmp_path / "cache"))
    rounded = judged(ASKED, case, (case,), shift=0.002)
    assert rounded.outcome is (Outcome.GOOD if inside == TensorProto.FLOAT16 else Outcome.BAD)
    assert judged(ASKED, case, (case,), shift=0.2).outcome is Outcome.BAD
