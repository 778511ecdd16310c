"""The compiled passes over a matrix against numpy's dense linear algebra."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.jit import ARITHMETIC
from oahu.learners import matrix_kernels

# Helpers are Python functions until a kernel calls them: compile them as in a kernel.
(
    add_outer,
    dot,
    largest,
    overflow_limit,
    find_negative_eigenvalue,
    project,
    project_two,
    inverse_quadratic_form,
    unit_items,
) = (
    numba.njit(**ARITHMETIC)(helper)
    for helper in (
        matrix_kernels.add_outer,
        matrix_kernels.dot,
        matrix_kernels.largest,
        matrix_kernels.overflow_limit,
        matrix_kernels.find_negative_eigenvalue,
        matrix_kernels.project,
        matrix_kernels.project_two,
        matrix_kernels.inverse_quadratic_form,
        matrix_kernels.unit_items,
    )
)

#: Twice the tolerance of the Lanczos iteration, in units of the machine epsilon and of the norm.
ROUNDINGS = 100


@dataclass(frozen=True)
class Case:
    """A positive semi-definite matrix, a vector, and the factor of its outer product to subtract."""

    matrix: NDArray[np.floating]
    z: NDArray[np.floating]
    step: float

    @property
    def result(self) -> NDArray[np.float64]:
        z = self.z.astype(np.float64)
        return self.matrix.astype(np.float64) - self.step * np.outer(z, z)

    @property
    def scale(self) -> float:
        """The norm of the numbers in the computation."""
        return float(np.linalg.norm(self.matrix.astype(np.float64), 2) + self.step * np.linalg.norm(self.z) ** 2)

    @property
    def rounding(self) -> float:
        return ROUNDINGS * float(np.finfo(self.matrix.dtype).eps) * self.scale


def orthogonal(d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(np.linalg.qr(rng.standard_normal((d, d)))[0])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    d, seed = draw(st.integers(1, 60)), draw(st.integers(0, 2**32))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["zero", "identity", "spread", "two values", "rank"]))
    spectrum = {
        "zero": np.zeros(d),
        "identity": np.full(d, rng.uniform(0.1, 10)),
        "spread": 10.0 ** rng.uniform(-4, 2, d),
        "two values": rng.choice([1.0, 5.0], d),
        "rank": rng.uniform(0.5, 2, d) * (np.arange(d) < rng.integers(0, d + 1)),
    }[kind]
    turned = orthogonal(d, rng) if kind in ("spread", "rank", "two values") else np.eye(d)
    matrix = (turned * spectrum) @ turned.T
    z = rng.standard_normal(d) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    in_range = draw(st.booleans()) and kind != "zero"
    z = matrix @ z if in_range and (matrix @ z).any() else z
    return Case(((matrix + matrix.T) / 2).astype(dtype), z.astype(dtype), 10.0 ** draw(st.floats(-4, 2)))


@pytest.mark.slow
@settings(max_examples=50)
@given(cases())
def test_the_negative_eigenvalue_is_the_lowest_eigenvalue_or_zero(case: Case) -> None:
    found = find_negative_eigenvalue(case.matrix, case.z, case.step, np.empty_like(case.z))
    assert found == pytest.approx(min(np.linalg.eigvalsh(case.result)[0], 0.0), rel=0, abs=case.rounding)


@settings(max_examples=50)
@given(cases())
def test_removing_the_negative_eigenvalue_makes_the_matrix_positive_semi_definite(case: Case) -> None:
    direction = np.zeros_like(case.z)
    value = find_negative_eigenvalue(case.matrix, case.z, case.step, direction)
    u = direction.astype(np.float64)
    left = case.result - value * np.outer(u, u) if value < 0 else case.result
    assert np.linalg.eigvalsh(left)[0] >= -case.rounding


@settings(max_examples=50)
@given(cases())
def test_the_negative_eigenvector_has_unit_length(case: Case) -> None:
    direction = np.zeros_like(case.z)
    assume(find_negative_eigenvalue(case.matrix, case.z, case.step, direction) < 0)
    assert np.linalg.norm(direction.astype(np.float64)) == pytest.approx(
        1.0, abs=ROUNDINGS * float(np.finfo(direction.dtype).eps)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_well_below_the_longest_has_no_negative_eigenvalue(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        root = rng.standard_normal((8, 8))
        matrix, z = root @ root.T + np.eye(8), rng.standard_normal(8)
        longest = 1 / (z @ np.linalg.solve(matrix, z))
        found = find_negative_eigenvalue(matrix.astype(dtype), z.astype(dtype), 0.99 * longest, np.empty(8, dtype))
        assert found == 0.0


@settings(max_examples=50)
@given(
    d=st.integers(1, 60), seed=st.integers(0, 2**32), dtype=st.sampled_from(["float32", "float64"]), data=st.data()
)
def test_inverse_quadratic_form_equals_the_pseudo_inverse_for_a_vector_in_range(
    d: int, seed: int, dtype: str, data: st.DataObject
) -> None:
    """Rows and columns of zeros make the matrix exactly singular and keep the vector in its range."""
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(1, d))
    basis, spectrum = orthogonal(rank, rng), rng.uniform(0.5, 2.0, rank)
    block, part = ((basis * spectrum) @ basis.T).astype(dtype), rng.standard_normal(rank).astype(dtype)
    at = rng.permutation(d)[:rank]
    matrix, z = np.zeros((d, d), dtype), np.zeros(d, dtype)
    matrix[np.ix_(at, at)], z[at] = block, part
    assume(np.linalg.norm(z) > 0.1)
    wide = z.astype(np.float64)
    expected = wide @ np.linalg.pinv(matrix.astype(np.float64), rcond=1e-3) @ wide
    assert inverse_quadratic_form(matrix, z) == pytest.approx(expected, rel=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_inverse_quadratic_form_is_infinite_for_a_vector_outside_the_range(d: int, dtype: str) -> None:
    matrix, z = np.eye(d, dtype=dtype), np.zeros(d, dtype)
    matrix[0, 0], z[0] = 0, 1
    assert inverse_quadratic_form(matrix, z) == math.inf


@settings(max_examples=50)
@given(cases())
def test_the_longest_step_keeps_the_matrix_positive_semi_definite(case: Case) -> None:
    """If the vector is outside the range, the result may be huge instead of infinite, because of rounding."""
    longest = Case(case.matrix, case.z, 1 / inverse_quadratic_form(case.matrix, case.z))
    assert np.linalg.eigvalsh(longest.result)[0] >= -longest.rounding


@settings(max_examples=50)
@given(rows=st.integers(1, 20), columns=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_products_equal_numpys(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, a, b = rng.standard_normal((rows, columns)), rng.standard_normal(columns), rng.standard_normal(columns)
    one, along_a, along_b = np.empty(rows), np.empty(rows), np.empty(rows)
    project(matrix, a, one)
    project_two(matrix, a, b, along_a, along_b)
    np.testing.assert_allclose([one, along_a, along_b], [matrix @ a, matrix @ a, matrix @ b], atol=1e-13)
    assert dot(a, b) == pytest.approx(a @ b, abs=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_add_outer_keeps_a_symmetric_matrix_symmetric_to_the_last_bit(dtype: str) -> None:
    rng = np.random.default_rng(0)
    matrix = np.eye(13, dtype=dtype)
    expected = np.eye(13)
    for sign in (1, -1, 1):
        z = rng.standard_normal(13).astype(dtype)
        add_outer(matrix, sign * z, z)
        expected += sign * np.outer(z, z)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, expected, atol=20 * np.finfo(dtype).eps)


def test_largest_returns_the_largest_absolute_value_or_nan() -> None:
    assert largest(np.array([1.0, -3.0, 2.0])) == 3.0
    assert math.isnan(largest(np.array([1.0, math.nan, 2.0])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_square_of_the_limit_is_a_number(dtype: str) -> None:
    most = overflow_limit(np.eye(2, dtype=dtype))
    assert 1 < most <= math.sqrt(float(np.finfo(dtype).max))


@settings(max_examples=50)
@given(
    d=st.integers(1, 40),
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from(["float32", "float64"]),
    exponent=st.floats(-1.0, 1.0),
)
def test_items_of_any_size_get_unit_length(d: int, seed: int, dtype: str, exponent: float) -> None:
    """The items have sizes from the smallest normal number to nearly the largest number."""
    directions = np.random.default_rng(seed).uniform(0.5, 1.0, (2, 3, d))
    largest_number = float(np.finfo(dtype).max)
    items = (directions * 0.25 * largest_number**exponent).astype(dtype)
    before = items.copy()
    scaled = unit_items(items)
    expected = directions / np.linalg.norm(directions, axis=2, keepdims=True)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled, expected, rtol=100 * float(np.finfo(dtype).eps))
    np.testing.assert_array_equal(items, before)


def test_items_of_zeros_are_not_scaled() -> None:
    items = np.array([[[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]]])
    expected = [[[0.6, 0.8], [0.0, 0.0], [-5 / 13, 12 / 13]]]
    np.testing.assert_allclose(unit_items(items), expected, rtol=1e-15)
