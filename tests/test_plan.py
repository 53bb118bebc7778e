"""A plan runs each case more than once, and says in which step it first went wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from bisect_bot.model import Case, DataSet, Ending, Observation, PageError, Plan, Request, Stage, Step, Target, Tensor
from bisect_bot.probes import Limits, Probe, choose_target, plain_target, run_probe
from bisect_bot.probes.operations import merge_pages, operations
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import open_workshop
from bisect_bot.targets.browsers import load_config, locate
from tests.models import counting, one_node
from tests.planted import INPUT, planted_artifact, planted_bundle, planted_cases

CONFIG = load_config()


@pytest.fixture(scope="module")
def target() -> Target:
    """The installed browser, without a look at its adapter."""
    return plain_target(locate("chrome", CONFIG), "any", ())


@pytest.fixture
def other(tmp_path: Path) -> Case:
    """Another case, to be run in between."""
    return planted_cases(tmp_path / "other", "another model")[0]


def seen_of(target: Target, folder: Path, plan: Plan, *words: str, **changes: object) -> list[Observation]:
    """What a probe of planted cases observes with `plan`."""
    made = Probe(
        artifact=planted_artifact(folder / "artifact"),
        bundle=planted_bundle(),
        target=target,
        backend="wasm",
        cases=tuple(planted_cases(folder / "cases", *words)),
        limits=Limits(case_s=20, probe_s=120),
        plan=plan,
    )
    return run_probe(replace(made, **changes), CONFIG)  # type: ignore[arg-type]


def wrong_steps(seen: Observation) -> list[str]:
    return [s.name for s in seen.steps if any(not np.array_equal(t.array(), INPUT) for out in s.outputs for t in out)]


def runs(plan: Plan) -> list[str]:
    return list(dict.fromkeys(each.step for each in operations(plan)))


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        (Plan(), [""]),
        (Plan(runs=3), ["", "run 2", "run 3"]),
        (Plan(recreate=2), ["", "created again", "created again 2"]),
        (Plan(runs=2, recreate=1), ["", "run 2", "created again", "created again, run 2"]),
        (Plan(sessions=3), ["", "session 2", "session 3", "session 1 again"]),
        (
            Plan(runs=2, recreate=1, sessions=2, fresh_pages=3),
            [
                "",
                "run 2",
                "created again",
                "created again, run 2",
                "session 2",
                "session 1 again",
            ],
        ),
    ],
)
def test_steps_are_named_after_what_is_special_about_them(plan: Plan, steps: list[str]) -> None:
    assert runs(plan) == steps


@pytest.mark.parametrize("plan", [Plan(), Plan(runs=2, recreate=2, sessions=3)])
@pytest.mark.parametrize("between", [False, True])
def test_every_session_is_created_before_it_is_run_and_released_in_the_end(
    plan: Plan, other: Case, between: bool
) -> None:
    plan = replace(plan, between=other if between else None)
    alive: set[str] = set()
    for each in operations(plan):
        assert (each.session in alive) is (each.what != "create")
        if each.what != "run":
            (alive.add if each.what == "create" else alive.remove)(each.session)
    assert not alive


def test_the_other_model_is_alive_in_one_step_and_gone_in_the_next(other: Case) -> None:
    made = [(each.what, each.session, each.step) for each in operations(Plan(between=other))]
    assert made == [
        ("create", "1", ""),
        ("run", "1", ""),
        ("create", "other", "other model alive"),
        ("run", "other", "other model alive"),
        ("run", "1", "other model alive"),
        ("release", "other", "after other model"),
        ("run", "1", "after other model"),
        ("release", "1", "after other model"),
    ]


def test_pages_are_merged_into_one_observation_that_ends_as_the_last() -> None:
    tensor = Tensor("y", "float32", (1,), b"\0\0\0\0")
    first = Observation(
        "c",
        "a",
        "b",
        "wasm",
        Ending.COMPLETED,
        (Step("", ((tensor,),)), Step("run 2")),
        dispatches=3,
        gpu_errors=("x",),
    )
    second = replace(first, ending=Ending.ERROR, errors=(PageError(Stage.RUN, "no", step="run 2"),), gpu_errors=())
    merged = merge_pages([first, second])
    assert [step.name for step in merged.steps] == ["", "run 2", "page 2", "page 2: run 2"]
    assert (merged.ending, merged.errors[0].step, merged.dispatches) == (Ending.ERROR, "page 2: run 2", 6)
    assert merged.gpu_errors == ("x",)
    assert merge_pages([first]) is first


def test_a_session_taken_up_again_has_the_other_model_that_it_began_with(tmp_path: Path) -> None:
    model = tmp_path / "other.onnx"
    onnx.save(one_node("Add", {"a": counting(2), "b": counting(2)}, onnx.TensorProto.FLOAT, opset=13, ir=7), model)
    asked = Request("1", "2", ("builtin:smoke",), runs=2, between=str(model))
    with open_workshop(Silent(), tmp_path / "cache") as workshop:
        request, _ = workshop.pin(asked)
        first = workshop.plan(request)
        model.unlink()
        again, _ = workshop.pin(request)
        assert first.between is not None
        assert workshop.plan(again) == first == Plan(runs=2, between=first.between)


@pytest.mark.browser
def test_a_bug_that_needs_a_step_shows_in_that_step(target: Target, tmp_path: Path, other: Case) -> None:
    rest = ["session 2", "session 1 again", "other model alive", "after other model"]
    wrong = {
        "wrong-on-second-run": ["run 2", "created again, run 2"],
        "wrong-after-recreate": ["created again", "created again, run 2", *rest],
        "wrong-with-two-sessions": ["session 2", "session 1 again"],
        "wrong-while-other-alive": ["other model alive"],
        "wrong-after-other": ["after other model"],
        "echo": [],
    }
    plan = Plan(runs=2, recreate=1, sessions=2, between=other)
    seen = seen_of(target, tmp_path, plan, *wrong, isolate=True)
    assert [o.ending for o in seen] == [Ending.COMPLETED] * len(wrong)
    assert [s.name for s in seen[0].steps] == ["", "run 2", "created again", "created again, run 2", *rest]
    assert {word: wrong_steps(each) for word, each in zip(wrong, seen, strict=True)} == wrong


@pytest.mark.browser
def test_all_is_done_again_in_fresh_pages_and_the_smoke_case_is_not(target: Target, tmp_path: Path) -> None:
    smoke = planted_cases(tmp_path / "smoke", "echo smoke")[0]
    plan = Plan(runs=2, fresh_pages=2)
    seen = seen_of(
        target, tmp_path, plan, "wrong-in-second-page", "echo", smoke=smoke, smoke_backends=("wasm",), isolate=False
    )
    assert [[s.name for s in each.steps] for each in seen] == [
        [""],
        *[["", "run 2", "page 2", "page 2: run 2", "page 3", "page 3: run 2"]] * 2,
    ]
    # The smoke case has the first page: what is the second page for the browser is the first of the cases.
    assert wrong_steps(seen[1]) == ["", "run 2"]
    assert [o.case for o in seen] == ["0-echo smoke", "0-wrong-in-second-page", "1-echo"]


@pytest.mark.browser
def test_a_case_that_failed_in_one_page_is_not_run_in_the_next_but_others_are(target: Target, tmp_path: Path) -> None:
    seen = seen_of(target, tmp_path, Plan(runs=2, fresh_pages=1), "echo", "throw-on-second-run", "echo")
    assert [o.ending for o in seen] == [Ending.COMPLETED, Ending.ERROR, Ending.COMPLETED]
    assert [len(o.steps) for o in seen] == [4, 2, 4]
    assert (seen[1].errors[0].step, seen[1].errors[0].message) == ("run 2", "Error: kernel failed")
    assert len(seen[1].steps[0].outputs) == 1


@pytest.mark.browser
def test_a_hang_in_a_step_names_it_and_keeps_what_came_before(target: Target, tmp_path: Path) -> None:
    limits = Limits(case_s=3, probe_s=60)
    seen = seen_of(target, tmp_path, Plan(runs=3), "echo", "hang-on-second-run", "echo", limits=limits)
    assert [o.ending for o in seen] == [Ending.COMPLETED, Ending.HANG, Ending.COMPLETED]
    assert (seen[1].errors[0].step, [s.name for s in seen[1].steps]) == ("run 2", ["", "run 2"])
    assert np.array_equal(seen[1].outputs[0][0].array(), INPUT)
    assert [s.name for s in seen[2].steps] == ["", "run 2", "run 3"]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("words", "plan", "providers"),
    [
        ("places", Plan(recreate=2, sessions=2, fresh_pages=1), ["Js"]),
        ("places moves-on-recreate", Plan(recreate=1), ["Js", "CPU"]),
        ("places moves-in-second-page", Plan(fresh_pages=1), ["Js", "CPU"]),
    ],
)
def test_placements_are_those_of_every_session_in_every_page_but_not_of_the_other_model(
    target: Target, tmp_path: Path, words: str, plan: Plan, providers: list[str]
) -> None:
    (other,) = planted_cases(tmp_path / "other", "places other")
    (seen,) = seen_of(target, tmp_path, replace(plan, between=other), words)
    assert [(p.provider, p.nodes) for p in seen.placements] == [
        (f"{provider}ExecutionProvider", ("Neg (n)",)) for provider in providers
    ]


@pytest.mark.browser
def test_a_gpu_error_of_the_first_pages_release_is_of_the_first_page(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    (seen,) = seen_of(software, tmp_path, Plan(runs=2, fresh_pages=1), "gpu bad-on-release", backend="webgpu")
    assert [(s.name, len(s.gpu_errors)) for s in seen.steps] == [
        ("", 0),
        ("run 2", 1),
        ("page 2", 0),
        ("page 2: run 2", 1),
    ]


@pytest.mark.browser
def test_an_error_of_the_other_model_is_said_to_be_its(target: Target, tmp_path: Path) -> None:
    broken = planted_cases(tmp_path / "broken", "throw-in-create")[0]
    (seen,) = seen_of(target, tmp_path, Plan(between=broken), "echo")
    assert (seen.ending, seen.errors[0].stage, seen.errors[0].step) == (Ending.ERROR, Stage.CREATE, "other model alive")
    assert "the other model: Error: cannot create" in seen.errors[0].message
    assert [s.name for s in seen.steps] == [""]


def recurrent(folder: Path) -> Case:
    """Four frames of y = x + state, with y fed back to state."""
    (case,) = planted_cases(folder / "frames", "add")
    frames = []
    for number in range(1, 5):
        x, state = (Tensor(name, "float32", INPUT.shape, INPUT.tobytes()) for name in ("x", "state"))
        y = Tensor("y", "float32", INPUT.shape, (INPUT * (number + 1)).tobytes())
        frames.append(DataSet(f"frame {number}", (x, state), (y,)))
    return replace(case, data_sets=tuple(frames), feed=(("y", "state"),))


@pytest.mark.browser
def test_frames_get_what_the_session_itself_gave_and_every_run_begins_anew(target: Target, tmp_path: Path) -> None:
    case = recurrent(tmp_path)
    (seen,) = seen_of(target, tmp_path, Plan(runs=2), cases=(case,))
    assert [s.name for s in seen.steps] == ["", "run 2"]
    for step in seen.steps:
        for frame, (y,) in zip(case.data_sets, step.outputs, strict=True):
            assert np.array_equal(y.array(), frame.expected[0].array())


@pytest.mark.browser
def test_gpu_errors_and_dispatches_belong_to_their_step(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    other = planted_cases(tmp_path / "other", "gpu")[0]
    seen = seen_of(software, tmp_path, Plan(runs=2, between=other), "gpu", "gpu bad-shader", backend="webgpu")
    assert [s.dispatches for s in seen[0].steps] == [2, 2, 2, 2]
    # Those of the other model are not the case's.
    assert seen[0].dispatches == 8
    assert seen[0].gpu_errors == ()
    assert all(any("GPUValidationError" in text for text in s.gpu_errors) for s in seen[1].steps)
    assert sorted(seen[1].gpu_errors) == sorted(text for s in seen[1].steps for text in s.gpu_errors)


@pytest.mark.browser
@pytest.mark.parametrize(("words", "lost"), [("gpu destroy-in-run", True), ("gpu destroy-on-release", False)])
def test_a_device_destroyed_while_a_session_lives_is_lost_and_one_destroyed_on_release_is_not(
    tmp_path: Path, words: str, lost: bool
) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    (seen,) = seen_of(software, tmp_path, Plan(), words, backend="webgpu")
    assert any(text.startswith("device lost (destroyed)") for text in seen.gpu_errors) is lost
    assert bool(seen.steps[0].gpu_errors) is lost
