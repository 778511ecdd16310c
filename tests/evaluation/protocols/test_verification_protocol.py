"""Tests of the verification protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from oahu.evaluation import eer
from oahu.evaluation.datasets import Dataset, Fold, Views
from oahu.evaluation.protocols import PROTOCOLS, Method, as_method
from oahu.evaluation.protocols.verification_protocol import views_of
from oahu.evaluation.trials import Outcome
from oahu.exceptions import InvalidInputError

Measure = Callable[..., Outcome]
RecordingMethod = Callable[[str], Method]


def fold_of(classes: list[int], rng: np.random.Generator) -> Fold:
    """Return a third of the similar pairs of classes with six items, and as many dissimilar ones."""
    items = [6 * c + i for c in classes for i in range(6)]
    similar = [pair for pair in combinations(items, 2) if pair[0] // 6 == pair[1] // 6]
    dissimilar = [pair for pair in combinations(items, 2) if pair[0] // 6 != pair[1] // 6]
    n = len(similar) // 3
    chosen = [*rng.permutation(similar)[:n].tolist(), *rng.permutation(dissimilar)[:n].tolist()]
    return Fold(np.array(chosen), np.arange(2 * n) < n)


@pytest.fixture(scope="module")
def faces() -> Dataset:
    """Fifteen people with six images each, with views as in LFW: no person is in two of the three folds.

    The first feature of an image is its row number, scaled to be negligible.
    """
    rng = np.random.default_rng(11)
    y = np.arange(90) // 6
    X = rng.normal(size=(15, 8))[y] + rng.normal(size=(90, 8))
    X[:, 0] = np.arange(90) / 2**20
    groups = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(5)]
    first, second, *folds = [fold_of(group, rng) for group in groups]
    names = np.array([f"person {label}, {i}" for i, label in enumerate(y)])
    return Dataset(
        "faces", X.astype(np.float32), y, scaling="none", keys=names, views=Views((first, second), tuple(folds))
    )


def rows_of(items: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(items[:, 0] * 2**20).astype(int)


def pair_distances(dataset: Dataset, pairs: NDArray[Any]) -> NDArray[np.float64]:
    first, second = dataset.X[pairs].astype(np.float64).transpose(1, 0, 2)
    return np.sqrt(((first - second) ** 2).sum(axis=1))


# -- views -----------------------------------------------------------------------------------------------


def test_official_views_are_used(faces: Dataset) -> None:
    assert views_of(faces) is faces.views


def test_drawn_views_are_correct_and_disjoint(digits: Dataset) -> None:
    views = views_of(digits)
    folds = (*views.development, *views.folds)
    assert len(views.folds) == 10
    for fold in folds:
        first, second = fold.pairs.T
        assert (first != second).all()
        assert ((digits.y[first] == digits.y[second]) == fold.same).all()
        assert fold.same.any()
        assert not fold.same.all()
    items = [set(fold.pairs.ravel().tolist()) for fold in folds]
    assert all(not one & two for one, two in combinations(items, 2))


def test_drawn_views_are_reproducible(digits: Dataset) -> None:
    one, two = views_of(digits), views_of(replace(digits, X=digits.X[:, :3]))
    for fold, other in zip((*one.development, *one.folds), (*two.development, *two.folds), strict=True):
        np.testing.assert_array_equal(fold.pairs, other.pairs)
        np.testing.assert_array_equal(fold.same, other.same)


# -- what is learned from --------------------------------------------------------------------------------


@pytest.mark.parametrize("people", ["shared", "disjoint"])
@pytest.mark.parametrize("name", ["OAHU", "OASIS", "LEGO", "RDML"])
@pytest.mark.parametrize("stage", ["result", "tuning"])
def test_no_constraint_contains_a_pair_of_either_view(
    faces: Dataset, measure: Measure, recording: RecordingMethod, people: str, name: str, stage: str
) -> None:
    method = recording(name)
    measure("verification", faces, method, 1, stage, people=people, n_constraints=400, n_seeds=200)
    [(learner, rows, same)] = type(method.learner).calls
    learned = rows_of(learner.preprocessor)[rows]
    assert faces.views is not None
    forbidden = {frozenset(pair) for pair in faces.views.pairs.tolist()}
    assert len(learned) == 400
    assert not forbidden & {frozenset(two) for row in learned.tolist() for two in combinations(row, 2)}
    labels = faces.y[learned]
    truth = np.ones(400, bool) if same is None else same > 0
    assert ((labels[:, 0] == labels[:, 1]) == truth).all()


@pytest.mark.parametrize("name", ["OASIS", "LEGO", "OPML"])
@pytest.mark.parametrize("run", [0, 2])
def test_disjoint_people_exclude_all_images_of_the_fold(
    faces: Dataset, measure: Measure, recording: RecordingMethod, name: str, run: int
) -> None:
    method = recording(name)
    measure("verification", faces, method, run, people="disjoint")
    [(learner, X, _)] = type(method.learner).calls
    learned = rows_of(X if name == "OPML" else learner.preprocessor)
    assert faces.views is not None
    tested = set(faces.y[faces.views.folds[run].pairs].ravel())
    assert sorted(learned) == [row for row in range(90) if faces.y[row] not in tested]


@pytest.mark.parametrize("scaling", ["standard", "centred"])
def test_disjoint_people_do_not_influence_the_scaling(
    faces: Dataset, measure: Measure, recording: RecordingMethod, scaling: str
) -> None:
    assert faces.views is not None
    X = faces.X.copy()
    X[np.isin(faces.y, faces.y[faces.views.folds[0].pairs])] *= 5
    method = recording("OASIS")
    for data in (faces, replace(faces, X=X)):
        measure("verification", data, method, people="disjoint", scaling=scaling)
    (one, _, _), (two, _, _) = type(method.learner).calls
    np.testing.assert_array_equal(one.preprocessor, two.preprocessor)


def test_shared_people_exclude_nothing(faces: Dataset, measure: Measure, recording: RecordingMethod) -> None:
    method = recording("OASIS")
    measure("verification", faces, method)
    [(learner, _, _)] = type(method.learner).calls
    np.testing.assert_array_equal(rows_of(learner.preprocessor), np.arange(90))


def test_disjoint_people_with_all_pairs_in_the_fold(faces: Dataset, measure: Measure) -> None:
    """No excluded pair is left."""
    assert faces.views is not None
    fold = faces.views.folds[0]
    only = replace(faces, views=Views((fold, fold), (fold, replace(fold))))
    outcome = measure("verification", only, "OASIS", people="disjoint")
    assert outcome.facts["n_seen"] == 200


def test_fold_with_every_class_is_rejected(digits: Dataset, measure: Measure) -> None:
    everybody = Fold(np.array([[i, i + 1] for i in range(199)]), digits.y[:-1] == digits.y[1:])
    with_all = replace(digits, views=Views((everybody, everybody), (everybody, replace(everybody))))
    with pytest.raises(
        InvalidInputError, match="fewer than two classes of some digits remain to learn from in fold 0"
    ):
        measure("verification", with_all, "OASIS", people="disjoint")


@pytest.mark.parametrize(("runs", "measured"), [(2, 2), (3, 3), (10, 3)])
def test_runs_are_limited_to_the_folds(faces: Dataset, runs: int, measured: int) -> None:
    protocol, method = PROTOCOLS["verification"], as_method("Euclidean")
    trials = protocol.trials(faces, method, runs, protocol.settings(faces))
    assert [trial.run for trial in trials] == list(range(measured))


# -- scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [0, 1, 2])
def test_euclidean_scores_match_distances(faces: Dataset, measure: Measure, run: int) -> None:
    assert faces.views is not None
    fold = faces.views.folds[run]
    scores = measure("verification", faces, "Euclidean", run).scores
    assert scores["auc"] == pytest.approx(roc_auc_score(fold.same, -pair_distances(faces, fold.pairs)))
    assert scores["eer"] == pytest.approx(eer(fold.same, -pair_distances(faces, fold.pairs)))


def weighted_median(values: list[float], weights: list[float]) -> float:
    total = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        total += weight
        if total >= 0.5 - 1e-9:
            return value
    raise AssertionError("weights sum to one")


def test_auc_of_an_ensemble_uses_the_weighted_median(
    faces: Dataset, measure: Measure, recording: RecordingMethod
) -> None:
    method = recording("OAHU")
    auc = measure("verification", faces, method, 1).scores["auc"]
    [(learner, _, _)] = type(method.learner).calls
    assert faces.views is not None
    fold = faces.views.folds[1]
    spaces = learner.metric().spaces
    weights = [space.weight for space in spaces]
    vectors = [space.encode(faces.X) for space in spaces]
    medians = [
        weighted_median([float(np.linalg.norm(space[a] - space[b])) for space in vectors], weights)
        for a, b in fold.pairs
    ]
    assert auc == pytest.approx(roc_auc_score(fold.same, -np.array(medians)))


@pytest.mark.parametrize("run", [0, 1, 2])
def test_accuracy_uses_the_best_threshold_of_the_other_folds(faces: Dataset, measure: Measure, run: int) -> None:
    """Several thresholds may be best; one of them must give the accuracy."""
    assert faces.views is not None
    tested, others = faces.views.folds[run], [fold for i, fold in enumerate(faces.views.folds) if i != run]
    distances = np.concatenate([pair_distances(faces, fold.pairs) for fold in others])
    same = np.concatenate([fold.same for fold in others])
    own = pair_distances(faces, tested.pairs)
    places = np.sort([*distances, *own])
    candidates = [0.0, *((places[:-1] + places[1:]) / 2), np.inf]
    right = [int(((distances < t) == same).sum()) for t in candidates]
    best = {
        float(((own < t) == tested.same).mean()) for t, n in zip(candidates, right, strict=True) if n == max(right)
    }
    assert measure("verification", faces, "Euclidean", run).scores["accuracy"] in best


@pytest.mark.parametrize("method", ["Euclidean", "LEGO", "OASIS"])
def test_threshold_does_not_depend_on_the_tested_fold(faces: Dataset, measure: Measure, method: str) -> None:
    """Inverting all labels of the fold makes every right answer wrong."""
    assert faces.views is not None
    first, tested, third = faces.views.folds
    turned = Fold(tested.pairs, ~tested.same)
    other = replace(faces, views=replace(faces.views, folds=(first, turned, third)))
    one, two = (measure("verification", data, method, 1).scores for data in (faces, other))
    assert one["accuracy"] + two["accuracy"] == pytest.approx(1)
    assert one["auc"] + two["auc"] == pytest.approx(1)


def test_tuning_uses_view_1(faces: Dataset, measure: Measure) -> None:
    assert faces.views is not None
    pairs = np.concatenate([fold.pairs for fold in faces.views.development])
    same = np.concatenate([fold.same for fold in faces.views.development])
    for fold in (0, 1):
        found = measure("verification", faces, "Euclidean", fold, "tuning").scores["auc"]
        assert found == pytest.approx(roc_auc_score(same, -pair_distances(faces, pairs)))


def test_tuning_draws_constraints_for_each_fold(
    faces: Dataset, measure: Measure, recording: RecordingMethod
) -> None:
    method = recording("OASIS")
    for fold in (0, 1):
        measure("verification", faces, method, fold, "tuning")
    measure("verification", faces, method, 0)
    assert len({rows.tobytes() for _, rows, _ in type(method.learner).calls}) == 3


# -- curves and examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["Euclidean", "LEGO"])
def test_area_below_the_curve_is_the_auc(faces: Dataset, measure: Measure, method: str) -> None:
    """The area below a rising curve has an error of at most half a step of 1 / 200, and rounding."""
    outcome = measure("verification", faces, method)
    far, tar = (np.array(outcome.curves["roc"][name]) for name in ("far", "tar"))
    np.testing.assert_allclose(far, np.arange(201) / 200)
    assert (np.diff(tar) >= 0).all()
    assert tar[-1] == 1
    assert np.trapezoid(tar, far) == pytest.approx(outcome.scores["auc"], abs=0.0025 + 1e-5)


@pytest.mark.parametrize("method", ["Euclidean", "LEGO"])
def test_examples_are_right_and_wrong(faces: Dataset, measure: Measure, method: str) -> None:
    """Both metrics have one space, so that the vote share is 1 for yes and 0 for no."""
    assert faces.views is not None
    assert faces.keys is not None
    fold = faces.views.folds[0]
    names = faces.keys[fold.pairs].tolist()
    outcome = measure("verification", faces, method)
    assert 0 < outcome.scores["accuracy"] < 1
    for kind, wanted in (("right", True), ("wrong", False)):
        shown = outcome.curves["examples"][kind]
        assert shown
        for same in (True, False):
            assert sum(example["same"] == same for example in shown) <= 4
        for example in shown:
            place = names.index([example["a"], example["b"]])
            assert fold.same[place] == example["same"]
            assert ((example["vote_share"] >= 0.5) == example["same"]) == wanted


def test_examples_have_the_largest_margins(faces: Dataset, measure: Measure) -> None:
    """The margin is the distance to the threshold: of pairs judged similar, the nearest ones have the largest.

    Nearly all pairs of the fold are similar, so that the median of their scores is far from the threshold.
    """
    assert faces.views is not None
    assert faces.keys is not None
    fold = faces.views.folds[0]
    some = np.append(np.flatnonzero(fold.same), np.flatnonzero(~fold.same)[0])
    mostly = Fold(fold.pairs[some], fold.same[some])
    data = replace(faces, views=replace(faces.views, folds=(mostly, *faces.views.folds[1:])))
    shown = measure("verification", data, "Euclidean").curves["examples"]["right"]
    names, distances = faces.keys[mostly.pairs].tolist(), pair_distances(faces, mostly.pairs)
    chosen = [distances[names.index([example["a"], example["b"]])] for example in shown if example["same"]]
    assert sorted(chosen) == sorted(distances[mostly.same])[:4]


def test_examples_without_keys_are_rows(faces: Dataset, measure: Measure) -> None:
    with_keys = measure("verification", faces, "Euclidean").curves["examples"]
    without_keys = measure("verification", replace(faces, keys=None), "Euclidean").curves["examples"]
    for kind in ("right", "wrong"):
        for one, other in zip(with_keys[kind], without_keys[kind], strict=True):
            assert {**other, "a": faces.keys[other["a"]], "b": faces.keys[other["b"]]} == one


# -- what cannot be measured -----------------------------------------------------------------------------


def test_data_set_without_enough_pairs_is_rejected(faces: Dataset, digits: Dataset) -> None:
    check = PROTOCOLS["verification"].check_dataset
    check(faces)
    check(digits)
    few = Dataset("few", digits.X[:95], np.arange(95) // 2)
    with pytest.raises(InvalidInputError, match=r"needs official pairs.*few has 95 items and 48 class"):
        check(few)
    assert faces.views is not None
    one = replace(faces, views=Views(faces.views.development, faces.views.folds[:1]))
    with pytest.raises(InvalidInputError, match=r"at least two folds of pairs\. faces has 1"):
        check(one)
