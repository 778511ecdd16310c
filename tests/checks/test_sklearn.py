"""A learner is a scikit-learn estimator: scikit-learn's checks, pipelines and model selection."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from oahu import TupleTransformer, sample_triplets
from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Floats = NDArray[np.floating]


def test_scikit_learns_own_checks_pass(
    monkeypatch: pytest.MonkeyPatch, estimator: BaseEstimator, check: Callable[[BaseEstimator], None]
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one of the checks does not run
    check(estimator)


def test_scikit_learns_own_checks_pass_for_the_other_learners(
    monkeypatch: pytest.MonkeyPatch, make_other: Factory, not_for_constraints: dict[str, str]
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    results = check_estimator(make_other(), expected_failed_checks=not_for_constraints)
    assert {one["check_name"]: one["status"] for one in results if one["status"] != "passed"} == dict.fromkeys(
        not_for_constraints, "xfail"
    )


# -- parameters ------------------------------------------------------------------------------------------


def test_parameters_given_are_parameters_got(make: Factory) -> None:
    given = {"dtype": "float64", "n_constraints": 123, "random_state": 9}
    assert given.items() <= make(**given).get_params().items()


def test_parameters_set_are_parameters_got(make: Factory) -> None:
    learner = make().set_params(n_constraints=123)
    assert learner.get_params()["n_constraints"] == 123


def test_setting_an_unknown_parameter_is_an_error(make: Factory) -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'n_constrains'"):
        make().set_params(n_constrains=3)


def test_setting_parameters_does_not_touch_what_was_learned(
    make: Factory, learned: Callable[[Learner], Any], triplets: Floats
) -> None:
    learner = make().partial_fit(triplets)
    before = learned(learner)
    assert learned(learner.set_params(n_constraints=5, preprocessor=np.eye(5))) == before


def test_getting_parameters_does_not_copy_the_table(make: Factory, table: Floats) -> None:
    assert make(preprocessor=table).get_params()["preprocessor"] is table


# -- pipelines -------------------------------------------------------------------------------------------


def test_a_scaler_in_a_pipeline_is_the_same_as_scaling_beforehand(
    make: Factory, saved: Callable[[Learner], bytes], triplets: Floats
) -> None:
    raw = 100 + 50 * triplets
    by_hand = StandardScaler().fit_transform(raw.reshape(-1, 5)).reshape(raw.shape)
    assert saved(scaled(make).fit(raw)[-1]) == saved(make().fit(by_hand))


def test_a_pipeline_scores_triplets(make: Factory, triplets: Floats) -> None:
    pipeline = scaled(make).fit(triplets)
    assert pipeline.score(triplets) == pipeline[-1].score(pipeline[:-1].transform(triplets))


def test_a_pipeline_learns_from_labels(make: Factory, table: Floats, labels: NDArray[Any]) -> None:
    pipeline = scaled(make).fit(table, labels)
    assert pipeline.score(table, labels) == pipeline[-1].score(pipeline[:-1].transform(table), labels)


def test_a_scaler_may_stand_before_pairs(
    make_of_pairs: Factory, saved: Callable[[Learner], bytes], triplets: Floats
) -> None:
    raw, y = 100 + 50 * triplets[:, :2], np.where(np.arange(300) % 3 == 0, 1, -1)
    by_hand = StandardScaler().fit_transform(raw.reshape(-1, 5)).reshape(raw.shape)
    assert saved(scaled(make_of_pairs).fit(raw, y)[-1]) == saved(make_of_pairs().fit(by_hand, y))


def test_a_learner_can_stand_before_a_classifier(make_typical: Factory) -> None:
    items, classes = blobs()
    pipeline = make_pipeline(make_typical(), KNeighborsClassifier(1)).fit(items, classes)
    assert pipeline.score(items, classes) == 1.0


def test_a_clone_of_a_pipeline_learns_the_same(
    make: Factory, saved: Callable[[Learner], bytes], triplets: Floats
) -> None:
    pipeline = scaled(make).fit(triplets)
    assert saved(clone(pipeline).fit(triplets)[-1]) == saved(pipeline[-1])


def test_a_pickled_pipeline_transforms_the_same(make_typical: Factory, triplets: Floats, table: Floats) -> None:
    pipeline = scaled(make_typical).fit(triplets)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pipeline)).transform(table), pipeline.transform(table))


# -- model selection -------------------------------------------------------------------------------------


def test_a_grid_search_scores_held_out_triplets(make: Factory) -> None:
    triplets = separable_triplets()
    search = GridSearchCV(make(), {"random_state": [0, 1]}, cv=3).fit(triplets)
    folds = np.array_split(np.arange(len(triplets)), 3)
    expected = [
        np.mean([make(random_state=seed).fit(np.delete(triplets, fold, 0)).score(triplets[fold]) for fold in folds])
        for seed in (0, 1)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-12)


def test_a_grid_search_over_tau_takes_the_best(make_oahu: Factory) -> None:
    search = GridSearchCV(make_oahu(), {"tau": [0.05, 0.2, 0.6]}, cv=3).fit(separable_triplets())
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores.max()
    assert search.best_estimator_.tau == search.cv_results_["param_tau"][scores.argmax()]


def test_a_grid_search_takes_triplets_of_indices(make: Factory) -> None:
    items, classes = blobs()
    indices = sample_triplets(classes, 300, random_state=0)
    by_index = GridSearchCV(make(preprocessor=items), {"random_state": [0, 1]}, cv=3).fit(indices)
    by_value = GridSearchCV(make(), {"random_state": [0, 1]}, cv=3).fit(items[indices])
    np.testing.assert_array_equal(by_index.cv_results_["mean_test_score"], by_value.cv_results_["mean_test_score"])


def test_a_grid_search_reaches_into_a_pipeline(make: Factory) -> None:
    name = type(make()).__name__.lower()
    search = GridSearchCV(scaled(make), {f"{name}__random_state": [0, 1]}, cv=3).fit(separable_triplets())
    assert search.best_score_ > 0.9


def test_labelled_items_can_be_cross_validated(make: Factory) -> None:
    items, classes = blobs()
    scores = cross_val_score(make(), items, classes, cv=StratifiedKFold(3))
    assert scores.min() > 0.9


def test_learning_from_labels_beats_not_learning_where_noise_drowns_the_signal(make_learning: Factory) -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(200) % 2
    items = np.concatenate([2.0 * classes[:, None] - 1, rng.normal(0, 2, (200, 4))], axis=1)
    learner = make_learning(n_constraints=2000)
    learner.set_params(**BRISK.get(type(learner).__name__, {}))
    start = learner.initialize(5).score(items, classes)
    assert learner.fit(items, classes).score(items, classes) > start + 0.1


#: Steps long enough for the learners whose defaults are meant for longer streams.
BRISK: dict[str, dict[str, Any]] = {"OPML": {"gamma": 0.02}, "AdaSORS": {"learning_rate": 0.02}}

# -- helpers ---------------------------------------------------------------------------------------------


def scaled(make: Factory) -> Pipeline:
    return make_pipeline(TupleTransformer(StandardScaler()), make())


def blobs() -> tuple[Floats, NDArray[np.int64]]:
    """Three classes far from each other, in directions that a metric on unit vectors can tell apart."""
    classes = np.arange(60) % 3
    centres = 5.0 * np.eye(5)[classes]
    return centres + np.random.default_rng(0).normal(0, 0.2, (60, 5)), classes


def separable_triplets() -> Floats:
    items, classes = blobs()
    return items[sample_triplets(classes, 300, random_state=0)]
