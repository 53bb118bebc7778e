"""The recipes are data: which era a commit is of, what it depends on, and what can be wrong with the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bisect_bot import paths
from bisect_bot.builds import recipes
from bisect_bot.builds.recipes import Recipes, load
from bisect_bot.errors import BuildUnusable, ConfigError, UsageError
from bisect_bot.history.inputs import HAS, Content
from bisect_bot.model import Commit, Revision

JSEP = ("js/web/lib/wasm/wasm-utils-import.ts",)
NATIVE = (*JSEP, "js/build_webgpu.sh")


def commit(markers: tuple[str, ...] = JSEP, **keys: str) -> Commit:
    return Commit(Revision("0123456789"), (*keys.items(), *((HAS + path, "1") for path in markers)))


def keys(*files: str) -> dict[str, str]:
    """The keys of a commit that has these files."""
    content = Content(load().history_inputs())
    content.change([(file, "100644", "1" * 40) for file in files])
    return dict(content.keys())


@pytest.mark.parametrize(
    ("markers", "name"),
    [
        (JSEP, "JSEP"),
        (NATIVE, "native WebGPU"),
        ((*NATIVE, "onnxruntime/wasm/reduced_types.config"), "native WebGPU, reduced types"),
    ],
)
def test_an_era_is_known_by_paths_alone(markers: tuple[str, ...], name: str) -> None:
    assert load().of(commit(markers)).name == name


def test_a_recipe_that_is_like_another_differs_only_in_what_it_states() -> None:
    reduced, native = load().recipe[:2]
    assert (reduced.build, reduced.bundle, reduced.js_digest) == (native.build, native.bundle, native.js_digest)
    assert reduced.full_digest != native.full_digest
    assert "--include_ops_by_config" in reduced.full[0].command


def test_what_computes_webgpu_is_the_bundles_own() -> None:
    native = load().of(commit(NATIVE))
    assert native.bundle_for("webgpu").implementation == "native"
    assert native.bundle_for("webgpu", "all").implementation == "jsep"
    assert native.bundle_for("wasm").implementation == "wasm"
    with pytest.raises(BuildUnusable, match="no bundle jspi"):
        load().of(commit()).bundle_for("webgpu", "jspi")
    with pytest.raises(UsageError, match="no backend 'cuda'"):
        native.bundle_for("cuda")


def test_the_native_providers_sources_count_for_the_bundles_that_hold_it() -> None:
    one, other = (commit(NATIVE, wasm="same", native=native) for native in ("one", "other"))
    assert load().wasm_key(one, "webgpu") != load().wasm_key(other, "webgpu")
    assert load().wasm_key(one, "webgpu", "all") == load().wasm_key(other, "webgpu", "all")
    jsep, later = (commit(JSEP, wasm="same", native=native) for native in ("one", "other"))
    assert load().wasm_key(jsep, "webgpu") == load().wasm_key(later, "webgpu")


@pytest.mark.parametrize(
    "path",
    [
        "js/web/lib/wasm/jsep/webgpu/ops/matmul.ts",
        "js/common/lib/tensor.ts",
        "js/web/script/build.ts",
        "js/web/package-lock.json",
        "js/package-lock.json",
    ],
)
def test_what_can_change_a_bundle_is_an_input_of_it(path: str) -> None:
    assert keys(path)["js"]
    assert not keys(path)["wasm"]


@pytest.mark.parametrize(
    "path",
    [
        "VERSION_NUMBER",
        "onnxruntime/wasm/api.cc",
        "onnxruntime/core/providers/js/operators/conv.h",
        "onnxruntime/core/providers/cpu/nn/pool.cc",
        "onnxruntime/core/mlas/lib/wasm_simd/SgemmKernelWasmSimd.cpp",
        "onnxruntime/core/framework/op_kernel.cc",
        "onnxruntime/contrib_ops/cpu/bert/attention.cc",
        "include/onnxruntime/core/session/onnxruntime_c_api.h",
        "cmake/deps.txt",
        "cmake/external/emsdk",
        "tools/ci_build/build.py",
    ],
)
def test_what_the_webassembly_reads_is_an_input_of_it(path: str) -> None:
    assert keys(path)["wasm"]


@pytest.mark.parametrize(
    "path",
    [
        "js/web/test/unittests/opset.ts",
        "js/web/test/data/ops/matmul.jsonc",
        "js/web/script/test-runner-cli.ts",
        "js/react_native/package.json",
        "onnxruntime/test/providers/cpu/nn/pool_op_test.cc",
        "onnxruntime/python/tools/quantization/quantize.py",
        "onnxruntime/core/providers/cuda/nn/conv.cc",
        "onnxruntime/contrib_ops/cuda/bert/attention.cu",
        "onnxruntime/core/mlas/lib/amd64/QgemmU8S8KernelAvx2.asm",
        "onnxruntime/core/platform/windows/env.cc",
        "docs/build.md",
    ],
)
def test_what_no_build_reads_is_an_input_of_none(path: str) -> None:
    assert not any(keys(path)[group] for group in ("js", "wasm", "glue", "modules"))


def test_every_package_file_decides_which_packages_there_are() -> None:
    for path in load().paths("modules"):
        assert keys(path)["modules"]
        assert keys(path)["js"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"build": [{"command": ["x"], "products": {"../up": "ort.all.js"}}]}, "no path below the commit's files"),
        ({"build": [{"command": ["x"], "products": {"a.js": "other.js"}}]}, "makes no ort.all.js"),
        ({"bundle": {}}, "makes no bundle"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_place(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    data = tomllib.loads(paths.config_file("recipes.toml").read_text())
    jsep = next(recipe for recipe in data["recipe"] if recipe["name"] == "JSEP")
    with pytest.raises(ValueError, match=words):
        Recipes.model_validate({**data, "recipe": [jsep | change]})
    file = tmp_path / "recipes.toml"
    file.write_text("[inputs\n")
    with pytest.raises(ConfigError, match=r"recipes\.toml cannot be used"):
        recipes.load(file)
