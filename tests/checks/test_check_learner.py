"""The shipped checks hold for every built-in learner, and report what is wrong with a broken one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import oahu
from oahu import InvalidTypeError, MahalanobisMetric, PairLearner, TripletLearner
from oahu.checks import Check, check_learner, yield_checks


def test_built_in_learners_pass(checked: tuple[oahu.Learner[Any], Check]) -> None:
    learner, check = checked
    check(learner)


class Weights(TripletLearner[MahalanobisMetric]):
    """A correct learner, which the broken ones below derive from."""

    def initial_arrays(self, n_features: int, dtype: Any, rng: Any) -> dict[str, Any]:
        return {"weights": np.ones(n_features, dtype)}

    def learn_triplets(self, arrays: Any, triplets: Any, used: Any) -> int | None:
        for t, (anchor, _, negative) in enumerate(triplets):
            arrays["weights"][:] = 0.9 * arrays["weights"] + 0.1 * np.minimum(np.abs(anchor - negative), 1)
            used[t] = True
        return None

    def build_metric(self, arrays: Any, version: int) -> MahalanobisMetric:
        return MahalanobisMetric(np.diag(arrays["weights"]), version)


class DependsOnBlocks(Weights):
    """Learns the mean of a block."""

    def learn_triplets(self, arrays: Any, triplets: Any, used: Any) -> int | None:
        arrays["weights"][:] = np.abs(triplets[:, 0]).mean(axis=0)
        used[:] = True
        return None


class ForgetsInFiles(Weights):
    """Keeps a number outside the arrays."""

    _total = 0.0

    def learn_triplets(self, arrays: Any, triplets: Any, used: Any) -> int | None:
        for triplet in triplets:
            self._total += 1.0
            arrays["weights"][:] = 1 + self._total + np.abs(triplet[0])
        return None


class WrongVersion(Weights):
    def build_metric(self, arrays: Any, version: int) -> MahalanobisMetric:
        return MahalanobisMetric(np.diag(arrays["weights"]), 7)


class Randomized(Weights):
    def initial_arrays(self, n_features: int, dtype: Any, rng: Any) -> dict[str, Any]:
        return {"weights": np.random.default_rng().random(n_features).astype(dtype)}


class WritesToInput(Weights):
    def learn_triplets(self, arrays: Any, triplets: Any, used: Any) -> int | None:
        if triplets.flags.writeable:
            triplets *= 2
        return super().learn_triplets(arrays, triplets, used)


def test_a_correct_learner_passes() -> None:
    check_learner(Weights())


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        (DependsOnBlocks, "chunks give the same bits"),
        (ForgetsInFiles, "fit resets"),
        (WrongVersion, "constraints are counted"),
        (Randomized, "chunks give the same bits"),
        (WritesToInput, "no memory is shared"),
    ],
)
def test_a_broken_learner_fails_with_the_name_of_the_check(learner: type[Weights], check: str) -> None:
    with pytest.raises(AssertionError, match=f"{learner.__name__} fails the check '{check}'"):
        check_learner(learner())


def test_an_incomplete_class_is_rejected_with_what_is_missing() -> None:
    class Incomplete(PairLearner[MahalanobisMetric]):
        def initial_arrays(self, n_features: int, dtype: Any, rng: Any) -> dict[str, Any]:
            return {}

    with pytest.raises(TypeError, match=r"abstract class Incomplete .*build_metric'?, '?learn_pairs"):
        Incomplete()  # type: ignore[abstract]


def test_another_class_is_rejected_with_what_is_missing() -> None:
    class Duck:
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

    with pytest.raises(InvalidTypeError, match=r"Duck is not a learner.*It has no partial_fit, learn_one, metric"):
        check_learner(Duck())  # type: ignore[arg-type]


def test_the_names_of_checks_are_unique() -> None:
    names = [check.name for check in yield_checks(oahu.LEGO())]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9 -]+", name) for name in names)
