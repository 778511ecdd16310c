"""TupleTransformer applies a transformer of items to constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from oahu import OAHU, Click, Clicks, TupleTransformer

Floats = NDArray[np.float64]


def constraints(n: int = 30, size: int = 3, n_features: int = 4) -> Floats:
    return np.random.default_rng(n).normal(5.0, 2.0, (n, size, n_features))


@given(n=st.integers(2, 30), size=st.integers(2, 4), n_features=st.integers(1, 5))
def test_constraints_are_transformed_item_by_item(n: int, size: int, n_features: int) -> None:
    values = constraints(n, size, n_features)
    transformed = TupleTransformer(StandardScaler()).fit_transform(values)
    flat = StandardScaler().fit_transform(values.reshape(-1, n_features))
    for i in range(n):
        for k in range(size):
            np.testing.assert_array_equal(transformed[i, k], flat[i * size + k])


def test_the_transformer_is_fitted_to_every_item() -> None:
    values = constraints()
    fitted = TupleTransformer(StandardScaler()).fit(values).transformer_
    np.testing.assert_allclose(fitted.mean_, np.mean([item for triplet in values for item in triplet], axis=0))


def test_an_item_in_several_constraints_counts_as_often() -> None:
    values = np.array([[[0.0], [0.0], [3.0]], [[0.0], [0.0], [0.0]]])
    assert TupleTransformer(StandardScaler()).fit(values).transformer_.mean_ == 0.5


@pytest.mark.parametrize("transformer", [StandardScaler(), MinMaxScaler(), PCA(2)], ids=lambda t: type(t).__name__)
def test_items_are_transformed_directly(transformer: Any) -> None:
    items = constraints().reshape(-1, 4)
    passed = TupleTransformer(transformer).fit(items).transform(items)
    np.testing.assert_array_equal(passed, clone(transformer).fit(items).transform(items))


def test_labels_pass_to_the_transformer() -> None:
    seen: list[Any] = []

    class RecordingScaler(StandardScaler):  # type: ignore[misc]
        def fit(self, X: Any, y: Any = None) -> Any:
            seen.append(y)
            return super().fit(X)

    labels = np.arange(4)
    TupleTransformer(RecordingScaler()).fit(np.eye(4), labels)
    assert seen[0] is labels


def test_constraints_and_items_are_transformed_alike() -> None:
    values = constraints()
    fitted = TupleTransformer(StandardScaler()).fit(values)
    np.testing.assert_array_equal(fitted.transform(values[:, 1]), fitted.transform(values)[:, 1])


def test_triplets_and_pairs_are_transformed_alike() -> None:
    values = constraints()
    fitted = TupleTransformer(StandardScaler()).fit(values)
    np.testing.assert_array_equal(fitted.transform(values[:, :2]), fitted.transform(values)[:, :2])


def test_the_number_of_features_may_change() -> None:
    assert TupleTransformer(PCA(2)).fit_transform(constraints()).shape == (30, 3, 2)


def test_constraints_may_be_lists() -> None:
    values = constraints()
    from_lists = TupleTransformer(StandardScaler()).fit_transform(values.tolist())
    np.testing.assert_array_equal(from_lists, TupleTransformer(StandardScaler()).fit_transform(values))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_constraints_are_not_changed(order: Any) -> None:
    values = np.asarray(constraints(), order=order)
    kept = values.copy()
    TupleTransformer(StandardScaler()).fit_transform(values)
    np.testing.assert_array_equal(values, kept)


def test_the_original_transformer_is_not_fitted() -> None:
    given_one = StandardScaler()
    TupleTransformer(given_one).fit(constraints())
    with pytest.raises(NotFittedError):
        check_is_fitted(given_one)


def test_a_second_fit_replaces_the_first() -> None:
    values = constraints()
    again = TupleTransformer(StandardScaler()).fit(values).fit(values + 1)
    np.testing.assert_array_equal(again.transformer_.mean_, StandardScaler().fit((values + 1).reshape(-1, 4)).mean_)


def test_fit_returns_the_transformer() -> None:
    transformer = TupleTransformer(StandardScaler())
    assert transformer.fit(constraints()) is transformer


# -- scikit-learn ----------------------------------------------------------------------------------------


def test_check_is_fitted_works() -> None:
    with pytest.raises(NotFittedError):
        check_is_fitted(TupleTransformer(StandardScaler()))
    check_is_fitted(TupleTransformer(StandardScaler()).fit(constraints()))


def test_a_clone_is_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(TupleTransformer(StandardScaler()).fit(constraints())))


def test_a_clone_has_its_own_transformer_with_the_same_parameters() -> None:
    original = TupleTransformer(StandardScaler(with_mean=False))
    copied = clone(original).transformer
    assert copied is not original.transformer
    assert copied.get_params() == original.transformer.get_params()


def test_parameters_reach_the_inner_transformer() -> None:
    outer = TupleTransformer(StandardScaler()).set_params(transformer__with_std=False)
    values = constraints()
    by_hand = values - values.mean(axis=(0, 1))
    np.testing.assert_allclose(outer.fit_transform(values), by_hand, atol=1e-12)


def test_a_pipeline_learns_triplets_and_transforms_items() -> None:
    values = constraints()
    learner = OAHU(n_layers=1, hidden_size=6, embedding_size=4, random_state=0)
    pipeline = make_pipeline(TupleTransformer(FunctionTransformer(np.tanh)), learner).fit(values)
    alone = clone(learner).fit(np.tanh(values))
    np.testing.assert_array_equal(pipeline.transform(values[:, 0]), alone.transform(np.tanh(values[:, 0])))


def test_transforming_before_fitting_is_a_not_fitted_error() -> None:
    with pytest.raises(NotFittedError, match="TupleTransformer"):
        TupleTransformer(StandardScaler()).transform(np.zeros((2, 3, 4)))


def test_sparse_items_stay_sparse() -> None:
    items = sparse.csr_array(np.eye(4))
    scaler = StandardScaler(with_mean=False)
    found = TupleTransformer(scaler).fit(items).transform(items)
    np.testing.assert_array_equal(found.toarray(), scaler.fit_transform(items).toarray())


def test_constraints_are_dense_if_the_transformer_returns_sparse_rows() -> None:
    triplets = np.random.default_rng(0).integers(0, 3, (10, 3, 2))
    found = TupleTransformer(OneHotEncoder()).fit(triplets).transform(triplets)
    expected = OneHotEncoder(sparse_output=False).fit_transform(triplets.reshape(-1, 2)).reshape(10, 3, -1)
    np.testing.assert_array_equal(found, expected)


def test_the_number_of_features_is_known_after_fitting() -> None:
    assert TupleTransformer(StandardScaler()).fit(np.zeros((2, 3, 4))).n_features_in_ == 4


@pytest.mark.parametrize("by_value", [True, False], ids=["values", "rows"])
def test_clicks_are_transformed_as_their_items(by_value: bool) -> None:
    table = np.random.default_rng(0).normal(5.0, 2.0, (9, 4))
    rows = [Click(0, [1], [2, 3], [4], 0.5), Click(table[8].tolist(), [5], [6, 7])]
    values = [
        Click(table[0], table[[1]], table[[2, 3]], table[[4]], 0.5),
        Click(table[8], table[[5]], table[[6, 7]]),
    ]
    clicks = Clicks(values) if by_value else Clicks(rows, preprocessor=table)
    scaled = TupleTransformer(StandardScaler()).fit(clicks).transform(clicks)
    items = table[[0, 1, 2, 3, 4, 8, 5, 6, 7]]
    np.testing.assert_array_equal(scaled.values(), StandardScaler().fit_transform(items))
    for name in ("marks", "offsets", "weights"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(clicks, name))
    pipeline = make_pipeline(TupleTransformer(StandardScaler()), OAHU(random_state=0)).fit(clicks)
    expected = OAHU(random_state=0).fit(scaled)
    np.testing.assert_array_equal(pipeline[-1].transform(items), expected.transform(items))
