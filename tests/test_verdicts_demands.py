"""What is demanded beyond right values: where it ran, and shares above a threshold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_bot.errors import UsageError
from bisect_bot.model import (
    Case,
    DataSet,
    Demands,
    Ending,
    Failure,
    Foreground,
    Observation,
    Outcome,
    Placement,
    Step,
    Tensor,
    Verdict,
)
from bisect_bot.paths import config_file
from bisect_bot.verdicts import Facts, check_demands, judge, load_rules, load_tolerances, narrowed, parse_demands

TOLERANCES = load_tolerances(config_file("tolerances.toml"))
RULES = load_rules(config_file("verdicts.toml"))
CPU, JSEP, NATIVE = "CPUExecutionProvider", "JsExecutionProvider", "WebGpuExecutionProvider"


def tensor(values: list[float], name: str = "y") -> Tensor:
    array = np.asarray(values, dtype=np.float32)
    return Tensor(name, "float32", array.shape, array.tobytes())


CASE = Case("pool", "0" * 64, Path("m.onnx"), (DataSet("test_data_set_0", (), (tensor([1.0, 0.2]),)),), "files")
RIGHT = (Step(outputs=((tensor([1.0, 0.2]),),)),)
SEEN = Observation("pool", "sha256:0", "ort.mjs", "webgpu", Ending.COMPLETED, RIGHT, dispatches=3)


def parsed(provider: str = "", *foreground: str) -> Demands:
    return parse_demands(provider, foreground, RULES)


def judged(demands: Demands, *placements: Placement, **changes: object) -> Verdict:
    seen = replace(SEEN, placements=placements, **changes)  # type: ignore[arg-type]
    return judge(seen, CASE, TOLERANCES, RULES, demands)


def test_demands_are_read_as_they_are_typed() -> None:
    assert parsed() == Demands()
    assert parsed("webgpu") == Demands("webgpu")
    assert parsed("webgpu:Conv,MatMul") == Demands("webgpu", ("Conv", "MatMul"))
    watched = (Foreground("mask", 0.5), Foreground("", -1.5), Foreground("a>b", 2.0))
    assert parsed("", "mask>0.5", ">-1.5", "a>b > 2").foreground == watched


@pytest.mark.parametrize(
    "text", ["gpu", "webgl", "webgpu:", "webgpu:Conv,", "webgpu:Conv MatMul", ":Conv", "webgpu:Conv;"]
)
def test_a_provider_that_nobody_has_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError, match="names no provider") as caught:
        parsed(text)
    assert "webgpu:Conv,MatMul" in caught.value.advice


@pytest.mark.parametrize("text", ["mask", "mask>", "mask>half", "mask>nan", "mask>=0.5", "mask<0.5", ""])
def test_a_share_without_a_threshold_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError, match="no output and threshold") as caught:
        parsed("", text)
    assert "mask>0.5" in caught.value.advice


def test_an_output_has_one_threshold() -> None:
    for twice in (("m>0.5", "m>0.6"), (">0.5", ">0.6")):
        with pytest.raises(UsageError, match="twice"):
            parsed("", *twice)


@settings(deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_is_typed_is_read_or_refused(provider: str, foreground: list[str]) -> None:
    try:
        assert isinstance(parsed(provider, *foreground), Demands)
    except UsageError as error:
        assert str(error).isprintable() and error.advice


@pytest.mark.parametrize(
    ("placements", "message"),
    [
        ((Placement(CPU, ("Conv (c)",)), Placement(JSEP, ("Add (a)",))), "Conv on CPU"),
        (
            (Placement(CPU, ("Pad (p)", "Conv (c)", "Conv (d)")), Placement(NATIVE, ("Add (a)",))),
            "Conv on CPU, Pad on CPU",
        ),
        ((Placement(CPU, ()),), "all nodes on CPU"),
        ((Placement("QnnExecutionProvider", ("Conv (c)",)), Placement(JSEP, ("Add (a)",))), "Conv on Qnn"),
    ],
)
def test_a_node_that_ran_elsewhere_is_a_failure_of_its_own(placements: tuple[Placement, ...], message: str) -> None:
    verdict = judged(parsed("webgpu"), *placements)
    assert verdict.signature is not None
    assert (verdict.outcome, verdict.signature.kind, verdict.signature.message) == (
        Outcome.BAD,
        Failure.FALLBACK,
        message,
    )
    assert verdict.reason == f"{message}, but webgpu was required"


@pytest.mark.parametrize("provider", [JSEP, NATIVE])
def test_both_implementations_of_webgpu_are_webgpu(provider: str) -> None:
    assert judged(parsed("webgpu"), Placement(provider, ())).outcome is Outcome.GOOD
    assert judged(parsed("webgpu:Conv"), Placement(provider, ("Conv (c)",))).outcome is Outcome.GOOD


def test_of_named_operators_only_these_must_run_there() -> None:
    placements = (Placement(CPU, ("Shape (s)",)), Placement(JSEP, ("Conv (c)",)))
    assert judged(parsed("webgpu:Conv"), *placements).outcome is Outcome.GOOD
    assert judged(parsed("webgpu"), *placements).outcome is Outcome.BAD


def test_a_named_operator_is_on_the_provider_that_has_all_nodes() -> None:
    verdict = judged(parsed("webgpu:AveragePool"), Placement(CPU, ()))
    assert verdict.signature is not None
    assert verdict.signature.message == "AveragePool on CPU"


def test_an_operator_is_followed_into_what_the_optimiser_makes_of_it() -> None:
    verdict = judged(parsed("webgpu:Conv"), Placement(CPU, ("FusedConv (c)",)), Placement(JSEP, ("Add (a)",)))
    assert verdict.signature is not None
    assert verdict.signature.message == "Conv on CPU"


def test_an_operator_that_the_log_does_not_place_is_not_applicable() -> None:
    verdict = judged(parsed("webgpu:Conv"), Placement(CPU, ("Pad (p)",)), Placement(JSEP, ("Add (a)",)))
    assert (verdict.outcome, verdict.signature) == (Outcome.SKIP, None)
    assert verdict.reason == "not applicable: the log places no Conv"


def test_where_the_log_places_nothing_dispatches_tell() -> None:
    nowhere = judged(parsed("webgpu"), dispatches=0)
    assert nowhere.signature is not None
    assert (nowhere.signature.kind, nowhere.signature.message) == (Failure.FALLBACK, "nothing ran on the GPU")
    assert judged(parsed("webgpu")).outcome is Outcome.GOOD
    named = judged(parsed("webgpu:Conv"))
    assert (named.outcome, "does not say where nodes ran" in named.reason) == (Outcome.SKIP, True)


def test_wrong_outputs_count_before_the_place_where_they_were_computed() -> None:
    verdict = judged(parsed("webgpu"), Placement(CPU, ()), steps=(Step(outputs=((tensor([5.0, 0.2]),),)),))
    assert verdict.signature is not None
    assert verdict.signature.kind is Failure.MISMATCH


def test_a_run_on_another_backend_is_asked_nothing() -> None:
    assert judged(parsed("webgpu"), Placement(CPU, ()), backend="wasm").outcome is Outcome.GOOD


def test_a_demand_that_nothing_can_meet_is_refused_before_anything_runs() -> None:
    cases = (Facts(frozenset({"mask"}), frozenset({"Conv", "Add"})), Facts(frozenset({"y"}), frozenset({"Relu"})))
    check_demands(parsed("webgpu:Conv,Relu", "mask>0.5"), ("wasm", "webgpu"), cases)
    for demands, says in (
        (parsed("webgpu"), "asks nothing of --backend wasm"),
        (parsed("wasm:Conv,Gemm"), "no case has the operator Gemm"),
        (parsed("", "msk>0.5"), "no case has the output msk"),
    ):
        with pytest.raises(UsageError, match=says) as caught:
            check_demands(demands, ("wasm",), cases)
        assert caught.value.advice
    check_demands(parsed("wasm:Gemm", "msk>0"), ("wasm",), (*cases, Facts(frozenset())))


def test_of_a_case_only_the_operators_that_it_has_are_demanded() -> None:
    demands = parsed("webgpu:Conv,Relu")
    assert narrowed(demands, Facts(frozenset(), frozenset({"Relu", "Add"}))).operators == ("Relu",)
    assert narrowed(demands, Facts(frozenset(), frozenset({"Add"}))) == Demands()
    assert narrowed(demands, Facts(frozenset())) == demands
    assert narrowed(parsed("webgpu"), Facts(frozenset(), frozenset({"Add"}))) == parsed("webgpu")


def test_shares_above_a_threshold_are_said_where_they_differ() -> None:
    wrong = (Step(outputs=((tensor([0.3, 0.2]),),)),)
    verdict = judged(parsed("", ">0.5"), steps=wrong)
    assert verdict.comparisons[0].foreground == (0.0, 0.5)
    assert verdict.reason.endswith("; y>0.5: 0% instead of 50%")
    assert judged(parsed("", "y>0.1"), steps=wrong).reason.endswith("(y: other values)")
    assert "%" not in judged(parsed("", ">0.5")).reason


def test_a_threshold_that_names_an_output_goes_before_one_for_all() -> None:
    assert judged(parsed("", ">0.5", "y>0.1")).comparisons[0].foreground == (1.0, 1.0)
    assert judged(parsed("", "z>0.1")).comparisons[0].foreground is None


FUSED = (Placement(CPU, ("Mod (m)",)), Placement(JSEP, ("Gemm (m/MatMulAddFusion)",)))


@pytest.mark.parametrize(
    ("operators", "counts", "placements", "outcome", "says"),
    [
        ("MatMul", {"MatMul": 1, "Add": 1, "Mod": 1}, FUSED, Outcome.GOOD, "output"),
        ("MatMul,Add", {"MatMul": 1, "Add": 1, "Mod": 1}, FUSED, Outcome.GOOD, "output"),
        ("MatMul", {"MatMul": 2, "Mod": 1}, FUSED, Outcome.SKIP, "does not say where 1 of 2 MatMul went"),
        (
            "MatMul",
            {"MatMul": 1},
            (Placement(CPU, ("FusedGemm (m)",)), Placement(JSEP, ("Mul (u)",))),
            Outcome.BAD,
            "MatMul on CPU",
        ),
        # The Gemm is the model's own.
        ("MatMul", {"MatMul": 1, "Gemm": 1}, FUSED, Outcome.SKIP, "places no MatMul"),
        (
            "MatMul",
            {"MatMul": 1, "Gemm": 1},
            (Placement(CPU, ("Gemm (g)",)), Placement(JSEP, ("MatMul (m)",))),
            Outcome.GOOD,
            "output",
        ),
        (
            "MatMul",
            {"MatMul": 1, "Gemm": 1},
            (Placement(CPU, ("Gemm (g)",)), Placement(JSEP, ("Gemm (h)",))),
            Outcome.SKIP,
            "does not say which Gemm was made of MatMul",
        ),
        # Two are in one node.
        (
            "ReduceMean",
            {"ReduceMean": 2, "Mod": 1},
            (Placement(CPU, ("Mod (m)",)), Placement(JSEP, ("LayerNormalization (n)",))),
            Outcome.GOOD,
            "output",
        ),
        ("Relu", {"Relu": 1, "Conv": 1}, (Placement(NATIVE, ("FusedConv (c)",)),), Outcome.GOOD, "output"),
        ("Erf", {"Erf": 1}, (Placement(CPU, ("BiasGelu (b)",)), Placement(JSEP, ("Mul (u)",))), Outcome.BAD, "Erf on"),
        ("MatMul", {"MatMul": 1}, (Placement(JSEP, ()),), Outcome.GOOD, "output"),
    ],
)
def test_all_nodes_of_a_named_operator_are_accounted_for(
    operators: str, counts: dict[str, int], placements: tuple[Placement, ...], outcome: Outcome, says: str
) -> None:
    seen = replace(SEEN, placements=placements)
    verdict = judge(seen, CASE, TOLERANCES, RULES, parsed(f"webgpu:{operators}"), counts)
    assert verdict.outcome is outcome, verdict
    assert says in verdict.reason


ON_CPU, ON_GPU = (Placement(CPU, ()),), (Placement(JSEP, ()),)
SPLIT = (Placement(CPU, ("Shape (s)",)), Placement(JSEP, ("Conv (c)",)))


@pytest.mark.parametrize(
    ("placements", "outcome", "says"),
    [
        (SPLIT + ON_CPU, Outcome.GOOD, "output"),
        (ON_CPU + SPLIT, Outcome.GOOD, "output"),
        (SPLIT + SPLIT, Outcome.GOOD, "output"),
        ((*SPLIT, Placement(CPU, ("Conv (c)",)), Placement(JSEP, ("Add (a)",))), Outcome.BAD, "Conv on CPU"),
        (ON_CPU, Outcome.BAD, "Conv on CPU"),
        (ON_GPU + ON_GPU, Outcome.GOOD, "output"),
        (ON_CPU + ON_GPU, Outcome.SKIP, "does not say which session has Conv"),
    ],
)
def test_the_sessions_of_a_script_are_kept_apart(
    placements: tuple[Placement, ...], outcome: Outcome, says: str
) -> None:
    verdict = judged(parsed("webgpu:Conv"), *placements)
    assert (verdict.outcome, says in verdict.reason) == (outcome, True), verdict


def test_one_session_of_a_model_that_has_a_node_elsewhere_is_enough() -> None:
    seen = replace(SEEN, placements=SPLIT + ON_CPU)
    verdict = judge(seen, CASE, TOLERANCES, RULES, parsed("webgpu:Conv"), {"Conv": 1, "Shape": 1})
    assert verdict.reason == "Conv on CPU, but webgpu was required"
