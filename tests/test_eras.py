"""The table of eras: which file a page loads of each published build, and who computes there."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot.builds import bundle_for, crossings, eras
from bisect_bot.errors import BuildUnusable, ConfigError, UsageError
from bisect_bot.model import Loader

DEV_NATIVE = "1.23.0-dev.20250821-75f848097e"


@pytest.mark.parametrize(
    ("version", "backend", "wish", "file", "implementation"),
    [
        ("1.14.0", "wasm", "default", "ort.min.js", "wasm"),
        ("1.14.0", "webgl", "default", "ort.min.js", "webgl"),
        ("1.15.0", "webgpu", "default", "ort.webgpu.min.js", "jsep"),
        ("1.16.3", "webgpu", "default", "ort.webgpu.min.js", "jsep"),
        ("1.16.3", "wasm", "default", "ort.min.js", "wasm"),
        ("1.17.3", "webgpu", "default", "esm/ort.webgpu.min.js", "jsep"),
        ("1.18.0", "wasm", "default", "esm/ort.wasm.min.js", "wasm"),
        ("1.18.0", "webgpu", "all", "esm/ort.all.min.js", "jsep"),
        ("1.19.0-dev.20240509-69cfcba38a", "webgpu", "default", "esm/ort.webgpu.min.js", "jsep"),
        ("1.19.0-dev.20240530-0000000000", "webgpu", "default", "ort.webgpu.min.mjs", "jsep"),
        ("1.19.2", "webgpu", "default", "ort.webgpu.bundle.min.mjs", "jsep"),
        ("1.20.1", "wasm", "default", "ort.wasm.min.mjs", "wasm"),
        ("1.20.1", "webgl", "all", "ort.all.bundle.min.mjs", "webgl"),
        ("1.21.0", "wasm", "default", "ort.wasm.bundle.min.mjs", "wasm"),
        ("1.22.0", "webgpu", "default", "ort.webgpu.bundle.min.mjs", "jsep"),
        (DEV_NATIVE, "webgpu", "default", "ort.webgpu.bundle.min.mjs", "native"),
        (DEV_NATIVE, "webgpu", "all", "ort.all.bundle.min.mjs", "jsep"),
        ("1.23.0", "wasm", "webgpu", "ort.webgpu.bundle.min.mjs", "wasm"),
        ("1.24.1", "webgpu", "jspi", "ort.jspi.bundle.min.mjs", "native"),
        ("1.31.0-dev.20260914-8d85527a0", "webgpu", "all", "ort.all.bundle.min.mjs", "jsep"),
        ("1.99.0", "webgpu", "default", "ort.webgpu.bundle.min.mjs", "native"),
    ],
)
def test_each_version_loads_what_an_import_loads(
    version: str, backend: str, wish: str, file: str, implementation: str
) -> None:
    bundle = bundle_for(version, backend, wish)
    assert (bundle.file, bundle.implementation) == (file, implementation)
    is_module = file.endswith(".mjs") or file.startswith("esm/")
    assert bundle.loader is (Loader.MODULE if is_module else Loader.SCRIPT)


@pytest.mark.parametrize(
    ("version", "backend", "wish", "reason"),
    [
        ("1.14.0", "webgpu", "default", r"no bundle webgpu: it came with 1\.15\.0"),
        ("1.16.3", "wasm", "all", r"it came with 1\.17\.0"),
        ("1.23.2", "webgpu", "jspi", r"it came with 1\.24\.0-dev\.20251020"),
        ("1.20.1", "webgl", "webgpu", r"has no backend webgl"),
        ("1.7.0-dev.0", "wasm", "default", r"older than 1\.8\.0"),
    ],
)
def test_a_bundle_that_a_version_lacks_is_unusable_and_says_since_when(
    version: str, backend: str, wish: str, reason: str
) -> None:
    with pytest.raises(BuildUnusable, match=reason):
        bundle_for(version, backend, wish)


@pytest.mark.parametrize(
    ("version", "backend", "wish"),
    [("1.20.1", "webnn", "default"), ("1.20.1", "wasm", "wasm"), ("1.20.1", "webgpu", ""), ("latest", "wasm", "all")],
)
def test_what_no_version_has_is_a_usage_error(version: str, backend: str, wish: str) -> None:
    with pytest.raises(UsageError):
        bundle_for(version, backend, wish)


def test_a_range_over_the_switch_to_the_native_provider_says_so() -> None:
    versions = ("1.20.1", "1.24.1", DEV_NATIVE, "1.22.0")
    (sentence,) = crossings(versions, "webgpu")
    assert sentence.startswith(f"1.22.0 runs JSEP, {DEV_NATIVE} the native provider: ")
    assert "native provider" in sentence
    assert crossings(versions, "webgpu", "all") == ()
    assert crossings(versions, "wasm") == ()
    assert crossings(("1.20.1", "1.22.0"), "webgpu") == ()


def test_versions_without_the_bundle_do_not_hide_a_crossing() -> None:
    assert crossings(("1.14.0", "1.15.0", "1.24.1"), "webgpu") == crossings(("1.15.0", "1.24.1"), "webgpu") != ()


def test_only_what_the_default_bundles_need_must_be_in_a_package() -> None:
    assert "ort.min.js" in eras.needed_files("1.14.0")
    needed = eras.needed_files("1.30.0")
    assert {"ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm"} <= needed
    assert "ort-wasm-simd-threaded.jsep.wasm" not in needed


GOOD = """
drop = []
[[era]]
since = "1.9.0"
[era.bundle.wasm]
file = "a.js"
loader = "script"
backends = ["wasm"]
wasm_files = []
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('since = "1.9.0"', 'since = "soon"'),
        ('since = "1.9.0"', 'since = "1.9.0-dev.20210901"'),
        ('loader = "script"', 'loader = "tag"'),
        ('file = "a.js"', 'file = "../a.js"'),
        ('["wasm"]', '["webgpu"]'),
        ("bundle.wasm", "bundle.default"),
        ("drop = []", "drops = []"),
        ("[[era]]", '[[era]]\nsince = "2.0.0"\n[[era]]'),
        ("[[era]]", "[[era"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "eras.toml"
    path.write_text(GOOD)
    assert eras.load(path).bundles("1.9.0")["wasm"].file == "a.js"
    broken = tmp_path / "broken.toml"
    broken.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        eras.load(broken)
