"""What changed files say of how likely a candidate is: by the shipped rules, in the words of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot.errors import ConfigError
from bisect_bot.history.priors import Asked, Kind, Prior, load, mean, mean_weights, weigh

OPS = "js/web/lib/wasm/jsep/webgpu/ops"
COUNTS = load().counts


def prior(*files: str, operators: frozenset[str] | None = frozenset({"MatMul"}), backend: str = "webgpu") -> Prior:
    (found,) = weigh([files], Asked(operators, frozenset({backend})), load())
    return found


@pytest.mark.parametrize(
    ("operator", "path"),
    [
        ("MatMul", f"{OPS}/matmul.ts"),
        ("MatMul", f"{OPS}/matmul-shaders.ts"),
        ("MatMul", f"{OPS}/3rd-party/matmul_packed_webgpu.ts"),
        ("MatMul", "onnxruntime/core/providers/webgpu/math/matmul_packed.cc"),
        ("MatMul", "onnxruntime/core/providers/webgpu/math/subgroup_matrix_matmul.cc"),
        ("ConvTranspose", f"{OPS}/conv-transpose.ts"),
        ("ConvTranspose", f"{OPS}/3rd-party/conv_backprop_webgpu.ts"),
        ("ConvTranspose", "onnxruntime/core/providers/js/operators/conv_transpose.cc"),
        ("Conv", f"{OPS}/3rd-party/conv2d_mm_webgpu.ts"),
        ("Conv", f"{OPS}/3rd-party/conv_util.ts"),
        ("AveragePool", f"{OPS}/pool.ts"),
        ("BatchNormalization", f"{OPS}/batch-norm.ts"),
        ("DequantizeLinear", f"{OPS}/quantize-linear.ts"),
        ("ReduceMean", f"{OPS}/reduce-shared.ts"),
        ("Add", f"{OPS}/binary-op.ts"),
        ("Exp", f"{OPS}/unary-op.ts"),
        ("ArgMax", f"{OPS}/argminmax.ts"),
        ("GatherND", f"{OPS}/gather-nd.ts"),
        ("MatMulNBits", "onnxruntime/contrib_ops/js/quantization/matmul_nbits.cc"),
        ("Conv", f"{OPS}/conv-grouped.ts"),
        ("Conv", "onnxruntime/core/providers/webgpu/nn/grouped_conv.cc"),
        ("Resize", "onnxruntime/core/providers/webgpu/tensor/upsample.cc"),
        ("ReduceMean", "onnxruntime/core/providers/webgpu/reduction/reduction_ops.cc"),
        ("LogSoftmax", f"{OPS}/softmax.ts"),
        ("MultiHeadAttention", f"{OPS}/attention.ts"),
    ],
)
def test_a_file_is_known_for_an_operators_by_its_name(operator: str, path: str) -> None:
    assert prior(path, operators=frozenset({operator, "Resize"})).weight == COUNTS[Kind.OPERATOR]


@pytest.mark.parametrize(
    ("operator", "path"),
    [
        ("MatMul", f"{OPS}/matmulnbits.ts"),
        ("MatMul", "onnxruntime/contrib_ops/webgpu/quantization/matmul_bnb4.cc"),
        ("Split", "onnxruntime/contrib_ops/webgpu/bert/split_packed_qkv_with_rotary_embedding.wgsl.template"),
        ("ConvTranspose", f"{OPS}/conv-grouped.ts"),
        ("Conv", f"{OPS}/conv-transpose.ts"),
        ("Transpose", f"{OPS}/conv-transpose.ts"),
        ("Exp", f"{OPS}/expand.ts"),
        ("Mul", f"{OPS}/multihead-attention.ts"),
        ("Add", f"{OPS}/unary-op.ts"),
        ("Softmax", f"{OPS}/argminmax.ts"),
        ("ConvTranspose", f"{OPS}/transpose.ts"),
        ("ConvTranspose", f"{OPS}/conv.ts"),
        ("Gather", f"{OPS}/gather-elements.ts"),
        ("GatherElements", f"{OPS}/gather.ts"),
        ("Gather", "onnxruntime/core/providers/webgpu/tensor/gather_nd.cc"),
        ("Reshape", f"{OPS}/shape.ts"),
    ],
)
def test_a_file_of_another_operator_is_not_taken_for_it(operator: str, path: str) -> None:
    assert prior(path, operators=frozenset({operator})).weight == COUNTS[Kind.SIBLING]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{OPS}/common.ts", Kind.HELPER),
        ("js/web/lib/wasm/jsep/webgpu/program-manager.ts", Kind.HELPER),
        ("js/web/lib/wasm/jsep/backend-webgpu.ts", Kind.PROVIDER),
        ("js/web/lib/wasm/wasm-core-impl.ts", Kind.SHARED),
        ("onnxruntime/core/graph/graph.cc", Kind.SHARED),
        ("js/web/package-lock.json", Kind.PACKAGING),
        ("js/web/lib/wasm/jsep/webnn/tensor-manager.ts", Kind.ELSEWHERE),
        ("js/web/lib/onnxjs/backends/webgl/ops/matmul.ts", Kind.ELSEWHERE),
        ("onnxruntime/core/providers/coreml/builders/impl/matmul.cc", Kind.ELSEWHERE),
        ("onnxruntime/core/providers/new_provider/matmul.cc", Kind.ELSEWHERE),
    ],
)
def test_each_place_of_the_tree_counts_as_what_it_is_to_the_provider_under_test(path: str, kind: Kind) -> None:
    assert prior(path).weight == COUNTS[kind]


def test_what_is_elsewhere_for_one_provider_is_the_point_for_another() -> None:
    webgl = "js/web/lib/onnxjs/backends/webgl/ops/matmul.ts"
    assert prior(webgl, backend="webgl").weight == COUNTS[Kind.OPERATOR] > prior(webgl).weight
    kernel = "onnxruntime/core/providers/cpu/math/matmul.cc"
    assert prior(kernel, backend="wasm").weight == COUNTS[Kind.OPERATOR] > prior(kernel).weight


@pytest.mark.parametrize("operator", ["Add", "Exp"])
def test_a_file_of_two_families_is_that_of_the_operators_of_both(operator: str) -> None:
    kernels = "onnxruntime/core/providers/cpu/math/element_wise_ops.cc"
    assert prior(kernels, operators=frozenset({operator}), backend="wasm").weight == COUNTS[Kind.OPERATOR]
    assert prior(kernels, backend="wasm").weight == COUNTS[Kind.SIBLING]


def test_the_kernel_of_another_provider_is_not_called_another_operators() -> None:
    assert prior("onnxruntime/core/providers/cpu/math/matmul.cc") == Prior(
        COUNTS[Kind.ELSEWHERE], "touches only other execution providers (math/matmul.cc)"
    )


def test_a_reason_that_says_only_names_all_that_is_touched_in_whatever_order_the_files_come() -> None:
    files = ["js/web/package.json", f"{OPS}/pad.ts"]
    told = "touches only other operators (ops/pad.ts) and how it is built (web/package.json)"
    assert prior(*files) == prior(*reversed(files)) == Prior(COUNTS[Kind.SIBLING], told)
    assert prior(*files, "js/web/lib/wasm/jsep/webnn/a.ts").reason == (
        "touches only other operators (ops/pad.ts), how it is built (web/package.json)"
        " and other execution providers (webnn/a.ts)"
    )


def test_near_zero_is_never_zero() -> None:
    assert 0 < prior("js/web/lib/wasm/jsep/webnn/webnn.d.ts").weight < 0.05


def test_the_most_telling_file_decides_and_is_named() -> None:
    found = prior("js/web/package.json", f"{OPS}/matmul.ts", f"{OPS}/pad.ts")
    assert found == Prior(COUNTS[Kind.OPERATOR], "touches ops/matmul.ts: an operator of the case")
    assert prior("js/web/lib/wasm/jsep/webnn/a.ts").reason.startswith("touches only other execution providers")


def test_many_changed_files_count_for_more_but_not_those_of_other_providers() -> None:
    many = [f"onnxruntime/core/graph/{number}.cc" for number in range(60)]
    assert prior(*many).weight == 2 * prior(*many[:2]).weight
    assert prior(*many).reason.endswith("; 60 files")
    elsewhere = [f"onnxruntime/core/providers/qnn/{number}.cc" for number in range(60)]
    assert prior(many[0], *elsewhere) == prior(many[0])


def test_of_a_script_nobody_knows_the_operators_so_all_kernels_count_alike() -> None:
    assert prior(f"{OPS}/pad.ts", operators=None).weight == COUNTS[Kind.PROVIDER]


def test_what_nobody_knows_is_neither_likely_nor_unlikely_and_what_changes_nothing_is_unlikely() -> None:
    unknown, nothing = weigh([None, ()], Asked(frozenset({"MatMul"}), frozenset({"webgpu"})), load())
    assert unknown.weight == COUNTS[Kind.SHARED] and nothing.weight == COUNTS[Kind.ELSEWHERE]
    assert nothing.reason == "changes no file that is weighed"


def test_cases_that_are_searched_together_count_the_same_whatever_their_numbers() -> None:
    assert mean_weights([[9, 1, 3], [5, 300, 100]]) == (1.0, 1.0, 1.0)
    assert mean_weights([]) == ()
    together = mean([[Prior(1, "?"), Prior(3, "a"), Prior(1, "b")], [Prior(1, "?"), Prior(1, "c"), Prior(1, "d")]])
    assert [each.weight for each in together] == [1.0, 1.25, 0.75]
    assert [each.reason for each in together][1:] == ["a", "b"]


def test_rules_that_would_rule_a_candidate_out_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "priors.toml"
    path.write_text("[counts]\noperator = 8.0\nelsewhere = 0.0\n")
    with pytest.raises(ConfigError, match=r"priors\.toml"):
        load(path)
    path.write_text("[counts]\nnonsense = 1.0\n")
    with pytest.raises(ConfigError, match=r"priors\.toml"):
        load(path)
