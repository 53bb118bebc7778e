"""One output compared with what was expected."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from bisect_bot.cases.expected import read_expected
from bisect_bot.model import Comparison, Tensor
from bisect_bot.verdicts import Tolerance
from bisect_bot.verdicts.compare import MAX_CHANNELS, compare, difference, elements

TOLERANCE = Tolerance(1e-3, 1.00001, 3.4028234663852886e38)


def tensor(values: ArrayLike, dtype: str = "float32") -> Tensor:
    array = np.asarray(values, dtype=dtype)
    return Tensor("y", dtype, array.shape, array.tobytes())


def compared(actual: ArrayLike, expected: ArrayLike, dtype: str = "float32") -> Comparison:
    return compare(tensor(expected, dtype), tensor(actual, dtype), "set", TOLERANCE)


def test_equal_outputs_match() -> None:
    result = compared([1, 2], [1, 2])
    assert (result.matches, result.mismatches, result.first, result.max_abs_err) == (True, 0, (), 0.0)
    assert (result.data_set, result.output, result.elements, result.problem) == ("set", "y", 2, None)


def test_mismatches_are_listed_by_their_index_in_each_dimension_in_c_order() -> None:
    result = compared([[0, 9], [0, 8]], [[0, 1], [0, 2]])
    assert [(m.index, m.actual, m.expected) for m in result.first] == [((0, 1), 9.0, 1.0), ((1, 1), 8.0, 2.0)]
    assert (result.mismatches, result.matches) == (2, False)


def test_only_the_first_ten_mismatches_are_listed_but_all_are_counted() -> None:
    result = compared(np.arange(1, 101), np.zeros(100))
    assert [m.index for m in result.first] == [(i,) for i in range(10)]
    assert (result.mismatches, result.elements) == (100, 100)


def test_a_scalar_has_an_empty_index() -> None:
    assert [(m.index, m.actual) for m in compared(2, 1).first] == [((), 2.0)]


def test_an_empty_output_matches() -> None:
    result = compared(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (result.matches, result.elements, result.all_zero, result.all_equal) == (True, 0, False, False)


def test_errors_are_the_largest_where_both_sides_are_finite() -> None:
    result = compared([1.5, math.inf, math.nan, 9.0], [1.0, 1.0, 1.0, 10.0])
    assert (result.max_abs_err, result.max_rel_err) == (1.0, 0.5)
    assert (result.nan, result.inf) == (1, 1)


def test_the_relative_error_leaves_out_what_is_expected_to_be_zero() -> None:
    assert compared([5, 1.25], [0, 1]).max_rel_err == 0.25


def test_expected_nan_and_infinities_match_only_their_like() -> None:
    special = [math.nan, math.inf, -math.inf]
    assert compared(special, special).matches
    assert [m.index for m in compared([math.inf, -math.inf, math.nan], special).first] == [(0,), (1,), (2,)]


def test_64_bit_integers_are_compared_and_measured_exactly() -> None:
    big = 2**62
    assert compared([big + 1], [big], "int64").max_abs_err == 1.0
    assert compared([big], [big], "int64").matches
    assert compared([-(2**63)], [2**63 - 1], "int64").max_abs_err == float(2**64 - 1)
    assert compared([2**64 - 1], [2**64 - 2], "uint64").first[0].actual == 2**64 - 1


def test_booleans_differ_by_one() -> None:
    result = compared([True, False], [True, True], "bool")
    assert (result.mismatches, result.max_abs_err, result.first[0].actual) == (1, 1.0, False)


@pytest.mark.parametrize(
    ("actual", "zero", "equal"),
    [([0, 0], True, True), ([0, -0.0], True, True), ([3, 3], False, True), ([3, 4], False, False), ([0], True, False)],
)
def test_zero_and_constant_outputs_are_told(actual: list[float], zero: bool, equal: bool) -> None:
    result = compared(actual, [7] * len(actual))
    assert (result.all_zero, result.all_equal) == (zero, equal)


def test_an_output_that_did_not_come_is_a_problem() -> None:
    result = compare(tensor([1, 2]), None, "set", TOLERANCE)
    assert (result.matches, result.problem, result.elements) == (False, "missing", 2)


def test_another_type_or_shape_is_a_problem_whatever_the_values() -> None:
    assert compare(tensor([1]), tensor([1], "float64"), "s", TOLERANCE).problem == "type float64 instead of float32"
    result = compare(tensor([1, 1]), tensor([[1, 1]]), "s", TOLERANCE)
    assert (result.problem, result.matches) == ("shape [1, 2] instead of [2]", False)


@pytest.mark.parametrize("dtype", ["float32", "int4", "nonsense"])
def test_data_that_does_not_fill_the_shape_is_a_problem(dtype: str) -> None:
    broken = Tensor("y", dtype, (4,), b"\0")
    problem = compare(broken, broken, "s", TOLERANCE).problem
    assert problem is not None
    assert problem.startswith("damaged data: ")


@settings(deadline=None)
@given(st.lists(st.integers(-8, 7)))
def test_signed_4_bit_elements_are_unpacked_low_half_first(values: list[int]) -> None:
    assert elements(_packed(values, "int4")).tolist() == values


@settings(deadline=None)
@given(st.lists(st.integers(0, 15)))
def test_unsigned_4_bit_elements_are_unpacked_low_half_first(values: list[int]) -> None:
    assert elements(_packed(values, "uint4")).tolist() == values


def _packed(values: list[int], dtype: str) -> Tensor:
    halves = [value & 15 for value in values] + [0] * (len(values) % 2)
    pairs = zip(halves[::2], halves[1::2], strict=True)
    return Tensor("y", dtype, (len(values),), bytes(low | high << 4 for low, high in pairs))


def test_the_padding_of_4_bit_data_is_not_compared() -> None:
    one, other = Tensor("y", "uint4", (1,), b"\x01"), Tensor("y", "uint4", (1,), b"\xf1")
    assert compare(one, other, "s", TOLERANCE).matches


def test_a_comparison_holds_plain_values_that_json_can_write() -> None:
    for dtype in ("float16", "int64", "bool"):
        result = compared([[1, 0]], [[0, 1]], dtype)
        assert json.loads(json.dumps(asdict(result)))["first"][0]["index"] == [0, 0]


def test_the_cosine_is_that_of_both_as_vectors() -> None:
    assert compared([1, 0], [1, 1]).cosine == pytest.approx(math.sqrt(0.5))
    assert compared([1e30, 0], [1e-30, 0]).cosine == pytest.approx(1.0)
    assert compared([-2, -4], [1, 2]).cosine == pytest.approx(-1.0)


@pytest.mark.parametrize("values", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_there_is_no_cosine_with_nothing_or_with_what_is_not_finite(values: list[float]) -> None:
    assert compared(values, [1, 2]).cosine is None
    assert compared([1, 2], values).cosine is None
    assert compared([], []).cosine is None
    assert compared([1, 2], [1, 2], "int32").cosine is None


def test_errors_are_told_by_channel_where_something_differs() -> None:
    wish = np.zeros((2, 3, 2, 2))
    got = wish.copy()
    got[1, 2, 0, 1], got[0, 1, 1, 1], got[0, 0, 0, 0] = 4, -3, math.nan
    assert compared(got, wish).channels == (0.0, 3.0, 4.0)
    assert compared(wish, wish).channels == ()
    assert compared([1, 2], [3, 4]).channels == ()


def test_no_more_channels_are_told_than_can_be_read() -> None:
    assert len(compared(np.ones((1, 1000)), np.zeros((1, 1000))).channels) == MAX_CHANNELS


def test_a_difference_is_said_in_words_with_the_first_wrong_element() -> None:
    one, other = tensor([[1, 2], [3, 4]]), tensor([[1, 2], [3, 5]])
    assert difference(one, one, TOLERANCE) is None
    assert difference(one, other, TOLERANCE) == "y[1,1] is 5 instead of 4"
    assert difference(one, tensor([1]), TOLERANCE) == "y: shape [1] instead of [2, 2]"
    assert difference(tensor(True, "bool"), tensor(False, "bool"), TOLERANCE) == "y is 0 instead of 1"


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8", "bool", "float32", "float64", "int8"])
def test_numbers_are_equal_whatever_type_they_came_in(dtype: str) -> None:
    wish = Tensor("y", "float64", (2,), np.array([1.0, 0.0]).tobytes(), any_type=True)
    array = np.array([[1, 0]], dtype)
    assert compare(wish, Tensor("y", dtype, (1, 2), array.tobytes()), "s", TOLERANCE).matches
    array = np.array([[1, 1]], dtype)
    assert not compare(wish, Tensor("y", dtype, (1, 2), array.tobytes()), "s", TOLERANCE).matches


@pytest.mark.parametrize(
    ("expected", "dtype", "actual", "matches"),
    [
        ([128009, 15], "int64", [128009, 15], True),
        ([128009, 15], "int64", [128010, 15], False),
        ([128009.0, 15.0], "int32", [128010, 15], False),
        ([128009, 15], "float32", [128010, 15], True),  # a float of its tolerance
        ([2**53 + 1], "int64", [2**53 + 1], True),
        ([2**53 + 1], "int64", [2**53 - 2], False),
        ([2**53 + 1], "int64", [2**53], False),
        ([2**64 - 1], "uint64", [2**64 - 1], True),
        ([2**64 - 1], "uint64", [2**64 - 2], False),
        ([2**64 - 1, 0], "int64", [-1, 0], False),
        ([0.5, 3.0], "int32", [0, 3], False),
        ([float("nan")], "int32", [0], False),
    ],
)
def test_whole_numbers_are_compared_exactly_with_an_output_of_integers(
    tmp_path: Path, expected: list[float], dtype: str, actual: list[int], matches: bool
) -> None:
    """From the JSON on: an integer that float64 does not hold stays what it is."""
    text = json.dumps({"y": expected}).replace("NaN", '"NaN"')
    (tmp_path / "expected.json").write_text(text)
    ((wish,),) = (data_set.expected for data_set in read_expected(tmp_path, "case"))
    came = Tensor("y", dtype, (1, len(actual)), np.array([actual], dtype).tobytes())
    assert compare(wish, came, "s", TOLERANCE).matches is matches
