"""A round: what is asked, what is trained on and what is counted, and the steps of the experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu.learners.anchored import background as background_module
from oahu.learners.anchored.background import Background
from oahu.learners.anchored.experts import Adam
from oahu.learners.anchored.group_store import GroupStore
from oahu.learners.anchored.groups import Groups
from oahu.learners.anchored.model import Experts, Model, Progress
from oahu.learners.anchored.training_round import Settings, learn_round
from oahu.metrics.anchored_metric import SPACES

Rows = NDArray[np.float64]

D, R, N_RANDOM = 6, 5, 12
SEED = np.arange(4, dtype=np.uint32)
TABLE = np.random.default_rng(0).normal(size=(300, D)) * [4, 3, 2, 1, 0.5, 0.2] + 1
BACKGROUND = Background(
    TABLE.mean(axis=0),
    np.linalg.qr(np.random.default_rng(1).normal(size=(D, R)))[0],
    np.array([8.0, 4.0, 2.0, 1.0, 0.5]),
    np.ones(1),
)
SETTINGS = Settings(learning_rate=0.6, temperature=0.2, prior=3.0, n_random=N_RANDOM, batch_size=6)
PROGRESS = Progress(n_learned=20, n_rounds=9)
EXPERTS = Experts._fields


class Reader:
    """Reads rows of the table, and records what was read."""

    def __init__(self) -> None:
        self.parts: list[Sequence[Groups]] = []
        self.values: list[Rows] = []

    def __call__(self, parts: Sequence[Groups], n_random: int, rng: np.random.Generator) -> Rows:
        rows = np.concatenate([*(part.rows for part in parts), rng.integers(len(TABLE), size=n_random)])
        self.parts.append(parts)
        self.values.append(TABLE[rows])
        return self.values[-1].copy()


@pytest.fixture(autouse=True)
def _some_axes_are_not_leading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_module, "MAX_LEADING", 3)


def groups_of(n: int, seed: int = 0, weights: Sequence[float] | None = None) -> Groups:
    """Return groups of 4 to 6 different items: a query, a positive, a negative and others."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 7, n)
    marks = [[1, 1, -1, *rng.choice([1, 0.3, -0.3, -1], size - 3)] for size in sizes.tolist()]
    rows = np.concatenate([rng.choice(len(TABLE), size, replace=False) for size in sizes.tolist()])
    flat = np.concatenate(marks).astype(np.float32)
    return Groups.of(sizes, rows, np.zeros((0, D)), flat, np.ones(n) if weights is None else weights)


def with_other_items(groups: Groups, number: int) -> Groups:
    """Return the groups with other items in one of them."""
    rows = groups.rows.copy()
    rows[groups.offsets[number] : groups.offsets[number + 1]] -= len(TABLE) // 2
    return Groups.of(groups.sizes, rows % len(TABLE), groups.vectors, groups.marks, groups.weights)


def trained_model(progress: Progress = PROGRESS) -> Model:
    """Return a model whose experts have learned something, with new averages of the gradients."""
    model, rng = Model.with_background(BACKGROUND, progress, SEED), np.random.default_rng(3)
    values = (expert.values for expert in model.experts)
    experts = [Adam.start(array + rng.normal(0, 0.3, array.shape)) for array in values]
    return model._replace(experts=Experts(*experts))


def learned(
    model: Model,
    new: Groups,
    earlier: Groups | None = None,
    settings: Settings = SETTINGS,
    read: Reader | None = None,
) -> Model:
    """Return the model after a round. The store has the earlier groups and the new ones, as in the learner."""
    store = GroupStore(earlier)
    store.pending = [new]
    return learn_round(model, store.take_pending(), store, settings, read or Reader())


def gradients(before: Model, after: Model) -> dict[str, Rows]:
    """Return the gradients of the first step: averages that were 0 are a tenth of the gradient after it."""
    for expert in before.experts:
        assert not expert.means.any()
    return {name: expert.means / 0.1 for name, expert in after.experts._asdict().items()}


# -- a catalogue that is not known -------------------------------------------------------------------------------


def test_without_axes_nothing_is_read_or_learned_but_counts_advance() -> None:
    model = Model.start(D, np.dtype(np.float64), np.random.default_rng(0))
    model = model._replace(progress=Progress(n_learned=5, n_pending=3, n_rounds=2))
    read = Reader()
    after = learned(model, groups_of(3), read=read)
    assert after.progress == model.progress._replace(n_learned=8, n_rounds=3)
    assert after._replace(progress=model.progress) == model
    assert not read.parts


def test_counts_of_a_round() -> None:
    progress = Progress(n_learned=20, n_pending=3, n_rounds=9, n_steps=2, n_background=50, credit=0.4)
    after = learned(trained_model(progress), groups_of(3))
    assert after.progress == progress._replace(n_learned=23, n_rounds=10, n_steps=3)


# -- evidence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_earlier", [0, 10])
def test_evidence_is_gathered_before_the_round_changes_the_spaces(n_earlier: int) -> None:
    model, new, read = trained_model(), groups_of(3), Reader()
    after = learned(model, new, groups_of(n_earlier, 1) if n_earlier else None, read=read)
    values = read.values[0]
    values = np.concatenate([values[: len(new.rows)], values[-N_RANDOM:]])  # without earlier groups
    every_space = np.ones(len(SPACES), bool)
    before, wrong = (model.evidence.add(each.spaces.vectors(values, every_space), new) for each in (model, after))
    assert after.evidence.gains == pytest.approx(before.gains, abs=1e-9)
    assert after.evidence.squares == pytest.approx(before.squares, abs=1e-9)
    assert abs(before.gains - wrong.gains).max() > 1e-3


def test_gains_are_proportional_to_the_weight_of_a_group() -> None:
    model = trained_model()
    whole, half = (learned(model, groups_of(1, weights=[weight])).evidence.gains for weight in (1.0, 0.5))
    assert half == pytest.approx(whole / 2)


# -- whitening -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 40])
def test_the_pairs_of_all_new_groups_are_whitened(n: int) -> None:
    model, new = trained_model(), groups_of(n, weights=np.linspace(0.1, 1, n).tolist())
    after = learned(model, new, groups_of(20, 1)).whitening
    items = (TABLE[new.rows] - BACKGROUND.mean) @ BACKGROUND.axes
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    expected = model.whitening.add(new.pad(items), new.padded_marks(), new.weights)
    assert after.n_pairs == pytest.approx(expected.n_pairs)
    assert after.scatter == pytest.approx(expected.scatter)
    assert after.squares == pytest.approx(expected.squares)


# -- limits --------------------------------------------------------------------------------------------------------


def is_changed(first: Model, second: Model) -> tuple[bool, bool, bool]:
    """Return whether the experts differ, whether the evidence differs and whether the pair whitening differs."""
    return (
        not np.array_equal(first.experts.linear_map.values, second.experts.linear_map.values),
        not np.array_equal(first.evidence.gains, second.evidence.gains),
        not np.array_equal(first.whitening.scatter, second.whitening.scatter),
    )


@pytest.mark.parametrize(
    ("number", "trained", "asked"),
    [(0, False, False), (7, False, False), (8, True, True), (23, True, True), (24, True, False), (39, True, False)],
)
def test_of_40_groups_32_are_trained_on_and_16_are_asked(number: int, trained: bool, asked: bool) -> None:
    """Other items in one group show what the group influences."""
    new, model = groups_of(40), trained_model()
    after, other = learned(model, new), learned(model, with_other_items(new, number))
    assert is_changed(after, other) == (trained, asked, True)


@pytest.mark.parametrize("number", [0, 15, 16, 19])
def test_of_20_groups_all_are_trained_on_and_16_are_asked(number: int) -> None:
    new, model = groups_of(20), trained_model()
    after, other = learned(model, new), learned(model, with_other_items(new, number))
    assert is_changed(after, other) == (True, number < 16, True)


# -- earlier groups --------------------------------------------------------------------------------------------


def n_read(n_new: int, n_earlier: int) -> int:
    """Return the number of earlier groups that a round reads."""
    read = Reader()
    learned(trained_model(), groups_of(n_new), groups_of(n_earlier, 1) if n_earlier else None, read=read)
    assert len(read.parts) == 1
    assert len(read.parts[0][0]) == n_new
    return sum(len(part) for part in read.parts[0][1:])


@pytest.mark.parametrize(
    ("n_new", "n_earlier", "expected"), [(1, 0, 0), (1, 3, 3), (1, 50, 5), (4, 50, 2), (6, 50, 0), (40, 50, 0)]
)
def test_earlier_groups_fill_the_batch(n_new: int, n_earlier: int, expected: int) -> None:
    assert n_read(n_new, n_earlier) == expected


def test_earlier_groups_are_drawn_from_all_that_are_stored_but_not_from_the_new_ones() -> None:
    new, earlier = groups_of(1), groups_of(4, 1)
    queries = set()
    for n_rounds in range(40):
        read = Reader()
        learned(trained_model(Progress(n_learned=5, n_rounds=n_rounds)), new, earlier, read=read)
        queries |= {int(part.rows[0]) for part in read.parts[0][1:]}
    assert queries == set(earlier.rows[earlier.offsets[:-1]].tolist())


def test_earlier_groups_are_trained_on() -> None:
    model = trained_model()
    earlier = groups_of(1, 1)
    after = learned(model, groups_of(1), earlier)
    other = learned(model, groups_of(1), with_other_items(earlier, 0))
    assert is_changed(after, other) == (True, False, False)


# -- reproducibility -----------------------------------------------------------------------------------------------


def experts_after(model: Model) -> Rows:
    return np.asarray(learned(model, groups_of(2), groups_of(20, 1)).experts.linear_map.values)


def test_a_repeated_round_has_the_same_bits() -> None:
    results = [learned(trained_model(), groups_of(2), groups_of(20, 1)).to_arrays() for _ in range(2)]
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name])


@pytest.mark.parametrize("part", ["seed", "round"])
def test_the_batch_depends_on_the_seed_and_on_the_round(part: str) -> None:
    model = trained_model()
    other = (
        model._replace(seed=SEED + 1)
        if part == "seed"
        else model._replace(progress=model.progress._replace(n_rounds=10))
    )
    assert not np.array_equal(experts_after(model), experts_after(other))


@pytest.mark.parametrize("n_steps", [0, 3])
def test_a_round_changes_no_array_in_place(n_steps: int) -> None:
    model, new, earlier = trained_model(Progress(n_learned=20, n_steps=n_steps)), groups_of(3), groups_of(20, 1)
    arrays = [*model.to_arrays().values()]
    for groups in (new, earlier):
        arrays += [groups.offsets, groups.rows, groups.marks, groups.weights]
    copies = [array.copy() for array in arrays]
    learned(model, new, earlier)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# -- steps ---------------------------------------------------------------------------------------------------------


def test_every_fourth_step_trains_the_network() -> None:
    model = trained_model()
    changed = []
    for _ in range(8):
        after = learned(model, groups_of(2))
        changed.append([new is not old for new, old in zip(after.experts, model.experts, strict=True)])
        model = after
    others, every = [True, True, False, False, False], [True] * 5
    assert changed == [others, others, others, every, others, others, others, every]


def moved(name: str, n_steps: int, settings: Settings = SETTINGS, n: int = 1) -> float:
    """Return the length of the first move of an expert, which is its step size.

    Adam divides the average of the gradients by the root of the average of their squares. It corrects both for
    their start at 0 as if there had been ``n_steps`` steps. The correction is undone here.
    """
    model = trained_model(Progress(n_learned=20, n_steps=n_steps - 1))
    after = learned(model, groups_of(n), settings=settings)
    before, expert = getattr(model.experts, name), getattr(after.experts, name)
    t = n_steps if name in ("log_axis_weights", "linear_map") else n_steps // 4
    correction = 0.1 / (1 - 0.9**t) * ((1 - 0.999**t) / 0.001) ** 0.5
    return float(np.median(abs(expert.values - before.values)) / correction)


@pytest.mark.parametrize("n_steps", [4, 200, 1800])
def test_step_sizes_decrease_with_the_root_of_the_number_of_steps(n_steps: int) -> None:
    expected = 0.6 / 3 / (1 + n_steps / 200) ** 0.5  # the learning rate, divided by the number of leading axes
    assert moved("linear_map", n_steps) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("n_steps", [4, 200, 1800])
def test_step_sizes_of_axis_weights_decrease_with_the_number_of_steps(n_steps: int) -> None:
    assert moved("log_axis_weights", n_steps) == pytest.approx(0.05 / (1 + n_steps / 200), rel=1e-3)


def test_many_axis_weights_have_smaller_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.learners.anchored.training_round._AXIS_RATE", 0.1)
    assert moved("log_axis_weights", 1) == pytest.approx(0.1 / R / (1 + 1 / 200), rel=1e-3)


@pytest.mark.parametrize("name", ["hidden_weights", "hidden_bias", "output_weights"])
@pytest.mark.parametrize("n_steps", [4, 200, 1800])
def test_step_sizes_of_the_network_decrease(n_steps: int, name: str) -> None:
    expected = 0.001 / (1 + n_steps / 200) ** 0.5
    assert moved(name, n_steps) == pytest.approx(expected, rel=1e-2)


def test_a_low_learning_rate_is_also_that_of_the_network() -> None:
    settings = SETTINGS._replace(learning_rate=3e-4)
    assert moved("output_weights", 4, settings) == pytest.approx(1e-4 / (1 + 4 / 200) ** 0.5, rel=1e-2)


@pytest.mark.parametrize(("name", "factor"), [("log_axis_weights", 1), ("linear_map", 2), ("output_weights", 2)])
def test_step_sizes_of_matrices_grow_with_the_fourth_root_of_the_batch(name: str, factor: float) -> None:
    settings = SETTINGS._replace(batch_size=1)
    assert moved(name, 4, settings, n=16) / moved(name, 4, settings) == pytest.approx(factor, rel=1e-2)


def test_a_batch_that_is_not_full_has_the_usual_step_size() -> None:
    assert moved("linear_map", 1, n=1) == pytest.approx(moved("linear_map", 1, n=6), rel=1e-3)


# -- the prior -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_learned", [0, 50, 1000])
@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("log_axis_weights", 0.33),
        ("linear_map", 1),
        ("output_weights", 1),
        ("hidden_weights", 0),
        ("hidden_bias", 0),
    ],
)
def test_the_prior_is_divided_by_the_number_of_groups_learned(name: str, strength: float, n_learned: int) -> None:
    model = trained_model(Progress(n_learned=n_learned, n_steps=3))
    with_prior, without = (
        gradients(model, learned(model, groups_of(4), settings=SETTINGS._replace(prior=prior)))[name]
        for prior in (3.0, 0.0)
    )
    values = getattr(model.experts, name).values
    start = np.eye(3) if name == "linear_map" else np.zeros_like(values)
    expected = strength * 3.0 / (n_learned + 4) * (values - start)
    assert with_prior - without == pytest.approx(expected, abs=1e-9)


# -- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("log_axis_weights", "axis weights"),
        ("linear_map", "linear map"),
        ("hidden_weights", "network"),
        ("hidden_bias", "network"),
        ("output_weights", "network"),
    ],
)
def test_experts_are_trained_on_new_and_earlier_groups(
    loss_of_group: Callable[..., float], name: str, space: str
) -> None:
    """The slope of the mean loss of the batch, along random directions, is that of the gradient."""
    model = trained_model(Progress(n_learned=20, n_steps=3))
    model = model._replace(whitening=model.whitening._replace(matrix=np.diag([0.5, 1, 2]), gains=np.array([3, 1])))
    read = Reader()
    after = learned(model, groups_of(2), groups_of(9, 1, [0.5] * 9), SETTINGS._replace(prior=0.0), read)
    values, groups = read.values[0], Groups.joined(read.parts[0])

    def loss(array: Rows) -> float:
        experts = model.experts._replace(**{name: Adam.start(array)})
        every_space = np.ones(len(SPACES), bool)
        vectors = model._replace(experts=experts).spaces.vectors(values, every_space)[SPACES.index(space)]
        random, total = vectors[-N_RANDOM:], 0.0
        for number, weight in enumerate(groups.weights.tolist()):
            part = slice(*groups.offsets[number : number + 2].tolist())
            total += weight * loss_of_group(vectors[part], random, groups.marks[part].tolist(), 0.2)
        return total / len(groups)

    start, gradient = getattr(model.experts, name).values, gradients(model, after)[name]
    for seed in range(3):
        direction = np.random.default_rng(seed).normal(size=start.shape)
        slope = (loss(start + 1e-6 * direction) - loss(start - 1e-6 * direction)) / 2e-6
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-5, abs=1e-6)


# -- weights of groups -----------------------------------------------------------------------------------------


def loss_gradients(new: Groups) -> dict[str, Rows]:
    """Return the gradients without a prior in a step of all experts."""
    model = trained_model(Progress(n_learned=20, n_steps=3))
    return gradients(model, learned(model, new, settings=SETTINGS._replace(prior=0.0, batch_size=1)))


@pytest.mark.parametrize("name", EXPERTS)
def test_a_group_of_half_weight_has_half_the_gradient(name: str) -> None:
    whole, half = (loss_gradients(groups_of(1, weights=[weight]))[name] for weight in (1.0, 0.5))
    assert half == pytest.approx(whole / 2, abs=1e-9)
    assert abs(whole).max() > 1e-3


@pytest.mark.parametrize("name", EXPERTS)
def test_the_gradient_is_the_mean_over_groups(name: str) -> None:
    """The random items are the same in all rounds, because the seed is. Weights of groups are float32."""
    new = groups_of(3, weights=[1.0, 0.5, 0.2])
    expected = sum(loss_gradients(new.cut(number, number + 1))[name] for number in range(3)) / 3
    assert loss_gradients(new)[name] == pytest.approx(expected, abs=1e-6)


def test_a_group_twice_has_the_gradient_of_one() -> None:
    group = groups_of(1, weights=[0.5])
    once, twice = loss_gradients(group), loss_gradients(Groups.joined([group, group]))
    assert twice["linear_map"] == pytest.approx(once["linear_map"])
