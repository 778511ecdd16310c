"""Tests of the simulated user: each user model by its definition, noise, carelessness and interleaving."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from oahu import InvalidInputError
from oahu.evaluation.protocols.simulated_user import USER_MODELS, Marks, SimulatedUser
from oahu.tasks.interleaving import interleave

SHOWN = np.array([40, 10, 30, 20, 50])
PATTERNS = [np.array(pattern, bool) for pattern in product([0, 1], repeat=5)]


def as_lists(marks: Marks) -> tuple[list[int], list[int], list[int]]:
    return tuple(part.tolist() for part in marks)  # type: ignore[return-value]


def marked(model: str, alike: Any, seed: int = 0, **more: Any) -> tuple[list[int], list[int], list[int]]:
    return as_lists(SimulatedUser(model, **more).mark(SHOWN, alike, np.random.default_rng(seed)))


@pytest.mark.parametrize("alike", PATTERNS)
def test_user_models_by_their_definition(alike: Any) -> None:
    yes = [int(item) for item, is_alike in zip(SHOWN, alike, strict=True) if is_alike]
    no = [int(item) for item, is_alike in zip(SHOWN, alike, strict=True) if not is_alike]
    assert marked("all", alike) == (yes, no, [])
    assert marked("alike", alike) == (yes, [], no)
    assert marked("not-alike", alike) == ([], no, yes)
    skipped = []
    for item, is_alike in zip(SHOWN.tolist(), alike, strict=True):
        if is_alike:
            assert marked("cascade", alike) == ([item], [], skipped)
            return
        skipped.append(item)
    assert marked("cascade", alike) == ([], [], skipped)


def test_position_model_sees_item_i_with_probability_one_over_i() -> None:
    user, rng, n = SimulatedUser("position"), np.random.default_rng(1), 4_000
    seen = np.zeros(5)
    for _ in range(n):
        positives, negatives, unmarked = user.mark(np.arange(5), [True, False] * 2 + [True], rng)
        assert set(positives) <= {0, 2, 4}
        assert set(negatives) <= {1, 3}
        assert not len(unmarked)
        seen[np.r_[positives, negatives]] += 1
    assert seen[0] == n
    for i in range(2, 6):
        assert seen[i - 1] / n == pytest.approx(1 / i, abs=5 * np.sqrt(0.25 / n))


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5])
def test_noise_flips_each_mark_independently(noise: float) -> None:
    user, rng, n = SimulatedUser("all", noise), np.random.default_rng(2), 4_000
    alike = np.array([True, False, True, False, True])
    wrong = np.zeros((n, 5))
    for row in wrong:
        positives, negatives, _ = user.mark(np.arange(5), alike, rng)
        row[np.r_[positives[~alike[positives]], negatives[alike[negatives]]]] = 1
    tolerance = 5 * np.sqrt(0.25 / n)
    assert wrong.mean(axis=0) == pytest.approx([noise] * 5, abs=tolerance)
    assert (wrong[:, 0] * wrong[:, 1]).mean() == pytest.approx(noise**2, abs=tolerance)


def test_careless_users_mark_at_random() -> None:
    user, rng, n = SimulatedUser("all", careless=0.5), np.random.default_rng(3), 4_000
    n_right = np.array([len(user.mark(np.arange(10), np.ones(10), rng).positives) for _ in range(n)])
    assert (n_right == 10).mean() == pytest.approx(0.5 * (1 + 2**-10), abs=5 * np.sqrt(0.25 / n))
    assert n_right[n_right < 10].mean() == pytest.approx(5, abs=0.3)


@pytest.mark.parametrize("model", USER_MODELS)
def test_marks_follow_from_the_generator(model: str) -> None:
    alike = PATTERNS[11]
    assert marked(model, alike, 4, noise=0.3, careless=0.3) == marked(model, alike, 4, noise=0.3, careless=0.3)


@pytest.mark.parametrize("model", USER_MODELS)
def test_number_of_random_numbers_depends_only_on_the_number_of_items(model: str) -> None:
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    SimulatedUser("all").mark(SHOWN, PATTERNS[0], one)
    SimulatedUser(model, 0.4, 0.9).mark(SHOWN, PATTERNS[-1], other)
    assert one.random() == other.random()


@pytest.mark.parametrize("model", USER_MODELS)
def test_no_item_is_in_two_lists(model: str) -> None:
    for alike in PATTERNS:
        lists = marked(model, alike, noise=0.3)
        together = [item for part in lists for item in part]
        assert len(together) == len(set(together))
        assert set(together) <= set(SHOWN.tolist())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "some"}, r"The user model must be one of all, alike, .* Got 'some' instead\."),
        ({"noise": 0.6}, r"The 'noise' of a simulated user must be a number from 0 to 0\.5\. Got 0\.6 instead\."),
        ({"careless": -1}, r"The 'careless' of a simulated user must be a number from 0 to 1\. Got -1 instead\."),
        ({"noise": float("nan")}, r"Got nan instead\."),
    ],
)
def test_wrong_settings_are_rejected(settings: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        SimulatedUser(**settings)


# -- interleaving ----------------------------------------------------------------------------------------


def test_interleaved_list_has_the_best_items_of_both_rankings() -> None:
    first, second = np.arange(10), np.arange(10)[::-1]
    for seed in range(20):
        shown = interleave(first, second, 4, np.random.default_rng(seed)).tolist()
        assert sorted(shown) == [0, 1, 8, 9]
        assert {shown[0], shown[1]} == {0, 9}


def test_interleaving_equal_rankings_changes_nothing() -> None:
    for seed in range(5):
        assert interleave(np.arange(7), np.arange(7), 5, np.random.default_rng(seed)).tolist() == [0, 1, 2, 3, 4]


def test_each_ranking_chooses_first_in_half_of_the_rounds() -> None:
    rng = np.random.default_rng(6)
    starts = [interleave(np.array([0, 1]), np.array([1, 0]), 1, rng)[0] for _ in range(2_000)]
    assert np.mean(starts) == pytest.approx(0.5, abs=0.06)


def test_short_rankings_give_short_lists() -> None:
    assert sorted(interleave(np.array([1, 2]), np.array([2, 1]), 5, np.random.default_rng(0)).tolist()) == [1, 2]
