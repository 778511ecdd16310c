"""Tests of the retrieval protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method
from oahu.evaluation.protocols.retrieval_protocol import DEPTHS, split_classes
from oahu.evaluation.trials import Outcome
from oahu.exceptions import InvalidInputError

Measure = Callable[..., Outcome]


# -- split_halves ----------------------------------------------------------------------------------------------


@given(y=st.lists(st.integers(0, 4), min_size=1, max_size=60), seed=st.integers(0, 5), run=st.integers(0, 5))
def test_halves_split_every_class(y: list[int], seed: int, run: int) -> None:
    development, test = split_classes(Dataset("any", np.zeros((len(y), 1)), np.array(y)), seed, run)
    assert sorted([*development, *test]) == list(range(len(y)))
    one, two = (Counter(y[i] for i in half) for half in (development, test))
    assert all(two[label] - one[label] in (0, 1) for label in set(y))


def test_halves_depend_on_run_and_seed(digits: Dataset) -> None:
    several = {frozenset(split_classes(digits, seed, run)[0].tolist()) for seed in range(3) for run in range(4)}
    assert len(several) == 12


@pytest.mark.parametrize(("n_train", "used"), [(100, True), (91, True), (109, True), (160, False), (80, False)])
def test_official_split_is_used_if_it_is_about_even(digits: Dataset, n_train: int, used: bool) -> None:
    is_train = np.random.default_rng(0).permutation(200) < n_train
    development, test = split_classes(replace(digits, is_train=is_train), 0, 0)
    assert (set(development) == set(np.flatnonzero(is_train))) == used
    assert sorted([*development, *test]) == list(range(200))


# -- scores ----------------------------------------------------------------------------------------------


def by_hand(dataset: Dataset, depth: int) -> float:
    """Return the share of test items with an item of their class among the nearest others."""
    _, test = split_classes(dataset, 0, 0)
    X, hits = dataset.X[test].astype(int), 0
    for i, row in enumerate(test):
        others = [(int(((X[i] - X[j]) ** 2).sum()), j) for j in range(len(test)) if j != i]
        hits += any(dataset.y[test[j]] == dataset.y[row] for _, j in sorted(others)[:depth])
    return hits / len(test)


@pytest.fixture(scope="module")
def twins() -> Dataset:
    """Pairs of equal items with different, random classes: a query that finds itself changes the score."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.integers(0, 16, (60, 6)), 2, axis=0).astype(np.uint8)
    return Dataset("twins", X, np.tile([0, 1], 60) + 2 * rng.integers(0, 4, 60).repeat(2), scaling="none")


def test_recall_of_digits_matches_a_plain_loop(digits: Dataset, measure: Measure) -> None:
    scores = measure("retrieval", digits, "Euclidean").scores
    for depth in DEPTHS:
        assert scores[f"recall@{depth}"] == pytest.approx(by_hand(digits, depth))


def test_recall_of_twins_matches_a_plain_loop(twins: Dataset, measure: Measure) -> None:
    """Of equally distant items, the first one counts."""
    scores = measure("retrieval", twins, "Euclidean").scores
    for depth in DEPTHS:
        assert scores[f"recall@{depth}"] == pytest.approx(by_hand(twins, depth))


def test_a_query_does_not_find_itself(digits: Dataset, measure: Measure) -> None:
    """All classes have one item except two, whose items are far apart: no query finds its class first."""
    y = np.arange(200)
    y[:8] = 0
    alone = replace(digits, y=y, is_train=np.arange(200) % 2 == 0)
    assert measure("retrieval", alone, "Euclidean", n_constraints=20).scores["recall@1"] <= 4 / 100


@pytest.mark.parametrize("queries", [1, 7])
def test_number_of_queries(digits: Dataset, measure: Measure, queries: int) -> None:
    outcome = measure("retrieval", digits, "Cosine", queries=queries)
    for depth in DEPTHS:
        hits = outcome.scores[f"recall@{depth}"] * queries
        assert hits == pytest.approx(round(hits))
    shown = outcome.curves["examples"]
    assert 1 <= len(shown["right"]) + len(shown["wrong"]) <= queries


def test_more_queries_than_items(digits: Dataset, measure: Measure) -> None:
    one, two = (measure("retrieval", digits, "Cosine", queries=n).scores for n in (None, 1000))
    assert [one[f"recall@{k}"] for k in DEPTHS] == [two[f"recall@{k}"] for k in DEPTHS]


def test_examples_are_right_and_wrong(twins: Dataset, measure: Measure) -> None:
    outcome = measure("retrieval", twins, "Euclidean")
    _, test = split_classes(twins, 0, 0)
    for kind, wanted in (("right", True), ("wrong", False)):
        shown = outcome.curves["examples"][kind]
        assert 1 <= len(shown) <= 4
        for example in shown:
            query, found = example["query"], example["found"]
            assert (twins.y[found[0]] == twins.y[query]) == wanted
            assert len(set(found) - {query}) == len(found) == 3
            assert {query, *found} <= set(test.tolist())


# -- what is learned from --------------------------------------------------------------------------------


def test_only_development_items_are_learned(
    numbered: Dataset, measure: Measure, recording: Callable[[str], Method]
) -> None:
    method = recording("OASIS")
    measure("retrieval", numbered, method)
    [(learner, rows, _)] = type(method.learner).calls
    originals = learner.preprocessor[:, 0].astype(int)
    assert sorted(originals) == sorted(split_classes(numbered, 0, 0)[0])
    labels = numbered.y[originals][rows]
    assert ((labels[:, 0] == labels[:, 1]) & (labels[:, 0] != labels[:, 2])).all()


@pytest.mark.parametrize("scaling", ["range", "standard", "centred"])
def test_test_items_do_not_influence_the_scaling(
    numbered: Dataset, measure: Measure, recording: Callable[[str], Method], scaling: str
) -> None:
    X = numbered.X.copy()
    X[split_classes(numbered, 0, 0)[1]] *= 5
    method = recording("OASIS")
    for data in (numbered, replace(numbered, X=X)):
        measure("retrieval", data, method, scaling=scaling)
    (one, _, _), (two, _, _) = type(method.learner).calls
    np.testing.assert_array_equal(one.preprocessor, two.preprocessor)


@pytest.mark.parametrize(("tune_items", "used"), [(1000, 75), (48, 48)])
def test_folds_partition_the_development_items(
    numbered: Dataset, measure: Measure, recording: Callable[[str], Method], tune_items: int, used: int
) -> None:
    """With three folds, each item is learned in two of them."""
    method = recording("OASIS")
    for fold in range(3):
        measure("retrieval", numbered, method, fold, "tuning", folds=3, tune_items=tune_items)
    learned = Counter(
        int(row) for learner, _, _ in type(method.learner).calls for row in learner.preprocessor[:, 0]
    )
    assert len(learned) == used
    assert set(learned.values()) == {2}
    assert set(learned) <= set(split_classes(numbered, 0, 0)[0].tolist())


# -- what cannot be measured -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_classes"), [(65, 2), (66, 33)])
def test_small_data_set_is_rejected(n: int, n_classes: int) -> None:
    data = Dataset("few", np.zeros((n, 1)), np.arange(n) % n_classes)
    with pytest.raises(
        InvalidInputError, match=f"at least 66 items, and a class of at least four items. few has {n} items"
    ):
        PROTOCOLS["retrieval"].check_dataset(data)
    PROTOCOLS["retrieval"].check_dataset(Dataset("enough", np.zeros((66, 1)), np.arange(66) % 2))
