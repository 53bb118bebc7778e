"""A failing model becomes the part of it that fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bisect_bot.cases import Making, load
from bisect_bot.cases.subgraph import part, trace
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.model import Case, Failure, Outcome, Signature, Verdict
from bisect_bot.session.minimise import _Search, alike
from tests.command import Shell

GOOD = Verdict(Outcome.GOOD, "")
BAD = Verdict(Outcome.BAD, "wrong", Signature(Failure.MISMATCH, "", "y: other values"))


def chain(path: Path, length: int, odd: dict[int, Callable[[str, str], onnx.NodeProto]] | None = None) -> Path:
    """A model of `length` nodes in a row over float32[1,1,4,4]: Mul by a weight and Add in turn, but for `odd`."""
    nodes, initial = [], [numpy_helper.from_array(np.full((1, 1, 4, 4), 0.5, np.float32), "w")]
    initial += [
        numpy_helper.from_array(np.array([0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8], np.float32), "roi"),
        numpy_helper.from_array(np.array([1, 1, 4, 4], np.int64), "sizes"),
    ]
    for index in range(length):
        x, y = f"v{index}", f"v{index + 1}"
        make = (odd or {}).get(index)
        op = "Add" if index % 2 else "Mul"
        nodes.append(make(x, y) if make else helper.make_node(op, [x, "w"], [y], name=f"{op.lower()}_{index}"))
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "secret",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info(f"v{length}", TensorProto.FLOAT, [1, 1, 4, 4])],
        [tensor for tensor in initial if tensor.name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.save(model, path)
    return path


def crop(x: str, y: str) -> onnx.NodeProto:
    """Resize in the mode tf_crop_and_resize: wrong on WebGPU in 1.20.1."""
    return helper.make_node(
        "Resize",
        [x, "roi", "", "sizes"],
        [y],
        name="crop",
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
    )


def search(path: Path, place: Path, is_bad: Callable[[str], bool]) -> _Search:
    """A search whose verdicts come from `is_bad`, by the name of a part ("whole" for the model)."""
    case = load(str(path), Making(place / "cache"))

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        return [BAD if each.name == case.name or is_bad(each.name) else GOOD for each in cases]

    return _Search(case, trace(case), place, ask, lambda _text: None)


def holds(name: str, *nodes: int) -> bool:
    """Whether the part called `name` holds all of `nodes`, which count from 1."""
    found = re.match(r"nodes (\d+)-(\d+) ", name)
    return found is not None and int(found[1]) <= min(nodes) and max(nodes) <= int(found[2])


@pytest.mark.parametrize(
    ("faulty", "others"), [((7,), ()), ((1,), ()), ((12,), ()), ((7, 9), ("Mul mul_8",)), ((5, 6, 7), ("x", "y"))]
)
def test_the_first_node_that_fails_alone_is_kept(
    tmp_path: Path, faulty: tuple[int, ...], others: tuple[str, ...]
) -> None:
    found = search(chain(tmp_path / "m.onnx", 12), tmp_path, lambda name: any(holds(name, n) for n in faulty)).run()
    assert (found.minimised.first, found.minimised.last) == (faulty[0] - 1, faulty[0] - 1)
    assert len(found.minimised.others) == len(others)
    assert found.minimised.nodes == 12


@pytest.mark.parametrize("faulty", [(3, 4), (1, 12), (5, 8), (1, 2), (11, 12)])
def test_nodes_that_fail_only_together_are_kept_together(tmp_path: Path, faulty: tuple[int, int]) -> None:
    found = search(chain(tmp_path / "m.onnx", 12), tmp_path, lambda name: holds(name, *faulty)).run()
    assert (found.minimised.first + 1, found.minimised.last + 1) == faulty
    assert len(onnx.load(found.case.model).graph.node) == faulty[1] - faulty[0] + 1


def test_a_model_that_does_not_fail_cannot_be_taken_apart(tmp_path: Path) -> None:
    case = load(str(chain(tmp_path / "m.onnx", 3)), Making(tmp_path / "cache"))
    with pytest.raises(UsageError, match="is good there"):
        _Search(case, trace(case), tmp_path, lambda cases: [GOOD for _ in cases], lambda _text: None).run()


def test_a_part_gives_what_the_whole_computed_there(tmp_path: Path) -> None:
    case = load(str(chain(tmp_path / "m.onnx", 5)), Making(tmp_path / "cache"))
    traced = trace(case)
    (tmp_path / "part").mkdir()
    part(traced, 1, 3, tmp_path / "part", "part")
    found = load(str(tmp_path / "part"), Making(tmp_path / "cache")).data_sets[0]
    assert [tensor.name for tensor in found.inputs] == ["v1"]
    assert np.array_equal(found.inputs[0].array(), traced.values["v1"])
    assert np.allclose(found.expected[0].array(), traced.values["v4"])


def test_values_that_a_subgraph_takes_from_around_it_become_inputs(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Add", ["v0", "v1"], ["sum"])],
        "branch",
        [],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 1, 4, 4])],
    )
    path = chain(
        tmp_path / "m.onnx",
        3,
        {
            1: lambda x, y: helper.make_node("ReduceSum", [x], ["total"], keepdims=0),
            2: lambda x, y: helper.make_node("Identity", ["v1"], [y]),
        },
    )
    model = onnx.load(path)
    model.graph.node.extend(
        [
            helper.make_node("Greater", ["total", "total"], ["more"]),
            helper.make_node("If", ["more"], ["y"], then_branch=branch, else_branch=branch),
        ]
    )
    model.graph.output[0].name = "y"
    onnx.save(model, path)
    traced = trace(load(str(path), Making(tmp_path / "cache")))
    (tmp_path / "part").mkdir()
    part(traced, 4, 4, tmp_path / "part", "part")
    assert [value.name for value in onnx.load(tmp_path / "part" / "model.onnx").graph.input] == ["more", "v0", "v1"]


def test_what_depends_on_no_input_stays_inside(tmp_path: Path) -> None:
    path = chain(tmp_path / "m.onnx", 3, {1: crop})
    model = onnx.load(path)
    sizes = next(tensor for tensor in model.graph.initializer if tensor.name == "sizes")
    model.graph.initializer.remove(sizes)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["sizes"], value=sizes))
    onnx.save(model, path)
    traced = trace(load(str(path), Making(tmp_path / "cache")))
    assert traced.moving() == (1, 2, 3)
    (tmp_path / "part").mkdir()
    part(traced, 2, 2, tmp_path / "part", "part")
    cut = onnx.load(tmp_path / "part" / "model.onnx").graph
    assert [value.name for value in cut.input] == ["v1"]
    assert {tensor.name for tensor in cut.initializer} == {"roi", "sizes"}


def test_a_part_that_nobody_uses_cannot_be_cut_out(tmp_path: Path) -> None:
    path = chain(tmp_path / "m.onnx", 2)
    model = onnx.load(path)
    model.graph.node.append(helper.make_node("Relu", ["v1"], ["nobody"]))
    onnx.save(model, path)
    traced = trace(load(str(path), Making(tmp_path / "cache")))
    (tmp_path / "part").mkdir()
    with pytest.raises(CaseError, match="no output"):
        part(traced, 2, 2, tmp_path / "part", "part")


@pytest.mark.parametrize(
    ("mine", "whole", "expected"),
    [
        (Failure.ALL_ZERO, Failure.MISMATCH, True),
        (Failure.KERNEL_ERROR, Failure.ERROR, True),
        (Failure.HANG, Failure.HANG, True),
        (Failure.ERROR, Failure.MISMATCH, False),
        (Failure.CRASH, Failure.HANG, False),
    ],
)
def test_a_part_fails_alike_when_it_fails_in_the_same_manner(mine: Failure, whole: Failure, expected: bool) -> None:
    verdict = Verdict(Outcome.BAD, "", Signature(mine, "a", "b"))
    assert alike(verdict, Signature(whole, "c", "d")) is expected
    assert not alike(GOOD, Signature(whole, "c", "d"))


@pytest.mark.network
@pytest.mark.browser
def test_a_wrong_resize_among_sixty_nodes_is_found(tmp_path: Path, shell: Shell) -> None:
    model = chain(tmp_path / "big.onnx", 60, {33: crop})
    done = shell.run("minimise", str(model), "--at", "1.20.1", "--out", str(tmp_path / "part"))
    assert done.status == 0, done.err
    assert done.out.startswith("node 34 of 60 (Resize)")
    assert "random" in done.out
    cut = onnx.load(tmp_path / "part" / "model.onnx").graph
    assert [node.op_type for node in cut.node] == ["Resize"]
    assert "secret" not in str(cut)
    checked = shell.run("check", "1.20.1", "--case", str(tmp_path / "part"))
    assert (checked.status, checked.out.strip()) == (1, "bad")
    again = shell.run("minimise", str(model), "--at", "1.20.1", "--out", str(tmp_path / "part"))
    assert again.status == 2
    assert "holds something already" in again.err
