"""OASIS against a generic optimiser of its passive-aggressive step, and sparse items against dense ones."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import cosine_similarity

from oahu import OASIS, NoDistanceError, OAHUError, sample_triplets

Matrix = NDArray[np.float64]


def trained_learner(rng: np.random.Generator, d: int, **parameters: object) -> OASIS:
    """Return a learner with a matrix that is neither the identity nor symmetric."""
    learner = OASIS(**({"aggressiveness": 0.1, "normalize": False, "dtype": "float64"} | parameters))
    return learner.partial_fit(rng.standard_normal((6, 3, d)))


def passive_aggressive(W: Matrix, triplet: Matrix, C: float) -> Matrix:
    """argmin 1/2 ||W' - W||^2 + C xi with 1 - x^T W' (p - n) <= xi, xi >= 0, by SLSQP."""
    x, p, n = triplet
    start = np.append(W.ravel(), max(0.0, 1 - x @ W @ (p - n)))
    slope = np.append(np.outer(x, p - n).ravel(), 1.0)
    found = minimize(
        lambda v: float(((v[:-1] - W.ravel()) ** 2).sum() / 2 + C * v[-1]),
        start,
        jac=lambda v: np.append(v[:-1] - W.ravel(), C),
        bounds=[(None, None)] * W.size + [(0, None)],
        constraints={"type": "ineq", "fun": lambda v: slope @ v - 1, "jac": lambda v: slope},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return np.asarray(found.x[:-1].reshape(W.shape))


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0, 100.0])
def test_step_is_the_minimiser_of_the_stated_problem(C: float) -> None:
    rng = np.random.default_rng(0)
    for d in (2, 3, 4, 5):
        for _ in range(3):
            learner = trained_learner(rng, d).set_params(aggressiveness=C)
            before, triplet = learner.matrix_, rng.standard_normal((3, d))
            learner.learn_one(*triplet)
            np.testing.assert_allclose(learner.matrix_, passive_aggressive(before, triplet, C), atol=1e-7)


def test_step_that_is_not_capped_ends_at_a_loss_of_0() -> None:
    rng = np.random.default_rng(0)
    learner, (x, p, n) = trained_learner(rng, 4, aggressiveness=100.0), rng.standard_normal((3, 4))
    x, p, n = (x, n, p) if x @ learner.matrix_ @ (p - n) > 0 else (x, p, n)
    learner.learn_one(x, p, n)
    assert x @ learner.matrix_ @ (p - n) == pytest.approx(1.0, abs=1e-12)


def test_triplet_without_loss_changes_nothing() -> None:
    learner = OASIS(normalize=False).initialize(2).learn_one([1.0, 0.0], [1.5, 0.0], [0.0, 0.0])
    np.testing.assert_array_equal(learner.matrix_, np.eye(2))
    assert learner.utilization_ == 0.0


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    "triplet",
    [
        pytest.param([[0, 0], [1, 2], [2, 1]], id="an anchor of zeros"),
        pytest.param([[1, 1], [1, 2], [1, 2]], id="a positive that is the negative"),
        pytest.param([[0, 0], [0, 0], [0, 0]], id="zeros only"),
    ],
)
def test_triplet_without_a_direction_is_counted_but_not_used(
    triplet: list[list[int]], normalize: bool, as_sparse: bool
) -> None:
    table = np.array(triplet, np.float64)
    learner = OASIS(normalize=normalize, preprocessor=sparse.csr_matrix(table) if as_sparse else table)
    learner.partial_fit([[0, 1, 2]])
    np.testing.assert_array_equal(learner.matrix_, np.eye(2))
    assert (learner.n_seen_, learner.utilization_) == (1, 0.0)


# -- lengths -------------------------------------------------------------------------------------------------


def test_normalizing_equals_scaling_beforehand() -> None:
    triplets = np.random.default_rng(0).standard_normal((200, 3, 5))
    scaled = triplets / np.linalg.norm(triplets, axis=2, keepdims=True)
    learner, beforehand = OASIS(dtype="float64"), OASIS(normalize=False, dtype="float64")
    np.testing.assert_allclose(
        learner.partial_fit(triplets).matrix_, beforehand.partial_fit(scaled).matrix_, rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=30)
@given(exponents=st.lists(st.integers(-30, 30), min_size=6, max_size=6), seed=st.integers(0, 1000))
def test_the_length_of_an_item_does_not_matter(
    dtype: str, as_sparse: bool, exponents: list[int], seed: int
) -> None:
    """The scale of an item may be any power of ten within float32."""
    table = np.random.default_rng(seed).standard_normal((6, 4))
    scaled = table * 10.0 ** np.array(exponents, float)[:, None]
    triplets = [[0, 1, 2], [3, 4, 5], [1, 0, 4]]
    kind = sparse.csr_matrix if as_sparse else np.asarray
    usual = OASIS(preprocessor=table, dtype=dtype).partial_fit(triplets)
    other = OASIS(preprocessor=kind(scaled), dtype=dtype).partial_fit(triplets)
    np.testing.assert_allclose(other.matrix_, usual.matrix_, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_length_of_an_item_does_not_change_its_scores(as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    learner = trained_learner(rng, 4, normalize=True, dtype="float32")
    pair = rng.standard_normal((2, 4))
    expected = learner.pair_score([pair])
    for scale in (1e-25, 1e-3, 1e3, 1e25):
        table = pair * [[scale], [1.0]]
        learner.set_params(preprocessor=sparse.csr_matrix(table) if as_sparse else table)
        np.testing.assert_allclose(learner.pair_score([[0, 1]]), expected, rtol=1e-5)


def test_scores_of_an_unlearned_model_are_cosines() -> None:
    X, _ = load_digits(return_X_y=True)
    learner = OASIS(dtype="float64").initialize(64)
    scores = learner.pair_score(np.stack([X[:50], X[50:100]], axis=1))
    np.testing.assert_allclose(scores, np.diag(cosine_similarity(X[:50], X[50:100])), rtol=1e-12)


def test_without_normalizing_long_items_are_favoured() -> None:
    """Without normalization, a longer item of another class scores higher than the item itself."""
    item, long = np.array([1.0, 1.0]), np.array([9.0, 0.0])
    dots, cosines = (
        OASIS(normalize=n).initialize(2).pair_score([[item, item], [item, long]]) for n in (False, True)
    )
    assert dots[1] > dots[0]
    assert cosines[1] < cosines[0]


def test_default_ranks_digits_better_than_dot_products() -> None:
    X, y = load_digits(return_X_y=True)
    triplets = X[sample_triplets(y, 5000, random_state=0)]
    with_lengths, without = (OASIS(normalize=n).initialize(64).score(triplets) for n in (False, True))
    assert without > with_lengths + 0.02


# -- sparse items --------------------------------------------------------------------------------------------


def sparse_table(rng: np.random.Generator, n: int = 40, d: int = 30) -> Matrix:
    table = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    table[::7] = 0.0  # rows without an entry
    return np.asarray(table)


def unsorted_csr(table: Matrix, rng: np.random.Generator) -> sparse.csr_matrix:
    """Return the table as CSR with shuffled columns, duplicate entries and stored zeros."""
    data: list[float] = []
    columns: list[int] = []
    starts = [0]
    for row in table:
        entries = [(j, row[j] - 1.5) for j in np.flatnonzero(row)] + [(j, 1.5) for j in np.flatnonzero(row)]
        entries += [(j, 0.0) for j in np.flatnonzero(row == 0)[:3]]
        for k in rng.permutation(len(entries)):
            columns.append(int(entries[k][0]))
            data.append(float(entries[k][1]))
        starts.append(len(data))
    return sparse.csr_matrix((data, columns, starts), shape=table.shape)


FORMS: dict[str, Any] = {
    "csr_matrix": lambda table, rng: sparse.csr_matrix(table),
    "csr_array": lambda table, rng: sparse.csr_array(table),
    "csc": lambda table, rng: sparse.csc_matrix(table),
    "coo": lambda table, rng: sparse.coo_matrix(table),
    "unsorted": unsorted_csr,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("normalize", [False, True])
def test_sparse_table_gives_the_matrix_of_the_dense_one(form: str, dtype: str, normalize: bool) -> None:
    rng = np.random.default_rng(0)
    table, triplets = sparse_table(rng), rng.integers(0, 40, (300, 3))
    dense = OASIS(normalize=normalize, preprocessor=table, dtype=dtype).partial_fit(triplets)
    learner = OASIS(normalize=normalize, preprocessor=FORMS[form](table, rng), dtype=dtype).partial_fit(triplets)
    np.testing.assert_allclose(learner.matrix_, dense.matrix_, atol=1000 * np.finfo(dtype).eps)
    assert learner.utilization_ == dense.utilization_


def test_steps_that_are_not_limited_are_the_same_for_sparse_and_dense_items() -> None:
    rng = np.random.default_rng(0)
    table, triplets = sparse_table(rng), rng.integers(0, 40, (20, 3))
    learners = [
        OASIS(aggressiveness=1e6, preprocessor=form(table), dtype="float64")
        for form in (np.asarray, sparse.csr_matrix)
    ]
    dense, learner = (one.partial_fit(triplets) for one in learners)
    np.testing.assert_allclose(learner.matrix_, dense.matrix_, atol=1e-9)


def test_a_table_with_unsorted_rows_is_not_changed() -> None:
    rng = np.random.default_rng(0)
    table = unsorted_csr(sparse_table(rng), rng)
    before = pickle.dumps((table.data, table.indices, table.indptr))
    OASIS(preprocessor=table).partial_fit(rng.integers(0, 40, (300, 3))).pair_score([[0, 1]])
    assert pickle.dumps((table.data, table.indices, table.indptr)) == before


@pytest.mark.parametrize("form", FORMS)
def test_sparse_scores_equal_dense_ones(form: str) -> None:
    rng = np.random.default_rng(0)
    table = sparse_table(rng)
    learner = OASIS(preprocessor=table, dtype="float64").partial_fit(rng.integers(0, 40, (300, 3)))
    pairs, triplets = rng.integers(0, 40, (300, 2)), rng.integers(0, 40, (300, 3))
    expected, accuracy = learner.pair_score(pairs), learner.score(triplets)
    learner.set_params(preprocessor=FORMS[form](table, rng))
    np.testing.assert_allclose(learner.pair_score(pairs), expected, rtol=1e-12, atol=1e-14)
    assert learner.score(triplets) == pytest.approx(accuracy, abs=0.01)


def test_fitting_sparse_items_with_labels_equals_fitting_dense_ones() -> None:
    X, y = load_digits(return_X_y=True)
    dense, learner = (
        OASIS(n_constraints=1000, dtype="float64", random_state=0).fit(items, y)
        for items in (X, sparse.csr_matrix(X))
    )
    np.testing.assert_allclose(learner.matrix_, dense.matrix_, atol=1e-12)
    assert learner.score(sparse.csr_matrix(X), y) == pytest.approx(dense.score(X, y), abs=0.002)


def test_sparse_stream_does_not_depend_on_how_it_is_split() -> None:
    rng = np.random.default_rng(0)
    table, triplets = sparse.csr_matrix(sparse_table(rng)), rng.integers(0, 40, (300, 3))
    whole, parts = OASIS(preprocessor=table).partial_fit(triplets), OASIS(preprocessor=table)
    for cut in np.array_split(triplets, [1, 2, 130, 131, 290]):
        parts.partial_fit(cut)
    np.testing.assert_array_equal(whole.matrix_, parts.matrix_)


# -- scores only ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transform", "pair_distance"])
def test_there_are_no_distances_and_the_error_says_so(name: str) -> None:
    learner = OASIS().initialize(3)
    with pytest.raises(NoDistanceError, match="bilinear") as caught:
        getattr(learner, name)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, OAHUError)
    assert not hasattr(learner, name)


def test_nearest_distance_is_the_positive_part_of_the_symmetric_part() -> None:
    learner = trained_learner(np.random.default_rng(0), 5, aggressiveness=1.0)
    learner.learn_one(np.eye(5)[0], -3 * np.eye(5)[0], np.zeros(5))
    symmetric = (learner.matrix_ + learner.matrix_.T) / 2
    values, vectors = np.linalg.eigh(symmetric)
    assert values[0] < 0  # or there would be nothing to clip
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(learner.metric().nearest_distance().matrix, expected, atol=1e-12)
