"""Tests of the classification and the constraints protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score

import oahu
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_method, classification_protocol
from oahu.evaluation.protocols.classification_protocol import split_halves
from oahu.evaluation.trials import Outcome
from oahu.exceptions import InvalidInputError

Measure = Callable[..., Outcome]
RecordingMethod = Callable[[str], Method]


# -- split ----------------------------------------------------------------------------------------------


@given(n=st.integers(4, 60), seed=st.integers(0, 9), run=st.integers(0, 9))
def test_halves_partition_the_items(n: int, seed: int, run: int) -> None:
    development, test = split_halves(Dataset("any", np.zeros((n, 1)), np.zeros(n)), seed, run)
    assert sorted([*development, *test]) == list(range(n))
    assert len(test) - len(development) in (0, 1)


def test_halves_depend_on_run_and_seed(digits: Dataset) -> None:
    several = {tuple(split_halves(digits, seed, run)[0]) for seed in range(3) for run in range(4)}
    assert len(several) == 12
    assert tuple(split_halves(digits, 0, 0)[0]) in several


# -- scores ----------------------------------------------------------------------------------------------


def vote(items: list[list[int]], labels: list[Any], query: list[int], k: int) -> Any:
    """Return the class with the largest sum of exp(-(D - d_min) / (d_max - d_min)) among the k nearest."""
    squares = [(sum((a - b) ** 2 for a, b in zip(item, query, strict=True)), i) for i, item in enumerate(items)]
    nearest = [(math.sqrt(square), i) for square, i in sorted(squares)[:k]]
    low, spread = nearest[0][0], nearest[-1][0] - nearest[0][0]
    sums: dict[Any, float] = {}
    for distance, i in nearest:
        share = math.exp(-(distance - low) / spread) if spread else 1.0
        sums[labels[i]] = sums.get(labels[i], 0.0) + share
    return max(sorted(sums), key=lambda label: sums[label])


def by_hand(dataset: Dataset, run: int, k: int, queries: int | None = None) -> tuple[list[Any], list[Any]]:
    development, test = split_halves(dataset, 0, run)
    X, y = dataset.X.tolist(), dataset.y.tolist()
    items, labels = [X[i] for i in development], [y[i] for i in development]
    tested = test[:queries]
    return [y[i] for i in tested], [vote(items, labels, X[i], k) for i in tested]


@pytest.mark.parametrize(("run", "k"), [(0, 5), (1, 5), (0, 1), (0, 12)])
def test_euclidean_scores_match_a_plain_loop(digits: Dataset, measure: Measure, run: int, k: int) -> None:
    truth, predicted = by_hand(digits, run, k)
    scores = measure("classification", digits, "Euclidean", run, k=k).scores
    assert scores["error_rate"] == pytest.approx(1 - accuracy_score(truth, predicted))
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro", zero_division=0))


@pytest.mark.parametrize("queries", [1, 30, 99, 1000])
def test_number_of_queries(digits: Dataset, measure: Measure, queries: int) -> None:
    truth, predicted = by_hand(digits, 0, 5, queries)
    scores = measure("classification", digits, "Euclidean", queries=queries).scores
    assert len(truth) == min(queries, 100)
    assert scores["error_rate"] == pytest.approx(1 - accuracy_score(truth, predicted))


def test_unlearned_metric_has_no_utilization(digits: Dataset, measure: Measure) -> None:
    assert math.isnan(measure("classification", digits, "Cosine").scores["utilization"])


def test_utilization_counts_constraints_that_change_the_metric(
    numbered: Dataset, measure: Measure, recording: RecordingMethod
) -> None:
    method = recording("RDML")
    outcome = measure("classification", numbered, method, n_constraints=60, n_seeds=30, scaling="unit")
    [(learner_used, rows, same)] = type(method.learner).calls
    learner = oahu.RDML(random_state=learner_used.random_state, preprocessor=learner_used.preprocessor).initialize(
        4
    )
    before, changes = learner.metric().scores(np.eye(4), np.eye(4)), 0
    for row, similar in zip(rows, same, strict=True):
        now = learner.partial_fit(row[None], [similar]).metric().scores(np.eye(4), np.eye(4))
        before, changes = now, changes + bool((now != before).any())
    assert 0 < changes < len(rows) == 60
    assert outcome.scores["utilization"] == changes / 60


# -- constraints --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["OAHU", "LEGO"])
def test_constraints_are_true_and_from_the_development_half(
    numbered: Dataset, measure: Measure, recording: RecordingMethod, name: str
) -> None:
    method = recording(name)
    outcome = measure("classification", numbered, method)
    [(learner, rows, same)] = type(method.learner).calls
    originals = learner.preprocessor[:, 0].astype(int)  # the first feature of an item is its row
    assert originals.tolist() == split_halves(numbered, 0, 0)[0].tolist()
    labels = numbered.y[originals][rows]
    if same is None:
        assert ((labels[:, 0] == labels[:, 1]) & (labels[:, 0] != labels[:, 2])).all()
    else:
        assert ((labels[:, 0] == labels[:, 1]) == (same > 0)).all()
    assert outcome.facts["n_seen"] == len(rows) == 200
    assert outcome.facts["n_drawn"] + outcome.facts["n_implied"] == 200


def test_methods_learn_from_the_same_stream(digits: Dataset, measure: Measure, recording: RecordingMethod) -> None:
    for one, two in (("OAHU", "OASIS"), ("LEGO", "RDML")):
        methods = recording(one), recording(two)
        for method in methods:
            measure("classification", digits, method)
        [(_, rows, same)], [(_, others, labels)] = (type(method.learner).calls for method in methods)
        np.testing.assert_array_equal(rows, others)
        np.testing.assert_array_equal(same, labels)


def test_stream_depends_on_run_and_seed(digits: Dataset, measure: Measure, recording: RecordingMethod) -> None:
    method = recording("OASIS")
    for run, seed in ((0, 0), (1, 0), (0, 1)):
        measure("classification", digits, method, run, seed=seed)
    assert len({rows.tobytes() for _, rows, _ in type(method.learner).calls}) == 3


def test_opml_learns_from_labelled_items(numbered: Dataset, measure: Measure, recording: RecordingMethod) -> None:
    method = recording("OPML")
    measure("classification", numbered, method)
    [(_, items, labels)] = type(method.learner).calls
    rows = items[:, 0].astype(int)
    assert sorted(rows) == sorted(split_halves(numbered, 0, 0)[0])
    assert (labels == numbered.y[rows]).all()
    np.testing.assert_array_equal(items, numbered.X[rows])


def test_given_learner_is_not_modified(digits: Dataset, measure: Measure) -> None:
    learner = oahu.LEGO()
    measure("classification", digits, learner)
    assert vars(learner) == vars(oahu.LEGO())


# -- what is not looked at -------------------------------------------------------------------------------


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Return the metrics and predictions, in order."""
    seen: dict[str, list[Any]] = {"metric": [], "predicted": []}
    train_method, error_rate = classification_protocol.train_method, classification_protocol.error_rate

    def learning(*arguments: Any) -> Any:
        learned = train_method(*arguments)
        seen["metric"].append(joblib.hash(learned.metric))
        return learned

    def scoring(truth: Any, predicted: NDArray[Any]) -> float:
        seen["predicted"].append(predicted.tolist())
        return error_rate(truth, predicted)

    monkeypatch.setattr(classification_protocol, "train_method", learning)
    monkeypatch.setattr(classification_protocol, "error_rate", scoring)
    return seen


@pytest.mark.parametrize("method", ["LEGO", "OASIS", "OPML"])
@pytest.mark.parametrize("scaling", ["standard", "range"])
def test_labels_of_the_test_half_do_not_influence_learning(
    digits: Dataset, measure: Measure, observed: dict[str, list[Any]], method: str, scaling: str
) -> None:
    _, test = split_halves(digits, 0, 0)
    y = digits.y.copy()
    y[test] = np.roll(y[test], 7)
    errors = [
        measure("classification", data, method, scaling=scaling).scores["error_rate"]
        for data in (digits, replace(digits, y=y))
    ]
    assert errors[0] != errors[1]  # of which the answers are no part
    for one, two in observed.values():
        assert one == two


@pytest.mark.parametrize("method", ["LEGO", "OASIS", "OPML"])
@pytest.mark.parametrize("scaling", ["standard", "range", "centred"])
def test_items_of_the_test_half_do_not_influence_learning(
    digits: Dataset, measure: Measure, observed: dict[str, list[Any]], method: str, scaling: str
) -> None:
    _, test = split_halves(digits, 0, 0)
    X = digits.X.copy()
    X[test] = 255 - X[test]
    for data in (digits, replace(digits, X=X)):
        measure("classification", data, method, scaling=scaling)
    one, two = observed["metric"]
    assert one == two


# -- tuning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folds", "tune_items", "used"), [(3, 1000, 75), (4, 50, 50)])
def test_folds_partition_the_development_half(
    numbered: Dataset,
    measure: Measure,
    monkeypatch: pytest.MonkeyPatch,
    folds: int,
    tune_items: int,
    used: int,
) -> None:
    training_sets, queries = [], []

    class Watching(classification_protocol.Classifier):  # type: ignore[name-defined, misc]
        def fit(self, X: Any, y: Any) -> Any:
            training_sets.append(X[:, 0].astype(int).tolist())
            return super().fit(X, y)

        def predict(self, X: Any) -> Any:
            queries.append(X[:, 0].astype(int).tolist())
            return super().predict(X)

    monkeypatch.setattr(classification_protocol, "Classifier", Watching)
    for fold in range(folds):
        measure("classification", numbered, "Euclidean", fold, "tuning", folds=folds, tune_items=tune_items)
    development = set(split_halves(numbered, 0, 0)[0].tolist())
    held_out = [row for rows in queries for row in rows]
    assert len(held_out) == len(set(held_out)) == used
    for items, tested in zip(training_sets, queries, strict=True):
        assert sorted([*items, *tested]) == sorted(held_out)
    assert set(held_out) <= development


# -- how many constraints --------------------------------------------------------------------------------


def test_one_trial_per_number_of_constraints(digits: Dataset) -> None:
    protocol = PROTOCOLS["constraints"]
    trials = protocol.trials(digits, as_method("OAHU"), 2, protocol.settings(digits))
    assert [(trial.run, trial.settings["n_constraints"]) for trial in trials] == [
        (run, count) for run in (0, 1) for count in range(1_000, 10_001, 1_000)
    ]
    assert {trial.settings["of"] for trial in trials} == {10_000}
    assert len({trial.id for trial in trials}) == 20


@pytest.mark.parametrize(("method", "n_trials"), [("OPML", 0), ("Euclidean", 2), ("Cosine", 2)])
def test_methods_without_constraints_have_at_most_one_trial(digits: Dataset, method: str, n_trials: int) -> None:
    """OPML forms its own constraints; an unlearned metric has one error."""
    protocol = PROTOCOLS["constraints"]
    assert len(protocol.trials(digits, as_method(method), 2, protocol.settings(digits))) == n_trials


@pytest.mark.parametrize("name", ["OASIS", "LEGO"])
def test_fewer_constraints_are_a_sample(
    digits: Dataset, measure: Measure, recording: RecordingMethod, name: str
) -> None:
    method = recording(name)
    complete = measure("classification", digits, method)
    some = measure("constraints", digits, method, n_constraints=40, of=200)
    every = measure("constraints", digits, method, n_constraints=200, of=200)
    (_, stream, _), (_, sample, _), (_, again, _) = type(method.learner).calls
    remaining = iter(stream.tolist())
    assert len(sample) == 40
    assert all(row in remaining for row in sample.tolist())  # a subsequence
    np.testing.assert_array_equal(again, stream)
    assert every.scores == complete.scores
    assert some.facts["n_seen"] == 40
    assert min(some.facts["n_drawn"], some.facts["n_implied"]) >= 0
    assert some.facts["n_drawn"] + some.facts["n_implied"] == 40


# -- what cannot be measured -----------------------------------------------------------------------------


@pytest.mark.parametrize("y", [[0, 1, 0], [3] * 50])
def test_data_set_with_one_class_is_rejected(y: list[int]) -> None:
    data = Dataset("tiny", np.zeros((len(y), 2)), np.array(y))
    with pytest.raises(
        InvalidInputError, match=f"four items and two classes. tiny has {len(y)} items and {len(set(y))} class"
    ):
        PROTOCOLS["classification"].check_dataset(data)
