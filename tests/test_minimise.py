"""A failing model becomes the part of it that fails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper

from bisect_bot.cases import Making, load
from bisect_bot.cases.anonymous import anonymous
from bisect_bot.cases.subgraph import part, trace
from bisect_bot.cli.minimise import told, values
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.model import Case, CaseKind, Comparison, Failure, Outcome, Signature, Verdict
from bisect_bot.session.minimise import _Search, alike
from tests.command import Shell

DECEMBER = "1.21.0-dev.20241205-d27fecd3d3"
GOOD = Verdict(Outcome.GOOD, "")
BAD = Verdict(Outcome.BAD, "wrong", Signature(Failure.MISMATCH, "", "y: other values"))


def chain(path: Path, length: int, odd: dict[int, Callable[[str, str], onnx.NodeProto]] | None = None) -> Path:
    """A model of `length` nodes in a row over float32[1,1,4,4]: Mul by -1 and Add of -1 in turn, but for `odd`.

    What one node gets wrong is as large at the end.
    """
    nodes, initial = [], [numpy_helper.from_array(np.full((1, 1, 4, 4), -1, np.float32), "w")]
    initial += [
        numpy_helper.from_array(np.array([0.4, 0.6, 0.6, 0.8], np.float32), "roi"),
        numpy_helper.from_array(np.array([4, 4], np.int64), "sizes"),
        numpy_helper.from_array(np.linspace(-3, 3, 32, dtype=np.float32).reshape(1, 4, 4, 2), "grid"),
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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, path)
    return path


def crop(x: str, y: str) -> onnx.NodeProto:
    """Resize in the mode tf_crop_and_resize over the axes 2 and 3."""
    return helper.make_node(
        "Resize",
        [x, "roi", "", "sizes"],
        [y],
        name="crop",
        axes=[2, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
    )


def sample(x: str, y: str) -> onnx.NodeProto:
    """GridSample, bilinear, zeros around: wrong on WebGPU in 1.21.0-dev.20241205-d27fecd3d3."""
    return helper.make_node("GridSample", [x, "grid"], [y], name="sample", mode="bilinear")


def search(path: Path, place: Path, is_bad: Callable[[str], bool]) -> _Search:
    """A search whose verdicts come from `is_bad`, by the name of a part ("whole" for the model)."""
    case = load(str(path), Making(place / "cache"))

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        return [BAD if each.name == case.name or is_bad(each.name) else GOOD for each in cases]

    return _Search(case, place, ask, lambda _text: None)


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
        _Search(case, tmp_path, lambda cases: [GOOD for _ in cases], lambda _text: None).run()


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


def signature(kind: Failure, message: str = "", when: str = "") -> Signature:
    """A failure of a case."""
    return Signature(kind, "a", message, when)


@pytest.mark.parametrize(
    ("mine", "whole", "expected"),
    [
        (signature(Failure.ALL_ZERO, "a: all zero"), signature(Failure.MISMATCH, "b: other values"), True),
        (signature(Failure.HANG, "hang"), signature(Failure.HANG, "hang"), True),
        (signature(Failure.ERROR), signature(Failure.MISMATCH), False),
        (signature(Failure.CRASH), signature(Failure.HANG), False),
        (signature(Failure.KERNEL_ERROR, "Conv: a"), signature(Failure.KERNEL_ERROR, "Conv: b"), True),
        (
            signature(Failure.KERNEL_ERROR, "Gather: int64 not supported"),
            signature(Failure.KERNEL_ERROR, "Conv: a"),
            False,
        ),
        (signature(Failure.KERNEL_ERROR, "Conv: oom"), signature(Failure.ERROR, "oom"), True),
        (signature(Failure.KERNEL_ERROR, "Conv: oom"), signature(Failure.ERROR, "Gather: not supported"), False),
        (signature(Failure.ERROR, "x"), signature(Failure.ERROR, "x"), True),
        (signature(Failure.ERROR, "x"), signature(Failure.ERROR, "y"), False),
        (signature(Failure.GPU_ERROR, "x"), signature(Failure.GPU_ERROR, "y"), False),
        (signature(Failure.MISMATCH, "x", "run 2"), signature(Failure.MISMATCH, "x", "run 2"), True),
        (signature(Failure.MISMATCH, "x"), signature(Failure.MISMATCH, "x", "run 2"), False),
        (signature(Failure.MISMATCH, "x", "run 2"), signature(Failure.MISMATCH, "x"), False),
    ],
)
def test_a_part_fails_alike_when_it_is_the_same_failure(mine: Signature, whole: Signature, expected: bool) -> None:
    assert alike(Verdict(Outcome.BAD, "", mine), whole) is expected
    assert not alike(GOOD, whole)


def two_data_sets(path: Path, first: float, second: float) -> Case:
    """A chain of four nodes as a case of two data sets, all of whose inputs are `first` and `second`."""
    folder = path / "two"
    folder.mkdir()
    chain(folder / "model.onnx", 4)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for number, value in enumerate((first, second)):
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        given = np.full((1, 1, 4, 4), value, np.float32)
        (place / "input_0.pb").write_bytes(numpy_helper.from_array(given).SerializeToString())
        (came,) = session.run(None, {"v0": given})
        (place / "output_0.pb").write_bytes(numpy_helper.from_array(came).SerializeToString())
    return load(str(folder), Making(path / "cache"))


@pytest.mark.parametrize("told", [True, False])
def test_the_data_set_that_fails_is_the_one_that_is_used(tmp_path: Path, told: bool) -> None:
    case = two_data_sets(tmp_path, 1, 5)
    compared = tuple(Comparison(each.name, "v4", i == 0, 16) for i, each in enumerate(case.data_sets)) if told else ()
    asked: list[str] = []

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        asked.extend(each.name for each in cases)
        return [
            replace(BAD, comparisons=compared)
            if any(np.max(tensor.array()) > 4 for data_set in each.data_sets for tensor in data_set.inputs)
            else GOOD
            for each in cases
        ]

    found = _Search(case, tmp_path, ask, lambda _text: None).run()
    assert alike(ask([found.case])[0], BAD.signature)  # type: ignore[arg-type]
    assert asked.count("nodes 1-4 Mul Add Mul") == (1 if told else 2)


def test_a_model_no_part_of_which_fails_cannot_be_taken_apart(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be taken apart") as raised:
        search(chain(tmp_path / "m.onnx", 4), tmp_path, lambda _name: False).run()
    assert "whole model" in raised.value.advice


def test_a_part_that_fails_only_at_times_is_not_handed_out(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def fails_thrice(name: str) -> bool:
        asked[name] += 1
        # In the batch, and to be confirmed; the last word is the third.
        return holds(name, 1) and (name.startswith("nodes 1-4 ") or asked[name] <= 2)

    with pytest.raises(CaseError, match="does not fail each time"):
        search(chain(tmp_path / "m.onnx", 4), tmp_path, fails_thrice).run()


@pytest.mark.parametrize(
    "changes", [{"kind": CaseKind.SCRIPT}, {"page": "manifest 1"}, {"feed": (("a", "b"),)}, {"data_sets": ()}]
)
def test_what_is_no_single_model_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    case = load(str(chain(tmp_path / "m.onnx", 2)), Making(tmp_path / "cache"))
    with pytest.raises(CaseError, match="cannot be taken apart: it is "):
        trace(replace(case, **changes))


def graph_of(path: Path, nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], **more: Any) -> Path:
    """A model of `nodes`, which take `x` float32[4,64] and give `outputs` of float32, by name with their shape."""
    graph = helper.make_graph(
        nodes,
        "secret graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        more.pop("initializer", []),
        sparse_initializer=more.pop("sparse_initializer", []),
    )
    opsets = [helper.make_opsetid("", 17), *more.pop("opsets", [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9, **more), path)
    return path


def test_nodes_that_pass_a_sequence_are_tested_together(tmp_path: Path) -> None:
    path = graph_of(
        tmp_path / "m.onnx",
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("SequenceConstruct", ["a", "x"], ["s"]),
            helper.make_node("ConcatFromSequence", ["s"], ["b"], axis=0),
            helper.make_node("Neg", ["b"], ["y"]),
        ],
        {"y": [8, 64]},
    )
    found = search(path, tmp_path, lambda name: holds(name, 2, 3)).run()
    assert (found.minimised.first, found.minimised.last, found.minimised.untested) == (1, 2, 2)
    assert any("2 of its nodes could not be run alone" in text for text in told(found.minimised, "1", "webgpu"))


def test_a_sequence_that_depends_on_no_input_does_not_break_the_search(tmp_path: Path) -> None:
    path = graph_of(
        tmp_path / "m.onnx",
        [
            helper.make_node("SequenceEmpty", [], ["none"]),
            helper.make_node("SequenceInsert", ["none", "x"], ["one"]),
            helper.make_node("ConcatFromSequence", ["one"], ["y"], axis=0),
        ],
        {"y": [4, 64]},
    )
    found = search(path, tmp_path, lambda name: holds(name, 2)).run()
    assert (found.minimised.first, found.minimised.last) == (0, 2)


def test_a_node_with_sparse_weights_is_tested_alone(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.array([2, 3], np.float32), "w")
    where = numpy_helper.from_array(np.array([[0, 1], [63, 2]], np.int64), "w_indices")
    path = graph_of(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Neg", ["m"], ["y"])],
        {"y": [4, 3]},
        sparse_initializer=[helper.make_sparse_tensor(values, where, [64, 3])],
    )
    found = search(path, tmp_path, lambda name: holds(name, 1)).run()
    assert (found.minimised.first, found.minimised.last, found.minimised.untested) == (0, 0, 0)


def test_outputs_that_are_left_out_or_several_are_cut_out_too(tmp_path: Path) -> None:
    path = graph_of(
        tmp_path / "m.onnx",
        [
            helper.make_node("Split", ["x"], ["a", "b"], axis=1),
            helper.make_node("Unsqueeze", ["a", "axes"], ["c"]),
            helper.make_node("RNN", ["c", "w", "r"], ["", "y"], hidden_size=2),
            helper.make_node("Relu", ["b"], ["z"]),
        ],
        {"y": [1, 1, 2], "z": [4, 32]},
        initializer=[
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
            numpy_helper.from_array(np.ones((1, 2, 32), np.float32), "w"),
            numpy_helper.from_array(np.ones((1, 2, 2), np.float32), "r"),
        ],
    )
    for faulty in (1, 3):
        found = search(path, tmp_path, lambda name, n=faulty: holds(name, n)).run()  # type: ignore[misc]
        assert (found.minimised.first, found.minimised.untested) == (faulty - 1, 0)


def secret_model(path: Path) -> Path:
    """One that keeps weights of its own in every place that a model has for them."""
    generator = np.random.default_rng(5)
    integers = generator.integers(-100, 100, (64, 64)).astype(np.int8)

    def floats(name: str = "secret tensor") -> TensorProto:
        return numpy_helper.from_array(generator.standard_normal(64).astype(np.float32), name)

    def branch(name: str) -> onnx.GraphProto:
        return helper.make_graph(
            [
                helper.make_node("Constant", [], [f"secret_const_{name}"], value=floats()),
                helper.make_node("Add", ["secret_a", f"secret_const_{name}"], [f"secret_b_{name}"]),
                helper.make_node("Mul", [f"secret_b_{name}", f"secret_w_{name}"], [f"secret_out_{name}"]),
            ],
            f"secret {name}",
            [],
            [helper.make_tensor_value_info(f"secret_out_{name}", TensorProto.FLOAT, ["secret_dim", 64])],
            [floats(f"secret_w_{name}")],
            doc_string="secret",
        )

    function = helper.make_function(
        "secret.domain",
        "SecretOp",
        ["u"],
        ["w"],
        [
            helper.make_node("Constant", [], ["c"], value_floats=floats().float_data or list(map(float, range(64)))),
            helper.make_node("Add", ["u", "c"], ["w"], name="secret node", doc_string="secret"),
        ],
        [helper.make_opsetid("", 17)],
    )
    unused = helper.make_function(
        "secret.domain",
        "SecretUnused",
        ["u"],
        ["u2"],
        [helper.make_node("Neg", ["u"], ["u2"])],
        [helper.make_opsetid("", 17)],
    )
    graph_of(
        path,
        [
            helper.make_node("SecretOp", ["x"], ["secret_a"], domain="secret.domain"),
            helper.make_node("Cast", ["secret_sum"], ["secret_more"], to=TensorProto.BOOL),
            helper.make_node(
                "If", ["secret_more"], ["secret_c"], then_branch=branch("then"), else_branch=branch("else")
            ),
            helper.make_node("DynamicQuantizeLinear", ["secret_c"], ["secret_q", "secret_scale", "secret_zero"]),
            helper.make_node(
                "MatMulInteger", ["secret_q", "secret_weight", "secret_zero"], ["secret_i"], name="secret"
            ),
            helper.make_node("Cast", ["secret_i"], ["y"], to=TensorProto.FLOAT, doc_string="secret"),
        ],
        {"y": [4, 64]},
        initializer=[numpy_helper.from_array(integers, "secret_weight")],
        opsets=[helper.make_opsetid("secret.domain", 1)],
        functions=[function, unused],
        producer_name="secret",
        doc_string="secret",
    )
    model = onnx.load(path)
    model.graph.node.insert(1, helper.make_node("ReduceSum", ["secret_a"], ["secret_sum"], keepdims=0))
    helper.set_model_props(model, {"secret": "secret"})
    onnx.save(model, path)
    return path


def big_tensors(model: onnx.ModelProto) -> set[bytes]:
    """The contents of everything in `model` with more than 16 numbers, by its own walk over the whole message."""
    found: set[bytes] = set()

    def walk(message: Any) -> None:
        if isinstance(message, TensorProto):
            array = numpy_helper.to_array(message)
            if array.size > 16:
                found.add(array.tobytes())
            return
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                for each in [value] if isinstance(value, Message) else value:
                    walk(each)
            elif field.name in ("floats", "ints") and len(value) > 16:
                found.add(np.asarray(value).tobytes())

    walk(model)
    return found


def test_nothing_of_the_models_own_is_left_when_it_says_so(tmp_path: Path) -> None:
    path = secret_model(tmp_path / "m.onnx")
    found = search(path, tmp_path, lambda name: holds(name, 1, 7)).run()
    assert found.minimised.anonymous, found.minimised.left
    cut = onnx.load(found.case.model)
    assert len(big_tensors(onnx.load(path))) == 6
    assert len(big_tensors(cut)) == 6
    assert not big_tensors(cut) & big_tensors(onnx.load(path))
    assert "secret" not in str(cut).lower()
    names = {name for node in cut.graph.node for name in (*node.input, *node.output)}
    assert all(re.fullmatch(r"v\d+", name) for name in names)


def test_what_has_to_stay_is_said(tmp_path: Path) -> None:
    table = np.arange(64, dtype=np.int64)[::-1].copy()
    path = graph_of(
        tmp_path / "m.onnx",
        [helper.make_node("Gather", ["x", "secret_rows"], ["y"], axis=1)],
        {"y": [4, 64]},
        initializer=[numpy_helper.from_array(table, "secret_rows")],
    )
    case = load(str(path), Making(tmp_path / "cache"))

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        """Bad with the model's own table only."""
        return [BAD if table.tobytes() in big_tensors(onnx.load(each.model)) else GOOD for each in cases]

    found = _Search(case, tmp_path, ask, lambda _text: None).run()
    assert found.minimised.random and not found.minimised.anonymous
    assert found.minimised.left == ("secret_rows (64 elements)",)
    assert "secret_rows (64 elements)" in values(found.minimised)


def test_random_values_keep_the_range_of_the_models_own(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "variance": np.array([0.5, 1, 2, 4] * 8, np.float32),
        "mask": np.array([0, -np.inf] * 16, np.float16),
        "int4": np.array([-3, 5] * 16).astype(ml_dtypes.int4),
        "uint64": np.array([0, 2**64 - 1] * 16, np.uint64),
        "bool": np.array([True, False] * 16),
        "same": np.full(32, 7, np.uint8),
        "axes": np.array([0, 2, 1], np.int64),
    }
    model = onnx.load(
        graph_of(tmp_path / "m.onnx", [], {}, initializer=[numpy_helper.from_array(v, k) for k, v in given.items()])
    )
    strange = anonymous(model, {}, 1, integers=True)
    assert strange.left == ()
    for tensor, (name, own) in zip(strange.model.graph.initializer, given.items(), strict=True):
        array = numpy_helper.to_array(tensor)
        assert (array.dtype, array.shape) == (own.dtype, own.shape)
        assert (array.tobytes() == own.tobytes()) is (name == "axes")
        if name in ("variance", "int4", "uint64"):
            assert own.min() <= array.min() and array.max() <= own.max()
    assert np.array_equal(np.isinf(numpy_helper.to_array(strange.model.graph.initializer[1])), np.isinf(given["mask"]))


@pytest.mark.network
@pytest.mark.browser
def test_a_wrong_node_among_sixty_nodes_is_found(tmp_path: Path, shell: Shell) -> None:
    model = chain(tmp_path / "big.onnx", 60, {33: sample})
    done = shell.run("minimise", str(model), "--at", DECEMBER, "--out", str(tmp_path / "part"))
    assert done.status == 0, done.err
    assert done.out.startswith("node 34 of 60 (GridSample)")
    assert "random" in done.out
    cut = onnx.load(tmp_path / "part" / "model.onnx").graph
    assert [node.op_type for node in cut.node] == ["GridSample"]
    assert "secret" not in str(cut)
    checked = shell.run("check", DECEMBER, "--case", str(tmp_path / "part"))
    assert (checked.status, checked.out.strip()) == (1, "bad")
    again = shell.run("minimise", str(model), "--at", DECEMBER, "--out", str(tmp_path / "part"))
    assert again.status == 2
    assert "holds something already" in again.err
