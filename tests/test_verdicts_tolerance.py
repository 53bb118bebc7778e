"""Tolerances: upstream's rule, element by element, against ours; and the file that holds the numbers."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bisect_bot.errors import ConfigError
from bisect_bot.model import Tensor
from bisect_bot.paths import config_file
from bisect_bot.verdicts import Tolerance, Tolerances, load_tolerances
from bisect_bot.verdicts.compare import compare
from bisect_bot.verdicts.tolerance import floats_match

SHIPPED = load_tolerances(config_file("tolerances.toml"))
WEBGPU = SHIPPED.of("webgpu")


def to_the_letter(tolerance: Tolerance) -> Tolerance:
    """`tolerance` without what we refuse beyond upstream."""
    return replace(tolerance, same_sign=False, zero_floor=math.inf)


def upstream_equal(a: float, b_given: float, t: Tolerance) -> bool:
    """`floatEqual` of js/web/test/test-runner.ts, for one element, as it stands there (doubles, as in JavaScript)."""
    b = b_given
    if a == b:
        return True
    if math.isnan(a) and math.isnan(b):
        return True
    if math.isnan(a) or math.isnan(b):
        return False
    if not math.isfinite(a) or not math.isfinite(b):
        return False
    b = max(min(b_given, t.max_float), -t.max_float)
    if abs(a - b_given) < t.absolute:
        return True
    return a != 0 and b != 0 and _divide(a, b) < t.relative and _divide(b, a) < t.relative


def _divide(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


FLOATS = st.floats(width=64)
NEAR = st.tuples(st.floats(-1e6, 1e6), st.floats(-3e-3, 3e-3)).map(lambda p: (p[0], p[0] + p[1]))
SCALED = st.tuples(st.floats(-1e30, 1e30), st.floats(1 - 3e-5, 1 + 3e-5)).map(lambda p: (p[0], p[0] * p[1]))
EDGES = st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-3, -1e-3, 3.4028234663852886e38, 1e300, 5e-324])
PAIRS = st.one_of(st.tuples(FLOATS, FLOATS), NEAR, SCALED, st.tuples(EDGES, EDGES), st.tuples(EDGES, FLOATS))


def _column(pairs: list[tuple[float, float]], side: int) -> NDArray[np.float64]:
    return np.array([pair[side] for pair in pairs])


def wrong_indices(actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance) -> set[int]:
    tensors = [Tensor("y", str(a.dtype), a.shape, a.tobytes()) for a in (expected, actual)]
    comparison = compare(tensors[0], tensors[1], "set", tolerance)
    assert comparison.mismatches <= 10, "the tests look at the list, which holds ten"
    return {mismatch.index[0] for mismatch in comparison.first}


@settings(deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=10), st.sampled_from(["webgpu", "wasm", "webgl", "webnn"]))
@example([(5.0, -5.0)], "webgpu")
@example([(1e300, 1e301), (1.0, 1.001), (0.0, 1e-3)], "webgpu")
def test_doubles_are_equal_exactly_when_upstream_says_so(pairs: list[tuple[float, float]], backend: str) -> None:
    tolerance = to_the_letter(SHIPPED.of(backend))
    wanted = {i for i, (a, b) in enumerate(pairs) if not upstream_equal(a, b, tolerance)}
    assert wrong_indices(_column(pairs, 0), _column(pairs, 1), tolerance) == wanted


@settings(deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=10))
@example([(5.0, -5.0)])
def test_as_shipped_only_values_of_opposite_sign_are_judged_otherwise(pairs: list[tuple[float, float]]) -> None:
    assert WEBGPU.same_sign
    wanted = set()
    for i, (a, b) in enumerate(pairs):
        opposite = (a < 0 < b or b < 0 < a) and abs(a - b) >= WEBGPU.absolute
        if opposite or not upstream_equal(a, b, WEBGPU):
            wanted.add(i)
    assert wrong_indices(_column(pairs, 0), _column(pairs, 1), WEBGPU) == wanted


HALVES = st.tuples(st.floats(width=16), st.floats(width=16))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@settings(deadline=None)
@given(pairs=st.lists(HALVES, min_size=1, max_size=10))
def test_narrower_floats_are_widened_and_compared_by_the_same_rule(
    dtype: str, pairs: list[tuple[float, float]]
) -> None:
    tolerance = to_the_letter(WEBGPU)
    wanted = {i for i, (a, b) in enumerate(pairs) if not upstream_equal(a, b, tolerance)}
    actual, expected = (_column(pairs, side).astype(dtype) for side in (0, 1))
    assert wrong_indices(actual, expected, tolerance) == wanted


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_integers_and_booleans_are_equal_only_when_they_are_the_same(dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo("int8" if dtype == "bool" else dtype)
    value = st.booleans() if dtype == "bool" else st.integers(int(limits.min), int(limits.max))
    pair = st.one_of(st.tuples(value, value), value.map(lambda v: (v, v)))
    pairs = data.draw(st.lists(pair, min_size=1, max_size=10))
    actual, expected = (np.array([p[side] for p in pairs], dtype=dtype) for side in (0, 1))
    assert wrong_indices(actual, expected, WEBGPU) == {i for i, (a, b) in enumerate(pairs) if a != b}


def test_the_shipped_numbers_are_upstreams() -> None:
    numbers = {n: (t.absolute, t.relative, t.max_float) for n, t in SHIPPED.backends.items()}
    largest = 3.4028234663852886e38
    assert numbers == {
        "webgpu": (1e-3, 1.00001, largest),
        "wasm": (1e-4, 1.000001, largest),
        "webgl": (1e-3, 1.00001, largest),
        "webnn": (1e-4, 1.000001, largest),
    }


def count_wrong(actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance) -> int:
    return int((~floats_match(actual.astype(np.float64), expected.astype(np.float64), tolerance)).sum())


def _half_sums(terms: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sums of `terms` random products, added one by one in float16 (right for such a kernel), and the exact ones."""
    generator = np.random.default_rng(terms)
    a, b = (generator.standard_normal((500, terms)).astype(np.float16) for _ in range(2))
    exact = (a.astype(np.float32) * b.astype(np.float32)).sum(axis=1).astype(np.float16)
    added = np.zeros(500, np.float16)
    for term in range(terms):
        added += a[:, term] * b[:, term]
    return added, exact


@pytest.mark.parametrize("terms", [1, 4, 16, 64, 256, 1024])
def test_sums_that_a_right_kernel_makes_in_float16_are_equal(terms: int) -> None:
    added, exact = _half_sums(terms)
    assert count_wrong(added, exact, SHIPPED.of("webgpu", "float16")) == 0


@pytest.mark.parametrize("terms", [4, 16, 64, 256])
def test_sums_in_float16_that_lack_a_term_are_not_equal(terms: int) -> None:
    generator = np.random.default_rng(terms)
    products = generator.standard_normal((500, terms)).astype(np.float16)
    exact, short = products.sum(axis=1), products[:, 1:].sum(axis=1)
    assert count_wrong(short, exact, SHIPPED.of("webgpu", "float16")) > 150


@pytest.mark.parametrize("sentinel", [-65504.0, -10_000.0, -math.inf, -3.4e38])
@pytest.mark.parametrize("share", [0.001, 0.7])
@pytest.mark.parametrize("factor", [0.0, -7.0])
def test_what_a_mask_leaves_does_not_widen_the_tolerance_of_the_values_around_it(
    sentinel: float, share: float, factor: float
) -> None:
    tolerance = SHIPPED.for_half().of("webgpu")
    expected = np.random.default_rng(0).standard_normal(1000)
    masked = np.arange(1000) < share * 1000
    expected[masked] = sentinel
    wrong = np.where(masked, expected, factor * np.where(masked, 0, expected))
    assert count_wrong(wrong, expected, tolerance) > 0.9 * (~masked).sum()
    near = np.where(masked, expected, expected + 0.01)
    assert count_wrong(near, expected, tolerance) == 0


@pytest.mark.parametrize(
    ("tolerances", "dtype", "expected", "actual"),
    [
        (SHIPPED.for_half(), "float32", 1e6, 65504.0),
        (SHIPPED.for_half(), "float64", 1e6, 65504.0),
        (SHIPPED, "float64", 1e300, 3.4028234663852886e38),
    ],
)
def test_only_a_types_own_maximum_stands_for_more(
    tolerances: Tolerances, dtype: str, expected: float, actual: float
) -> None:
    assert count_wrong(np.array([actual]), np.array([expected]), tolerances.of("webgpu", dtype)) == 1


def test_float16_has_one_tolerance_on_every_backend_and_float32_that_of_its_backend() -> None:
    half = SHIPPED.of("wasm", "float16")
    assert half == SHIPPED.of("webgpu", "float16")
    assert SHIPPED.of("wasm", "float32") != SHIPPED.of("webgpu", "float32") != half


def test_a_model_that_computes_in_float16_is_no_more_exact_for_widening_at_its_end() -> None:
    widened = SHIPPED.for_half()
    half = SHIPPED.of("webgpu", "float16")
    for dtype, largest in (("float32", 3.4028234663852886e38), ("float64", sys.float_info.max)):
        assert widened.of("webgpu", dtype) == replace(half, max_float=largest)
    assert widened.of("webgpu", "int64") == SHIPPED.of("webgpu", "int64")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nothing_but_zeros_is_wrong_however_small_the_expected_values_are(dtype: str) -> None:
    """Upstream takes a softmax over 10,000 classes that is all zero for right."""
    classes, spread = (10_000, 0.3) if dtype == "float32" else (600, 0.05)
    logits = np.random.default_rng(0).standard_normal(classes) * spread
    expected = (np.exp(logits) / np.exp(logits).sum()).astype(dtype)
    tolerance = SHIPPED.of("webgpu", dtype)
    assert count_wrong(np.zeros_like(expected), expected, tolerance)
    assert not count_wrong(expected * np.asarray(0.9999, dtype), expected, tolerance)


def test_zeros_in_the_place_of_what_rounding_leaves_are_right() -> None:
    residue = np.array([3e-5, -6e-5, 0.0], np.float32)
    assert wrong_indices(np.zeros_like(residue), residue, WEBGPU) == set()


def test_a_backend_without_a_tolerance_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="no tolerance for the backend 'cuda'"):
        SHIPPED.of("cuda")


GOOD = "schema = 1\nsame_sign = true\n[backends.wasm]\nabsolute = 1e-4\nrelative = 1.1\nmax_float = 9.0\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD.replace("1e-4", "-1"), "backends.wasm.absolute"),
        (GOOD.replace("1.1", "0.9"), "backends.wasm.relative"),
        (GOOD.replace("1e-4", "nan"), "backends.wasm.absolute"),
        (GOOD.replace("schema = 1", "schema = 2"), "schema"),
        (GOOD + "relativ = 2.0\n", "backends.wasm.relativ"),
        (GOOD.replace("same_sign = true\n", ""), "same_sign"),
        ("schema = ", "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_place_of_the_misfit(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tolerances.toml"
    path.write_text(GOOD)
    assert load_tolerances(path).of("wasm") == Tolerance(1e-4, 1.1, 9.0, same_sign=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_tolerances(path)


def test_a_file_that_is_not_there_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_tolerances(tmp_path / "nowhere.toml")
