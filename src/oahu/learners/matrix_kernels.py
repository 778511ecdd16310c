"""Compiled matrix operations of the linear learners.

Each operation reads the matrix once, row by row. A learner calls each of them from one place only, so that the same
machine code runs for calls of every size. The result does not depend on how a stream is split, to the last bit.
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
    "combine",
    "dot",
    "largest",
    "limit",
    "negative_part",
    "project",
    "project_all",
    "project_two",
    "relative_loss",
    "solve_along",
    "subtract_square",
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
    most, total = 0.0, 0.0
    for i in range(a.shape[0]):
        size = abs(float(a[i]))
        most = max(most, size)
        total += size
    return most if total == total else total  # a comparison loses NaN, a sum does not


@helper
def limit(matrix: Floats) -> float:
    """Return the largest change by one constraint: no sum of such changes overflows."""
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
    """Compute out = vectors @ matrix^T for a few vectors; each row of the matrix is read once."""
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for k in range(vectors.shape[0]):
            out[k, i] = dot(row, vectors[k])


@helper
def relative_loss(triplet: Floats, matrix: Floats, difference: Floats, along: Floats) -> float:
    """Return 1 - x^T W (p - n), the loss of a triplet if positive; write p - n to ``difference``."""
    for j in range(difference.shape[0]):
        difference[j] = triplet[1, j] - triplet[2, j]
    project(matrix, difference, along)
    return 1.0 - float(dot(triplet[0], along))


@helper
def project_two(matrix: Floats, a: Floats, b: Floats, along_a: Floats, along_b: Floats) -> None:
    """Compute along_a = matrix @ a and along_b = matrix @ b in one pass, two rows at a time."""
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
        along_a[i], along_b[i], along_a[i + 1], along_b[i + 1] = first_a, first_b, second_a, second_b
    if rows % 2:
        along_a[rows - 1] = dot(matrix[rows - 1], a)
        along_b[rows - 1] = dot(matrix[rows - 1], b)


@helper
def add_outer(matrix: Floats, left: Floats, right: Floats) -> None:
    """Add left right^T to the matrix. With left = +-right a symmetric matrix stays symmetric to the last bit."""
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
def combine(matrix: Floats, weights: Floats, out: Floats) -> None:
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
    """Add weight z z^T to the matrix, symmetric to the last bit; ``left`` and ``right`` are work arrays."""
    size = matrix.dtype.type(math.sqrt(abs(weight)))
    for j in range(z.shape[0]):
        right[j] = size * z[j]
        left[j] = right[j] if weight > 0.0 else -right[j]
    add_outer(matrix, left, right)


@helper
def _tridiagonal(
    matrix: Floats, basis: Floats, diagonal: NDArray[np.float64], beside: NDArray[np.float64], k: int, w: Floats
) -> None:
    """Run one Lanczos step: compute row k + 1 of an orthonormal basis in which the matrix is tridiagonal.

    Every new direction is made orthogonal to all earlier ones twice; otherwise rounding destroys orthogonality.
    """
    project(matrix, basis[k], w)
    diagonal[k] = dot(w, basis[k])
    for _ in range(2):
        for i in range(k + 1):
            share = dot(w, basis[i])
            for j in range(w.shape[0]):
                w[j] -= share * basis[i, j]
    beside[k] = math.sqrt(dot(w, w))
    if beside[k] > 0 and k + 1 < basis.shape[0]:
        for j in range(w.shape[0]):
            basis[k + 1, j] = w[j] / beside[k]


@helper
def _first_column(
    diagonal: NDArray[np.float64], beside: NDArray[np.float64], k: int, shift: float, out: NDArray[np.float64]
) -> bool:
    """Solve (T - shift I) x = e_1 for the leading k x k tridiagonal T; return False if not positive definite."""
    pivot, above = 0.0, 0.0
    pivots = np.empty(k)
    for i in range(k):
        pivot = diagonal[i] - shift - (above * above / pivot if i else 0.0)
        out[i] = -above / pivots[i - 1] * out[i - 1] if i else 1.0
        if not pivot > 0:
            return False
        pivots[i], above = pivot, beside[i]
    out[k - 1] /= pivot
    for i in range(k - 2, -1, -1):
        out[i] = (out[i] - beside[i] * out[i + 1]) / pivots[i]
    return True


@helper
def _negative_eigenvalue(
    diagonal: NDArray[np.float64], beside: NDArray[np.float64], k: int, weight: float, column: NDArray[np.float64]
) -> float:
    """Return the negative eigenvalue mu of T - weight e_1 e_1^T for a positive semi-definite T.

    mu solves weight e_1^T (T - mu I)^-1 e_1 = 1, whose left side increases with mu and is at most 1 at -weight. The
    eigenvector, written to ``column``, is the first column of that inverse.
    """
    low, high, mu = -weight, 0.0, -weight
    for _ in range(200):
        size = 0.0
        if _first_column(diagonal, beside, k, mu, column):
            for i in range(k):
                size += column[i] * column[i]
        value = weight * column[0] if size > 0.0 else math.inf
        if value < 1.0:
            low = mu
        else:
            high = mu
        # Newton's step for 1 / value, or bisection if it leaves the interval.
        following = mu + (1.0 - value) * value / (weight * size) if value < math.inf else low
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - mu) <= 1e-15 * abs(mu):
            break
        mu = following
    if size == 0.0:
        for i in range(k):
            column[i] = 1.0 if i == 0 else 0.0  # T is 0 up to rounding, so that the eigenvector is e_1
        size = 1.0
    for i in range(k):
        column[i] /= math.sqrt(size)
    return mu


@helper
def _scale(diagonal: NDArray[np.float64], beside: NDArray[np.float64], k: int) -> float:
    """Return an estimate of the norm of the matrix from its tridiagonal form."""
    most = 0.0
    for i in range(k):
        most = max(most, abs(diagonal[i]) + beside[i])
    return most


@helper
def _grown(basis: Floats, rows: int) -> Floats:
    """Return a copy with more rows, which are zero."""
    larger = np.zeros((rows, basis.shape[1]), basis.dtype)
    for i in range(basis.shape[0]):  # a slice assignment would compile for seconds
        for j in range(basis.shape[1]):
            larger[i, j] = basis[i, j]
    return larger


@helper
def negative_part(matrix: Floats, z: Floats, step: float, direction: Floats) -> float:
    """Return the negative eigenvalue of ``matrix - step z z^T`` for a positive semi-definite matrix, or 0.

    There is at most one. Its eigenvector, written to ``direction``, lies in the Krylov space of z, so Lanczos from
    z finds it in a few products with the matrix. In that basis the matrix is tridiagonal, T, and z is the first
    direction.

    There is none, up to rounding, if T x = ||z|| e_1 is solved with a residual r so small that
    ``step (1 + 1 / eta) r^2`` is negligible, where ``(1 + eta) step z^T A^-1 z = 1``.
    """
    d = z.shape[0]
    length = math.sqrt(dot(z, z))
    tolerance = 50.0 * np.finfo(matrix.dtype).eps
    basis = np.zeros((min(d, 32), d), matrix.dtype)
    diagonal, beside, column = np.empty(d), np.empty(d), np.empty(d)
    w = np.empty(d, matrix.dtype)
    for j in range(d):
        basis[0, j] = z[j] / length
    k, check = 0, 1
    weight = step * length * length
    while True:
        if k + 1 >= basis.shape[0] and k + 1 < d:
            basis = _grown(basis, min(d, 2 * basis.shape[0]))
        _tridiagonal(matrix, basis, diagonal, beside, k, w)
        k += 1
        scale = _scale(diagonal, beside, k) + weight
        whole = k == d or beside[k - 1] <= tolerance * scale
        if k < check and not whole:
            continue
        check = k + max(1, k // 8)
        remaining = 0.0 if whole else beside[k - 1]
        if _first_column(diagonal, beside, k, 0.0, column) and weight * column[0] < 1.0:
            residual = remaining * length * abs(column[k - 1])
            if step * residual * residual / (1.0 - weight * column[0]) <= tolerance * scale:
                return 0.0
            continue
        eigenvalue = _negative_eigenvalue(diagonal, beside, k, weight, column)
        if remaining * abs(column[k - 1]) <= tolerance * scale:
            direction[:] = 0
            for i in range(k):
                share = matrix.dtype.type(column[i])
                for j in range(d):
                    direction[j] += share * basis[i, j]
            return eigenvalue


@inlined
def subtract_square(
    matrix: Floats, weight: float, z: Floats, direction: Floats, left: Floats, right: Floats
) -> None:
    """Replace a positive semi-definite matrix by the one nearest to matrix - weight z z^T."""
    d = z.shape[0]
    n_squares = 1
    weights, squares = np.empty(3), np.empty((3, d), matrix.dtype)
    for j in range(d):
        squares[0, j] = z[j]
    if negative_part(matrix, z, weight, direction) < 0.0:
        # Without its eigenvector v the result is (I - v v^T) A (I - v v^T) - weight z' z'^T, z' = z - (v^T z) v.
        # Adding both squares directly would cancel terms that may be far larger than A.
        n_squares = 3
        rest, along, sum_of = squares[0], squares[1], squares[2]
        project(matrix, direction, along)
        half = matrix.dtype.type(0.5) * dot(direction, along)
        share = dot(direction, z)
        reach, trace = weight * float(share) * float(share), 0.0
        for j in range(d):
            trace += matrix[j, j]
        for j in range(d):
            # As v is an eigenvector, weight (v^T z) z' equals A v - (v^T A v) v. That form is more accurate where z
            # is so long that the rounding of z' would exceed A.
            along[j] -= half * direction[j]  # the rest of A is A - v h^T - h v^T with h = A v - (v^T A v / 2) v
            rest[j] = z[j] - share * direction[j] if reach < trace else along[j] - half * direction[j]
        weight = weight if reach < trace else 1.0 / reach
        # v h^T + h v^T as a difference of squares of vectors of similar length, symmetric to the last bit.
        balance = math.sqrt(largest(along))  # not its length, whose square may overflow
        balance = balance if balance > 0.0 else 1.0
        for j in range(d):
            v, h = matrix.dtype.type(balance) * direction[j], along[j] / matrix.dtype.type(balance)
            sum_of[j], along[j] = v + h, v - h
    weights[0], weights[1], weights[2] = -weight, 0.5, -0.5
    for i in range(n_squares - 1, -1, -1):
        add_square(matrix, weights[i], squares[i], left, right)


@helper
def solve_along(matrix: Floats, z: Floats) -> float:
    """Return z^T A^-1 z for a positive semi-definite A; infinite or very large if z is not in its range."""
    d = z.shape[0]
    length = math.sqrt(dot(z, z))
    eps = np.finfo(matrix.dtype).eps
    basis = np.zeros((min(d, 32), d), matrix.dtype)
    diagonal, beside, column = np.empty(d), np.empty(d), np.empty(d)
    w = np.empty(d, matrix.dtype)
    for j in range(d):
        basis[0, j] = z[j] / length
    k = 0
    while True:
        if k + 1 >= basis.shape[0] and k + 1 < d:
            basis = _grown(basis, min(d, 2 * basis.shape[0]))
        _tridiagonal(matrix, basis, diagonal, beside, k, w)
        k += 1
        whole = k == d or beside[k - 1] <= 50.0 * eps * _scale(diagonal, beside, k)
        if not _first_column(diagonal, beside, k, 0.0, column):
            return math.inf
        if whole or beside[k - 1] * abs(column[k - 1]) <= eps:
            return length * length * float(column[0])
