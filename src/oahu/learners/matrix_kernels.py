"""Compiled matrix operations of the linear learners.

Each operation reads the matrix once, row by row. A learner calls each operation from only one place in its code.
The same machine code therefore runs for blocks of every size. The model is the same, bit for bit, for every way to
split a stream into blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import helper, inlined

__all__ = [
    "add_outer",
    "add_square",
    "dot",
    "find_negative_eigenvalue",
    "inverse_quadratic_form",
    "largest",
    "overflow_limit",
    "project",
    "project_all",
    "project_transposed",
    "project_two",
    "relative_loss",
    "subtract_square",
    "unit_items",
    "update_then_project",
]

Floats = NDArray[np.floating]
Scalar = Any  # a float of the arrays' dtype


@helper
def dot(a: Floats, b: Floats) -> Scalar:
    """Return a^T b."""
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@helper
def largest(a: Floats) -> float:
    """Return the largest absolute value, or NaN if one of the values is NaN."""
    result, total = 0.0, 0.0
    for i in range(a.shape[0]):
        size = abs(float(a[i]))
        result = max(result, size)
        total += size
    return result if total == total else total  # a comparison loses NaN, a sum does not


@helper
def unit_items(constraints: Floats) -> Floats:
    """Return constraints with items of unit length. An item of zeros is not scaled."""
    scaled = np.empty_like(constraints)
    for t in range(constraints.shape[0]):
        for i in range(constraints.shape[1]):
            item, out = constraints[t, i], scaled[t, i]
            size = 1.0
            length = math.sqrt(_squared_length(item, size))
            if not 1e-140 < length < 1e140:  # the squares of float64 numbers overflow or underflow
                size = largest(item)
                size = size if size > 0.0 else 1.0
                length = math.sqrt(_squared_length(item, size))
            scale = 1.0 / length if length > 0.0 else 1.0
            for j in range(item.shape[0]):
                out[j] = float(item[j]) / size * scale
    return scaled


@helper
def _squared_length(item: Floats, size: float) -> float:
    """Return ||item / size||^2 in float64."""
    total = 0.0
    for j in range(item.shape[0]):
        total += (float(item[j]) / size) * (float(item[j]) / size)
    return total


@helper
def overflow_limit(matrix: Floats) -> float:
    """Return the largest allowed change of a matrix entry by one constraint.

    The sum of many changes below this limit does not overflow.
    """
    return math.sqrt(np.finfo(matrix.dtype).max)


@helper
def project(matrix: Floats, vector: Floats, out: Floats) -> None:
    """Compute out = matrix @ vector, two rows at a time."""
    rows, columns = matrix.shape
    zero = matrix.dtype.type(0)
    for i in range(0, rows - 1, 2):
        top, bottom = zero, zero
        first, second = matrix[i], matrix[i + 1]
        for j in range(columns):
            top += first[j] * vector[j]
            bottom += second[j] * vector[j]
        out[i], out[i + 1] = top, bottom
    if rows % 2:
        out[rows - 1] = dot(matrix[rows - 1], vector)


@helper
def project_all(matrix: Floats, vectors: Floats, out: Floats) -> None:
    """Compute out = vectors @ matrix^T for a few vectors. Each row of the matrix is read once."""
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for k in range(vectors.shape[0]):
            out[k, i] = dot(row, vectors[k])


@helper
def relative_loss(triplet: Floats, matrix: Floats, difference: Floats, product: Floats) -> float:
    """Return 1 - x^T W (p - n) for a triplet (x, p, n) and the matrix W. Write p - n to ``difference``.

    The loss of the triplet is this value, or 0 if the value is negative.
    """
    for j in range(difference.shape[0]):
        difference[j] = triplet[1, j] - triplet[2, j]
    project(matrix, difference, product)
    return 1.0 - float(dot(triplet[0], product))


@helper
def project_two(matrix: Floats, a: Floats, b: Floats, projected_a: Floats, projected_b: Floats) -> None:
    """Compute projected_a = matrix @ a and projected_b = matrix @ b in one pass, two rows at a time."""
    rows, columns = matrix.shape
    zero = matrix.dtype.type(0)
    for i in range(0, rows - 1, 2):
        first_a, first_b, second_a, second_b = zero, zero, zero, zero
        first, second = matrix[i], matrix[i + 1]
        for j in range(columns):
            first_a += first[j] * a[j]
            first_b += first[j] * b[j]
            second_a += second[j] * a[j]
            second_b += second[j] * b[j]
        projected_a[i], projected_b[i], projected_a[i + 1], projected_b[i + 1] = (
            first_a,
            first_b,
            second_a,
            second_b,
        )
    if rows % 2:
        projected_a[rows - 1] = dot(matrix[rows - 1], a)
        projected_b[rows - 1] = dot(matrix[rows - 1], b)


@helper
def add_outer(matrix: Floats, left: Floats, right: Floats) -> None:
    """Add left right^T to the matrix.

    If left = right or left = -right, a symmetric matrix stays exactly symmetric.
    """
    for i in range(matrix.shape[0]):
        scale = left[i]
        row = matrix[i]
        for j in range(row.shape[0]):
            row[j] += scale * right[j]


@helper
def update_then_project(matrix: Floats, left: Floats, right: Floats, vector: Floats, out: Floats) -> None:
    """Add left right^T to the matrix and compute out = matrix @ vector in one pass, two rows at a time."""
    rows, columns = matrix.shape
    zero = matrix.dtype.type(0)
    for i in range(0, rows - 1, 2):
        top, bottom = zero, zero
        first, second = matrix[i], matrix[i + 1]
        for j in range(columns):
            one = first[j] + left[i] * right[j]
            two = second[j] + left[i + 1] * right[j]
            first[j], second[j] = one, two
            top += one * vector[j]
            bottom += two * vector[j]
        out[i], out[i + 1] = top, bottom
    if rows % 2:
        last = matrix[rows - 1]
        for j in range(columns):
            last[j] += left[rows - 1] * right[j]
        out[rows - 1] = dot(last, vector)


@helper
def project_transposed(matrix: Floats, weights: Floats, out: Floats) -> None:
    """Compute out = matrix^T @ weights, two rows at a time."""
    rows, columns = matrix.shape
    out[:] = 0
    for i in range(0, rows - 1, 2):
        first, second, one, two = matrix[i], matrix[i + 1], weights[i], weights[i + 1]
        for j in range(columns):
            out[j] += one * first[j] + two * second[j]
    if rows % 2:
        for j in range(columns):
            out[j] += weights[rows - 1] * matrix[rows - 1, j]


@helper
def add_square(matrix: Floats, weight: float, z: Floats, left: Floats, right: Floats) -> None:
    """Add weight z z^T to a symmetric matrix, which stays exactly symmetric.

    ``left`` and ``right`` are work arrays.
    """
    size = matrix.dtype.type(math.sqrt(abs(weight)))
    for j in range(z.shape[0]):
        right[j] = size * z[j]
        left[j] = right[j] if weight > 0.0 else -right[j]
    add_outer(matrix, left, right)


@helper
def _lanczos_step(
    matrix: Floats,
    basis: Floats,
    diagonal: NDArray[np.float64],
    off_diagonal: NDArray[np.float64],
    k: int,
    w: Floats,
) -> None:
    """Run one Lanczos step: compute row k + 1 of an orthonormal ``basis`` in which the matrix is tridiagonal.

    Every new row is orthogonalised twice against the earlier rows, because rounding errors remain after the first
    time.
    """
    project(matrix, basis[k], w)
    diagonal[k] = dot(w, basis[k])
    for _ in range(2):
        for i in range(k + 1):
            coefficient = dot(w, basis[i])
            for j in range(w.shape[0]):
                w[j] -= coefficient * basis[i, j]
    off_diagonal[k] = math.sqrt(dot(w, w))
    if off_diagonal[k] > 0 and k + 1 < basis.shape[0]:
        for j in range(w.shape[0]):
            basis[k + 1, j] = w[j] / off_diagonal[k]


@helper
def _solve_first_column(
    diagonal: NDArray[np.float64], off_diagonal: NDArray[np.float64], k: int, shift: float, out: NDArray[np.float64]
) -> bool:
    """Solve (T - shift I) x = e_1 for the leading k x k part of a tridiagonal matrix T. Write x to ``out``.

    Return False if T - shift I is not positive definite.
    """
    pivot, above = 0.0, 0.0
    pivots = np.empty(k)
    for i in range(k):
        pivot = diagonal[i] - shift - (above * above / pivot if i else 0.0)
        out[i] = -above / pivots[i - 1] * out[i - 1] if i else 1.0
        if not pivot > 0:
            return False
        pivots[i], above = pivot, off_diagonal[i]
    out[k - 1] /= pivot
    for i in range(k - 2, -1, -1):
        out[i] = (out[i] - off_diagonal[i] * out[i + 1]) / pivots[i]
    return True


@helper
def _tridiagonal_eigenvalue(
    diagonal: NDArray[np.float64],
    off_diagonal: NDArray[np.float64],
    k: int,
    weight: float,
    column: NDArray[np.float64],
) -> float:
    """Return the negative eigenvalue mu of T - weight e_1 e_1^T for a positive semi-definite, tridiagonal T.

    mu solves weight e_1^T (T - mu I)^-1 e_1 = 1. The left side increases with mu and is at most 1 at mu = -weight.
    The function writes the eigenvector to ``column``. The eigenvector is the first column of (T - mu I)^-1, scaled
    to unit length.
    """
    low, high, mu = -weight, 0.0, -weight
    for _ in range(200):
        size = 0.0
        if _solve_first_column(diagonal, off_diagonal, k, mu, column):
            for i in range(k):
                size += column[i] * column[i]
        value = weight * column[0] if size > 0.0 else math.inf
        if value < 1.0:
            low = mu
        else:
            high = mu
        # Newton's step for 1 / value, or bisection if it leaves the interval.
        next_mu = mu + (1.0 - value) * value / (weight * size) if value < math.inf else low
        if not low < next_mu < high:
            next_mu = 0.5 * (low + high)
        if abs(next_mu - mu) <= 1e-15 * abs(mu):
            break
        mu = next_mu
    if size == 0.0:
        for i in range(k):
            column[i] = 1.0 if i == 0 else 0.0  # T is 0 up to rounding, so that the eigenvector is e_1
        size = 1.0
    for i in range(k):
        column[i] /= math.sqrt(size)
    return mu


@helper
def _estimate_norm(diagonal: NDArray[np.float64], off_diagonal: NDArray[np.float64], k: int) -> float:
    """Return an estimate of the norm of a matrix, computed from its tridiagonal form."""
    norm = 0.0
    for i in range(k):
        norm = max(norm, abs(diagonal[i]) + off_diagonal[i])
    return norm


@helper
def _with_more_rows(basis: Floats, rows: int) -> Floats:
    """Return a copy of ``basis`` that is extended by rows of zeros."""
    larger = np.zeros((rows, basis.shape[1]), basis.dtype)
    for i in range(basis.shape[0]):  # a slice assignment takes seconds to compile
        for j in range(basis.shape[1]):
            larger[i, j] = basis[i, j]
    return larger


@helper
def find_negative_eigenvalue(matrix: Floats, z: Floats, step: float, direction: Floats) -> float:
    """Return the negative eigenvalue of ``matrix - step z z^T`` for a positive semi-definite matrix, or 0.

    There is at most one negative eigenvalue. Its eigenvector lies in the Krylov space of z, so the Lanczos
    iteration from z finds it with a few matrix-vector products. The eigenvector is written to ``direction``. In the
    Lanczos basis, the matrix is a tridiagonal matrix T, and the first basis vector is z / ||z||.

    The result is 0 if T x = ||z|| e_1 is solved with a negligible residual r, because there is then no negative
    eigenvalue up to rounding. The residual is negligible if ``step (1 + 1 / eta) r^2`` is at most the rounding
    error. eta is defined by ``(1 + eta) step z^T A^-1 z = 1``, where A is the matrix.
    """
    d = z.shape[0]
    length = math.sqrt(dot(z, z))
    tolerance = 50.0 * np.finfo(matrix.dtype).eps
    basis = np.zeros((min(d, 32), d), matrix.dtype)
    diagonal, off_diagonal, column = np.empty(d), np.empty(d), np.empty(d)
    w = np.empty(d, matrix.dtype)
    for j in range(d):
        basis[0, j] = z[j] / length
    k, next_check = 0, 1
    weight = step * length * length
    while True:
        if k + 1 >= basis.shape[0] and k + 1 < d:
            basis = _with_more_rows(basis, min(d, 2 * basis.shape[0]))
        _lanczos_step(matrix, basis, diagonal, off_diagonal, k, w)
        k += 1
        scale = _estimate_norm(diagonal, off_diagonal, k) + weight
        complete = k == d or off_diagonal[k - 1] <= tolerance * scale
        if k < next_check and not complete:
            continue
        next_check = k + max(1, k // 8)
        remaining = 0.0 if complete else off_diagonal[k - 1]
        if _solve_first_column(diagonal, off_diagonal, k, 0.0, column) and weight * column[0] < 1.0:
            residual = remaining * length * abs(column[k - 1])
            if step * residual * residual / (1.0 - weight * column[0]) <= tolerance * scale:
                return 0.0
            continue
        eigenvalue = _tridiagonal_eigenvalue(diagonal, off_diagonal, k, weight, column)
        if remaining * abs(column[k - 1]) <= tolerance * scale:
            direction[:] = 0
            for i in range(k):
                coefficient = matrix.dtype.type(column[i])
                for j in range(d):
                    direction[j] += coefficient * basis[i, j]
            return eigenvalue


@inlined
def subtract_square(
    matrix: Floats, weight: float, z: Floats, direction: Floats, left: Floats, right: Floats
) -> None:
    """Replace the matrix A by the positive semi-definite matrix that is nearest to A - weight z z^T."""
    d = z.shape[0]
    n_squares = 1
    weights, squares = np.empty(3), np.empty((3, d), matrix.dtype)
    for j in range(d):
        squares[0, j] = z[j]
    if find_negative_eigenvalue(matrix, z, weight, direction) < 0.0:
        # Removing the eigenvector v gives (I - v v^T) A (I - v v^T) - weight z' z'^T with z' = z - (v^T z) v.
        # Adding the two squares to A directly would cancel terms that may be far larger than A.
        n_squares = 3
        remainder, product, sums = squares[0], squares[1], squares[2]
        project(matrix, direction, product)
        half = matrix.dtype.type(0.5) * dot(direction, product)
        coefficient = dot(direction, z)
        removed, trace = weight * float(coefficient) * float(coefficient), 0.0
        for j in range(d):
            trace += matrix[j, j]
        for j in range(d):
            # Because v is an eigenvector, weight (v^T z) z' equals A v - (v^T A v) v. That form is more accurate if
            # z is so long that the rounding error of z' would exceed A.
            # (I - v v^T) A (I - v v^T) is A - v h^T - h v^T with h = A v - (v^T A v / 2) v.
            product[j] -= half * direction[j]
            remainder[j] = (
                z[j] - coefficient * direction[j] if removed < trace else product[j] - half * direction[j]
            )
        weight = weight if removed < trace else 1.0 / removed
        # v h^T + h v^T is a difference of two squares, which keeps the matrix exactly symmetric.
        balance = math.sqrt(largest(product))  # not its length, whose square may overflow
        balance = balance if balance > 0.0 else 1.0
        for j in range(d):
            v, h = matrix.dtype.type(balance) * direction[j], product[j] / matrix.dtype.type(balance)
            sums[j], product[j] = v + h, v - h
    weights[0], weights[1], weights[2] = -weight, 0.5, -0.5
    for i in range(n_squares - 1, -1, -1):
        add_square(matrix, weights[i], squares[i], left, right)


@helper
def inverse_quadratic_form(matrix: Floats, z: Floats) -> float:
    """Return z^T A^-1 z for a positive semi-definite matrix A.

    The result is infinite or very large if z is not in the range of A.
    """
    d = z.shape[0]
    length = math.sqrt(dot(z, z))
    eps = np.finfo(matrix.dtype).eps
    basis = np.zeros((min(d, 32), d), matrix.dtype)
    diagonal, off_diagonal, column = np.empty(d), np.empty(d), np.empty(d)
    w = np.empty(d, matrix.dtype)
    for j in range(d):
        basis[0, j] = z[j] / length
    k = 0
    while True:
        if k + 1 >= basis.shape[0] and k + 1 < d:
            basis = _with_more_rows(basis, min(d, 2 * basis.shape[0]))
        _lanczos_step(matrix, basis, diagonal, off_diagonal, k, w)
        k += 1
        complete = k == d or off_diagonal[k - 1] <= 50.0 * eps * _estimate_norm(diagonal, off_diagonal, k)
        if not _solve_first_column(diagonal, off_diagonal, k, 0.0, column):
            return math.inf
        if complete or off_diagonal[k - 1] * abs(column[k - 1]) <= eps:
            return length * length * float(column[0])
