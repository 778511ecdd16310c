"""The classifier against the paper's rule in plain loops, and as an estimator of scikit-learn."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
import sklearn.exceptions
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from oahu import (
    OAHU,
    BilinearMetric,
    Classifier,
    CosineMetric,
    EnsembleMetric,
    EuclideanMetric,
    InvalidInputError,
    InvalidTypeError,
    MahalanobisMetric,
    NotFittedError,
    OverflowedItemError,
)
from oahu.metrics import Metric
from oahu.tasks.indexed_items import VoteMode

Floats = NDArray[np.floating]
Neighbours = list[list[list[tuple[float, int]]]]  # (distance, item) for each space and query

D = 4
RNG = np.random.default_rng(0)
ITEMS, QUERIES = RNG.normal(size=(40, D)), RNG.normal(size=(15, D))
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 40)]
MATRIX = RNG.normal(size=(D, D))  # not symmetric


def ensemble(dtype: str = "float32", learned: bool = True) -> EnsembleMetric:
    learner = OAHU(n_layers=2, hidden_size=6, embedding_size=3, dtype=dtype, random_state=0).initialize(D)
    if learned:
        learner.partial_fit(np.random.default_rng(1).normal(size=(60, 3, D)))
    return learner.metric()


MAKERS: dict[str, Callable[[], Metric]] = {
    "ensemble": ensemble,
    "initial ensemble": lambda: ensemble(learned=False),
    "ensemble of float64": lambda: ensemble("float64"),
    "Mahalanobis": lambda: MahalanobisMetric(MATRIX),
    "bilinear": lambda: BilinearMetric(MATRIX, normalize=False),
    "bilinear normalized": lambda: BilinearMetric(MATRIX, normalize=True),
    "diagonal": lambda: BilinearMetric(MATRIX[0], normalize=False),
    "Euclidean": lambda: EuclideanMetric(D),
    "cosine": lambda: CosineMetric(D),
}
every_metric = pytest.mark.parametrize("name", MAKERS)
both_votes = pytest.mark.parametrize("vote", ["experts", "joint"])


@cache
def metric_of(name: str) -> Metric:
    return MAKERS[name]()


# -- the rule, in plain loops --------------------------------------------------------------------------


def nearest(metric: Metric, items: Any, queries: Any, k: int, vote: VoteMode = "experts") -> Neighbours:
    """The k nearest items in each space, ties by position, from float32 vectors."""
    joint = vote == "joint"
    encoded = metric.encode(items, joint) if joint else [space.encode(items) for space in metric.spaces]
    found = []
    for asked, table in zip(metric.encode_queries(queries, joint), encoded, strict=True):
        rows = np.float32(table).tolist()
        found.append(
            [
                sorted((measured(metric, query, row), place) for place, row in enumerate(rows))[:k]
                for query in np.float32(asked).tolist()
            ]
        )
    return found


def measured(metric: Metric, query: list[float], row: list[float]) -> float:
    if metric.measure == "ip":
        return -math.fsum(a * b for a, b in zip(query, row, strict=True))
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(query, row, strict=True)))


def weights_of(metric: Metric, vote: VoteMode) -> list[float]:
    return [1.0] if vote == "joint" else [space.weight for space in metric.spaces]


def class_scores(found: Neighbours, weights: list[float], labels: Sequence[Any]) -> list[dict[Any, float]]:
    """S(c) of each query: the sum of exp(-(D - d_min) / (d_max - d_min)) alpha over the neighbours of class c."""
    scores = []
    for query in range(len(found[0])):
        terms: dict[Any, list[float]] = {label: [] for label in sorted(set(labels))}
        for space, alpha in zip(found, weights, strict=True):
            d_min, d_max = space[query][0][0], space[query][-1][0]
            for distance, place in space[query]:
                relative = (distance - d_min) / (d_max - d_min) if d_max > d_min else 0.0
                terms[labels[place]].append(math.exp(-relative) * alpha)
        scores.append({label: math.fsum(parts) for label, parts in terms.items()})
    return scores


def shares(scores: list[dict[Any, float]]) -> list[list[float]]:
    return [[part / math.fsum(row.values()) for part in row.values()] for row in scores]


def winner(scores: dict[Any, float]) -> Any:
    """The first of the classes with the highest score, up to rounding."""
    return next(label for label, score in scores.items() if score > max(scores.values()) - 1e-9)


@every_metric
@both_votes
@pytest.mark.parametrize("k", [1, 7, 1000])
def test_predictions_equal_the_papers_rule(name: str, vote: VoteMode, k: int) -> None:
    metric = metric_of(name)
    scores = class_scores(nearest(metric, ITEMS, QUERIES, k, vote), weights_of(metric, vote), LABELS.tolist())
    classifier = Classifier(metric, k=k, vote=vote).fit(ITEMS, LABELS)
    np.testing.assert_allclose(classifier.predict_proba(QUERIES), shares(scores), atol=1e-9)
    assert classifier.predict(QUERIES).tolist() == list(map(winner, scores))


@every_metric
@both_votes
def test_neighbours_equal_brute_force(name: str, vote: VoteMode) -> None:
    metric = metric_of(name)
    expected = nearest(metric, ITEMS, QUERIES, 6, vote)
    found = Classifier(metric, vote=vote).fit(ITEMS, LABELS).kneighbors(QUERIES, 6)
    assert found.positions.tolist() == [[[place for _, place in query] for query in space] for space in expected]
    np.testing.assert_allclose(
        found.distances, [[[distance for distance, _ in query] for query in space] for space in expected], atol=1e-9
    )


def test_neighbours_beyond_the_number_of_items_are_missing() -> None:
    found = Classifier(EuclideanMetric(1), k=3).fit([[0.0], [2.0]], ["a", "b"]).kneighbors([[0.5]])
    assert (found.positions.tolist(), found.distances.tolist()) == ([[[0, 1, -1]]], [[[0.5, 1.5, math.inf]]])


@pytest.mark.parametrize("name", ["ensemble", "bilinear"])
def test_classifying_many_queries_equals_classifying_few(name: str) -> None:
    """There is more than one block of queries."""
    classifier = Classifier(metric_of(name)).fit(ITEMS, LABELS)
    queries = np.random.default_rng(5).normal(size=(4200, D))
    tail = classifier.predict_proba(queries[4000:])
    np.testing.assert_allclose(classifier.predict_proba(queries)[4000:], tail, atol=1e-4)


# -- ties ----------------------------------------------------------------------------------------------

SIGNS = EnsembleMetric.frozen(  # three spaces with the values -1, 0 and 1: distances are 0, 1 and 2
    [np.array([[1.0, 1.0]]), np.array([[2.0]])],
    [np.array([-2.0]), np.array([-3.0])],
    [np.array([[1.0, -1.0]]), np.array([[1.0]]), np.array([[1.0]])],
    [np.array([0.0]), np.array([-1.0]), np.array([-2.0])],
    np.array([0.5, 0.25, 0.25]),
    version=0,
)
ON_A_GRID: dict[str, Metric] = {  # exact for integers
    "Euclidean": EuclideanMetric(2),
    "Mahalanobis": MahalanobisMetric(np.array([[1.0, 1.0], [0.0, 2.0]])),
    "bilinear": BilinearMetric(np.array([[1.0, 2.0], [-1.0, 0.0]]), normalize=False),
    "signs": SIGNS,
}
every_grid = pytest.mark.parametrize("metric", ON_A_GRID.values(), ids=ON_A_GRID.keys())
points = st.tuples(st.integers(0, 3), st.integers(0, 3))


@every_grid
@settings(max_examples=30)
@given(
    labelled=st.lists(st.tuples(points, st.sampled_from("abc")), min_size=1, max_size=12),
    queries=st.lists(points, min_size=1, max_size=3),
    k=st.integers(1, 15),
)
def test_predict_proba_equals_the_papers_rule_with_ties(
    metric: Metric, labelled: list[tuple[tuple[int, int], str]], queries: list[tuple[int, int]], k: int
) -> None:
    items, labels = ([part[i] for part in labelled] for i in (0, 1))
    scores = class_scores(nearest(metric, items, queries, k), weights_of(metric, "experts"), labels)
    found = Classifier(metric, k=k, vote="experts").fit(items, labels).predict_proba(queries)
    np.testing.assert_allclose(found, shares(scores), atol=1e-12)


@pytest.mark.parametrize("metric", [ON_A_GRID[name] for name in ("Euclidean", "Mahalanobis", "bilinear")])
@settings(max_examples=30)
@given(
    labelled=st.lists(st.tuples(points, st.sampled_from([3, 1, 2])), min_size=1, max_size=12),
    query=points,
    k=st.integers(1, 15),
)
def test_the_first_of_tied_classes_wins(
    metric: Metric, labelled: list[tuple[tuple[int, int], int]], query: tuple[int, int], k: int
) -> None:
    items, labels = ([part[i] for part in labelled] for i in (0, 1))
    (scores,) = class_scores(nearest(metric, items, [query], k), [1.0], labels)
    assert Classifier(metric, k=k).fit(items, labels).predict([query]).tolist() == [winner(scores)]


@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_the_first_of_equally_near_classes_wins_whatever_the_order_of_items(labels: list[str]) -> None:
    assert Classifier(EuclideanMetric(1), k=2).fit([[-1.0], [1.0]], labels).predict([[0.0]]).tolist() == ["a"]


@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_the_first_added_of_equally_near_items_counts_as_nearer(labels: list[str]) -> None:
    found = Classifier(EuclideanMetric(1), k=1).fit([[-1.0], [1.0]], labels).predict([[0.0]])
    assert found.tolist() == labels[:1]


def test_equally_near_items_have_the_same_score() -> None:
    classifier = Classifier(EuclideanMetric(1), k=3).fit([[-1.0], [1.0], [1.0]], ["a", "b", "b"])
    assert classifier.predict_proba([[0.0]])[0].tolist() == pytest.approx([1 / 3, 2 / 3], abs=1e-15)


def test_a_single_item_determines_every_prediction() -> None:
    assert Classifier(EuclideanMetric(1)).fit([[3.0]], [7]).predict([[0.0], [9.0]]).tolist() == [7, 7]


def test_a_huge_k_uses_all_items() -> None:
    classifier = Classifier(EuclideanMetric(D), k=10**15).fit(ITEMS, LABELS)
    np.testing.assert_array_equal(
        classifier.predict_proba(QUERIES), classifier.set_params(k=40).predict_proba(QUERIES)
    )


# -- the joint vote ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ensemble", "initial ensemble", "Mahalanobis", "cosine"])
def test_a_joint_vote_equals_the_rule_on_transformed_items(name: str) -> None:
    metric: Any = metric_of(name)
    vectors, asked = metric.transform(ITEMS), metric.transform(QUERIES)
    plain = Classifier(EuclideanMetric(vectors.shape[1])).fit(vectors, LABELS).predict_proba(asked)
    joint = Classifier(metric, vote="joint").fit(ITEMS, LABELS).predict_proba(QUERIES)
    np.testing.assert_allclose(joint, plain, atol=1e-9)


@pytest.mark.parametrize("name", ["Mahalanobis", "bilinear", "bilinear normalized", "Euclidean", "cosine"])
def test_both_vote_modes_are_equal_for_a_metric_with_one_space(name: str) -> None:
    experts, joint = (
        Classifier(metric_of(name), vote=vote).fit(ITEMS, LABELS).predict_proba(QUERIES)
        for vote in ("experts", "joint")
    )
    np.testing.assert_array_equal(joint, experts)


# -- labels --------------------------------------------------------------------------------------------

KINDS_OF_LABELS: dict[str, NDArray[Any]] = {
    "strings": np.array(["oak", "elm"]),
    "strings as objects": np.array(["oak", "elm"], object),
    "integers": np.array([30, -2]),
    "unsigned": np.array([3, 200], np.uint8),
    "booleans": np.array([True, False]),
    "whole floats": np.array([4.0, -1.0]),
}
every_kind = pytest.mark.parametrize("kind", KINDS_OF_LABELS)


@every_kind
def test_predictions_have_the_dtype_of_the_labels(kind: str) -> None:
    given = KINDS_OF_LABELS[kind]
    answers = Classifier(EuclideanMetric(1), k=1).fit([[0.0], [9.0]], given).predict([[8.0], [1.0], [0.0]])
    assert (answers.dtype, answers.tolist()) == (given.dtype, given[[1, 0, 0]].tolist())


@every_kind
def test_classes_are_sorted(kind: str) -> None:
    given = KINDS_OF_LABELS[kind]
    assert Classifier().fit([[0.0], [9.0]], given).classes_.tolist() == sorted(given.tolist())


def test_many_classes_of_one_item_give_no_warning() -> None:
    """scikit-learn takes labels with many classes for a regression target."""
    items = np.arange(30.0)[:, None]
    assert Classifier(k=1).fit(items, np.arange(30)).predict(items).tolist() == list(range(30))


# -- partial_fit ---------------------------------------------------------------------------------------

CUTS = ([13], [1, 2, 3], [39], list(range(1, 40)))


def fitted_in_pieces(classifier: Classifier, cuts: list[int]) -> Classifier:
    for items, labels in zip(np.split(ITEMS, cuts), np.split(LABELS, cuts), strict=True):
        classifier.partial_fit(items, labels)
    return classifier


@pytest.mark.parametrize("name", ["ensemble", "bilinear normalized", "Euclidean"])
@pytest.mark.parametrize("cuts", CUTS, ids=["two", "four", "but one", "one by one"])
def test_partial_fit_in_pieces_equals_one_fit(name: str, cuts: list[int]) -> None:
    once = Classifier(metric_of(name)).fit(ITEMS, LABELS)
    pieces = fitted_in_pieces(Classifier(metric_of(name)), cuts)
    np.testing.assert_allclose(pieces.predict_proba(QUERIES), once.predict_proba(QUERIES), atol=1e-4)


@settings(max_examples=40)
@given(labels=st.lists(st.sampled_from([5, 3, 9, 1]), min_size=2, max_size=10), data=st.data())
def test_later_classes_equal_classes_from_the_start(labels: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(labels) - 1))
    items = np.arange(len(labels))[:, None] % 4
    once = Classifier(k=3).fit(items, labels)
    pieces = Classifier(k=3).partial_fit(items[:cut], labels[:cut]).partial_fit(items[cut:], labels[cut:])
    assert pieces.classes_.tolist() == once.classes_.tolist()
    np.testing.assert_array_equal(pieces.predict_proba(items), once.predict_proba(items))


def test_longer_labels_added_later_are_not_truncated() -> None:
    classifier = Classifier(k=1).partial_fit([[0.0]], ["a"]).partial_fit([[9.0]], ["abundance"])
    assert classifier.predict([[8.0], [0.0]]).tolist() == ["abundance", "a"]


def test_announced_classes_have_columns() -> None:
    classifier = Classifier(k=1).partial_fit([[0.0]], ["m"], classes=["z", "a", "m"])
    assert (classifier.classes_.tolist(), classifier.predict_proba([[1.0]]).tolist()) == (
        ["a", "m", "z"],
        [[0.0, 1.0, 0.0]],
    )


def test_classes_may_be_announced_at_any_time() -> None:
    classifier = Classifier(k=1).partial_fit([[0.0]], [5]).partial_fit([[9.0]], [7], classes=[6])
    assert classifier.classes_.tolist() == [5, 6, 7]
    assert classifier.predict_proba([[0.0], [9.0]]).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_an_empty_list_of_classes_keeps_the_label_dtype() -> None:
    assert Classifier().partial_fit([[0.0]], [5], classes=[]).classes_.dtype.kind == "i"


def test_items_are_counted() -> None:
    classifier = Classifier().fit(ITEMS, LABELS)
    assert (classifier.n_items_, classifier.partial_fit(ITEMS[:3], LABELS[:3]).n_items_) == (40, 43)


def test_fit_replaces_earlier_items() -> None:
    again = Classifier().fit(np.ones((3, 1)), ["x", "y", "z"]).fit(ITEMS, LABELS)
    np.testing.assert_array_equal(
        again.predict_proba(QUERIES), Classifier().fit(ITEMS, LABELS).predict_proba(QUERIES)
    )


def test_changing_the_given_items_later_does_not_change_predictions() -> None:
    items, labels = ITEMS.copy(), LABELS.copy()
    classifier = Classifier(metric_of("bilinear")).fit(items, labels)
    before = classifier.predict_proba(QUERIES)
    items[:], labels[:] = 0, "ash"
    np.testing.assert_array_equal(classifier.predict_proba(QUERIES), before)


# -- familiarity and unknown items ---------------------------------------------------------------------


def familiarity_by_hand(metric: Metric, vote: VoteMode) -> list[float]:
    found, weights = nearest(metric, ITEMS, QUERIES, 1, vote), weights_of(metric, vote)
    bounded = isinstance(metric, EnsembleMetric | CosineMetric)
    return [
        math.fsum(
            alpha * (1 - space[query][0][0] / 2 if bounded else -space[query][0][0])
            for alpha, space in zip(weights, found, strict=True)
        )
        for query in range(len(QUERIES))
    ]


@every_metric
@both_votes
def test_familiarity_is_the_weighted_mean_similarity_of_the_nearest_items(name: str, vote: VoteMode) -> None:
    metric = metric_of(name)
    found = Classifier(metric, vote=vote).fit(ITEMS, LABELS).familiarity(QUERIES)
    np.testing.assert_allclose(found, familiarity_by_hand(metric, vote), atol=1e-9)


@every_metric
def test_items_below_the_familiarity_limit_are_unknown(name: str) -> None:
    classifier = Classifier(metric_of(name)).fit(ITEMS, LABELS)
    familiarity = classifier.familiarity(QUERIES)
    bound = float(np.median(familiarity))  # one of them
    answers = classifier.set_params(unknown_below=bound).predict(QUERIES)
    assert (answers == "unknown").tolist() == (familiarity < bound).tolist()


def test_known_items_are_predicted_as_without_a_limit() -> None:
    classifier = Classifier(metric_of("ensemble")).fit(ITEMS, LABELS)
    plain = classifier.predict(QUERIES)
    answers = classifier.set_params(unknown_below=float(np.median(classifier.familiarity(QUERIES)))).predict(
        QUERIES
    )
    assert [a for a in answers if a != "unknown"] == plain[answers != "unknown"].tolist()


@every_kind
@pytest.mark.parametrize("unknown", ["unknown", -1, "?"])
def test_unknown_keeps_its_type_beside_labels_of_any_kind(kind: str, unknown: Any) -> None:
    given = KINDS_OF_LABELS[kind]
    classifier = Classifier(EuclideanMetric(1), k=1, unknown_below=-2.0, unknown=unknown)
    answers = classifier.fit([[0.0], [9.0]], given).predict([[2.0], [4.0], [9.0]]).tolist()
    assert [(type(a), a) for a in answers] == [
        (type(a), a) for a in (given.tolist()[0], unknown, given.tolist()[1])
    ]


def test_strings_stay_an_array_of_strings_beside_unknown() -> None:
    classifier = Classifier(EuclideanMetric(1), unknown_below=-1.0).fit([[0.0]], ["a"])
    assert classifier.predict([[5.0]]).dtype.kind == "U"


def test_integers_stay_an_array_of_integers_beside_an_integer() -> None:
    classifier = Classifier(EuclideanMetric(1), unknown_below=-1.0, unknown=-1).fit([[0.0]], [4])
    assert classifier.predict([[5.0]]).dtype.kind == "i"


# -- scikit-learn estimator ----------------------------------------------------------------------------


@parametrize_with_checks([Classifier()])
def test_scikit_learn_checks_pass(
    monkeypatch: pytest.MonkeyPatch, estimator: BaseEstimator, check: Callable[[BaseEstimator], None]
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # one of the checks needs it
    try:
        check(estimator)
    except SkipTest as reason:  # raised at the end of one check, after its other half has passed
        assert "pandas is not installed" in str(reason)  # noqa: PT017


def test_get_params_returns_the_given_parameters() -> None:
    given = {"metric": metric_of("cosine"), "k": 3, "vote": "joint", "unknown_below": 0.5, "unknown": -1}
    assert Classifier(**given).get_params() == given


def test_k_takes_effect_when_it_is_set() -> None:
    classifier = Classifier(k=1).fit(ITEMS, LABELS).set_params(k=9)
    expected = Classifier(k=9).fit(ITEMS, LABELS).predict_proba(QUERIES)
    np.testing.assert_array_equal(classifier.predict_proba(QUERIES), expected)


@every_metric
def test_a_clone_is_unfitted_and_predicts_the_same_after_fit(name: str) -> None:
    classifier = Classifier(metric_of(name), k=3).fit(ITEMS, LABELS)
    copy = clone(classifier)
    assert not hasattr(copy, "classes_")
    np.testing.assert_array_equal(copy.fit(ITEMS, LABELS).predict_proba(QUERIES), classifier.predict_proba(QUERIES))


@every_metric
def test_a_pickle_predicts_the_same(name: str) -> None:
    classifier = Classifier(metric_of(name), vote="experts").fit(ITEMS, LABELS)
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copy.predict_proba(QUERIES), classifier.predict_proba(QUERIES))


def test_a_pickle_can_be_trained_further() -> None:
    classifier = Classifier(metric_of("Euclidean")).fit(ITEMS[:20], LABELS[:20])
    copy = pickle.loads(pickle.dumps(classifier)).partial_fit(ITEMS[20:], LABELS[20:])
    expected = Classifier(metric_of("Euclidean")).fit(ITEMS, LABELS)
    np.testing.assert_array_equal(copy.predict_proba(QUERIES), expected.predict_proba(QUERIES))


def accuracy_by_fold(k: int, metric: Metric | None, items: Floats, labels: NDArray[Any]) -> list[float]:
    return [
        float(np.mean(Classifier(metric, k=k).fit(items[a], labels[a]).predict(items[b]) == labels[b]))
        for a, b in StratifiedKFold(4).split(items, labels)
    ]


def test_cross_validation_equals_a_loop_over_folds() -> None:
    iris = load_iris()
    found = cross_val_score(Classifier(CosineMetric(4), k=3), iris.data, iris.target, cv=StratifiedKFold(4))
    assert found.tolist() == pytest.approx(accuracy_by_fold(3, CosineMetric(4), iris.data, iris.target))


def test_a_grid_search_over_k_scores_each() -> None:
    iris = load_iris()
    search = GridSearchCV(Classifier(), {"k": [1, 5, 100]}, cv=StratifiedKFold(4)).fit(iris.data, iris.target)
    expected = [np.mean(accuracy_by_fold(k, None, iris.data, iris.target)) for k in (1, 5, 100)]
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(expected)


def test_a_scaler_in_a_pipeline_equals_scaling_beforehand() -> None:
    raw, asked = 100 + 50 * ITEMS, 100 + 50 * QUERIES
    scaler = StandardScaler().fit(raw)
    by_hand = Classifier(metric_of("ensemble")).fit(scaler.transform(raw), LABELS)
    pipeline = make_pipeline(StandardScaler(), Classifier(metric_of("ensemble"))).fit(raw, LABELS)
    np.testing.assert_array_equal(pipeline.predict_proba(asked), by_hand.predict_proba(scaler.transform(asked)))


# -- invalid input -------------------------------------------------------------------------------------

WITH_NAN = np.where(np.arange(12).reshape(3, D) == 6, np.nan, 1.0)
BAD_ITEMS: dict[str, tuple[Any, str]] = {
    "NaN": (WITH_NAN, "NaN"),
    "too large": (np.full((3, D), 1e300), "too large for float32: row 0, feature 0"),
    "too many features": (np.ones((3, D + 1)), f"X has {D + 1} features, but"),
    "no items": (np.ones((0, D)), r"0 sample\(s\)"),
    "one vector": (np.ones(D), "Expected 2D array"),
    "strings": ([["a"] * D] * 3, "could not convert|must be|dtype"),
}
BAD_LABELS: dict[str, tuple[Any, str]] = {
    "too few": (["a", "b"], "inconsistent numbers of samples"),
    "none": (None, "requires y"),
    "fractions": ([0.5, 1.5, 2.5], "Unknown label type: continuous"),
    "NaN": ([1.0, np.nan, 2.0], "NaN"),
    "a table": (np.ones((3, 2)), "1d array"),
    "mixed": (np.array(["a", 1, 2], object), "all be numbers or all be strings"),
    "None among strings": (np.array(["a", None, "b"], object), "all be numbers or all be strings"),
}
BAD_CLASSES: dict[str, tuple[Any, str]] = {
    "numbers beside strings": ([1, 2], "all be numbers or all be strings. Got <U5, <U5, int64"),
    "a table": ([["a", "b"]], "1d array"),
    "fractions": ([0.5], "Unknown label type"),
    "NaN": ([np.nan], "NaN"),
    "None among strings": (["a", None], "all be numbers or all be strings"),
}
METHODS = ("predict", "predict_proba", "familiarity", "kneighbors")


@pytest.mark.parametrize("bad", BAD_ITEMS)
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_invalid_items_are_rejected_in_fit(bad: str, learn: str) -> None:
    data, message = BAD_ITEMS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Classifier(EuclideanMetric(D)), learn)(data, ["a", "b", "b"][: len(data)])


@pytest.mark.parametrize(
    ("method", "bad"), [*(("predict", bad) for bad in BAD_ITEMS), *((method, "NaN") for method in METHODS[1:])]
)
def test_invalid_items_are_rejected_in_predict(method: str, bad: str) -> None:
    data, message = BAD_ITEMS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Classifier(EuclideanMetric(D)).fit(ITEMS, LABELS), method)(data)


@pytest.mark.parametrize("bad", BAD_LABELS)
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_invalid_labels_are_rejected(bad: str, learn: str) -> None:
    labels, message = BAD_LABELS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Classifier(EuclideanMetric(D)), learn)(ITEMS[:3], labels)


@pytest.mark.parametrize("bad", BAD_CLASSES)
def test_invalid_classes_are_rejected(bad: str) -> None:
    classes, message = BAD_CLASSES[bad]
    with pytest.raises(InvalidInputError, match=message):
        Classifier().fit(ITEMS, LABELS).partial_fit(ITEMS, LABELS, classes=classes)


BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "k of 0": ({"k": 0}, "'k' parameter of Classifier must be an int of at least 1. Got 0 instead"),
    "k of a fraction": ({"k": 2.5}, "'k' parameter"),
    "vote": ({"vote": "majority"}, "'vote' parameter of Classifier must be one of 'joint', 'experts'"),
    "unknown_below": ({"unknown_below": "far"}, "'unknown_below' parameter"),
    "unknown_below of NaN": ({"unknown_below": math.nan}, "'unknown_below' parameter"),
    "a name": ({"metric": "euclidean"}, "must be a metric, such as"),
    "a learner": ({"metric": OAHU()}, r"Got OAHU instead\. Pass the result of the metric\(\)"),
}
every_bad_parameter = pytest.mark.parametrize("bad", BAD_PARAMETERS)


@every_bad_parameter
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_invalid_parameters_are_rejected_in_fit(bad: str, learn: str) -> None:
    parameters, message = BAD_PARAMETERS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Classifier(**parameters), learn)(ITEMS, LABELS)


@pytest.mark.parametrize(
    ("method", "bad"),
    [*(("predict", bad) for bad in BAD_PARAMETERS), *((method, "vote") for method in METHODS[1:])],
)
def test_invalid_parameters_are_rejected_in_predict(method: str, bad: str) -> None:
    parameters, message = BAD_PARAMETERS[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(Classifier().fit(ITEMS, LABELS).set_params(**parameters), method)(QUERIES)


def test_an_invalid_number_of_neighbours_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="'k' parameter of Classifier must be an int of at least 1"):
        Classifier().fit(ITEMS, LABELS).kneighbors(QUERIES, 0)


def test_a_learner_in_place_of_a_metric_is_a_type_error() -> None:
    with pytest.raises(InvalidTypeError):
        Classifier(OAHU()).fit(ITEMS, LABELS)


@pytest.mark.parametrize("method", METHODS)
def test_predicting_before_fit_raises_an_error_that_says_what_to_do(method: str) -> None:
    with pytest.raises(NotFittedError, match=r"Call fit\(\) first"):
        getattr(Classifier(), method)(QUERIES)


def test_the_error_before_fit_is_also_scikit_learns() -> None:
    with pytest.raises(sklearn.exceptions.NotFittedError):
        Classifier().predict(QUERIES)


def test_the_error_for_a_too_large_query_names_its_row() -> None:
    queries = np.ones((4200, D))
    queries[4150, 2] = 1e300
    with pytest.raises(InvalidInputError, match="row 4150, feature 2"):
        Classifier().fit(ITEMS, LABELS).predict(queries)


def test_the_error_for_an_overflowing_query_names_its_row() -> None:
    queries = np.ones((4200, 1))
    queries[4150] = 1e30
    classifier = Classifier(MahalanobisMetric(np.full((1, 1), 1e10, np.float32))).fit([[1.0]], ["a"])
    with pytest.raises(OverflowedItemError, match=r"^Item 4150 is too large"):
        classifier.predict(queries)


# -- failed calls change nothing -----------------------------------------------------------------------

FAILING: dict[str, Callable[[Classifier], object]] = {
    **{f"fit, items: {bad}": lambda c, d=data: c.fit(d, ["a"] * len(d)) for bad, (data, _) in BAD_ITEMS.items()},
    **{
        f"partial_fit, items: {bad}": lambda c, d=data: c.partial_fit(d, ["a"] * len(d))
        for bad, (data, _) in BAD_ITEMS.items()
    },
    **{f"fit, labels: {bad}": lambda c, y=y: c.fit(np.ones((3, 2)), y) for bad, (y, _) in BAD_LABELS.items()},
    **{
        f"partial_fit, labels: {bad}": lambda c, y=y: c.partial_fit(ITEMS[:3], y)
        for bad, (y, _) in BAD_LABELS.items()
    },
    **{
        f"classes: {bad}": lambda c, y=y: c.partial_fit(ITEMS, LABELS, classes=y)
        for bad, (y, _) in BAD_CLASSES.items()
    },
    "too long for a search": lambda c: c.partial_fit(np.full((1, D), 1e25), ["new"]),
    "named columns": lambda c: c.fit(Named(np.full((2, D), np.nan)), ["a", "b"]),
}


class Named:
    """An array with column names, which scikit-learn treats as a data frame."""

    columns: Sequence[str] = ("v", "w", "x", "y")

    def __init__(self, values: Floats) -> None:
        self.values, self.shape = values, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)


@pytest.mark.parametrize("failing", FAILING)
def test_a_failed_call_changes_nothing(failing: str) -> None:
    new = Classifier(EuclideanMetric(D))
    with pytest.raises(InvalidInputError):
        FAILING[failing](new)
    assert vars(new) == vars(Classifier(EuclideanMetric(D)))
    classifier = Classifier(EuclideanMetric(D)).fit(ITEMS, LABELS)
    before, answers = dict(vars(classifier)), classifier.predict_proba(QUERIES)
    with pytest.raises(InvalidInputError):
        FAILING[failing](classifier)
    assert {name: id(value) for name, value in vars(classifier).items()} == {n: id(v) for n, v in before.items()}
    np.testing.assert_array_equal(classifier.predict_proba(QUERIES), answers)


def test_unknown_beside_integer_labels_counts_as_wrong() -> None:
    classifier = Classifier(EuclideanMetric(1), k=1, unknown_below=-1.0).fit([[0.0], [10.0]], [1, 2])
    assert classifier.predict([[0.5], [5.0]]).tolist() == [1, "unknown"]
    assert classifier.score([[0.5], [5.0], [9.5], [9.5]], [1, 1, 2, 1]) == 0.5
    assert classifier.score([[0.5], [5.0]], [1, 1], sample_weight=[3.0, 1.0]) == 0.75
