"""A new background: what was learned stays the same along the axes that the old and the new background share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import block_diag

from oahu.learners.anchored import background as background_module
from oahu.learners.anchored import new_axes
from oahu.learners.anchored.background import Background, starting_background
from oahu.learners.anchored.evidence import Evidence
from oahu.learners.anchored.experts import Adam
from oahu.learners.anchored.groups import Groups
from oahu.learners.anchored.model import Experts, Model, Progress
from oahu.learners.anchored.new_axes import with_new_background
from oahu.learners.anchored.pair_whitening import PairWhitening
from oahu.metrics.anchored_metric import SPACES

Rows = NDArray[np.float64]

D, R = 6, 4
FLOAT64 = np.dtype(np.float64)
TABLE = np.random.default_rng(0).normal(size=(100, D)) * [4, 3, 2, 1, 0.5, 0.2] + 1
AXES = np.linalg.qr(np.random.default_rng(1).normal(size=(D, R)))[0]
VARIANCES = np.array([8.0, 4.0, 2.0, 1.0])
EVIDENCE = Evidence(np.linspace(-1, 1, 13), np.array([2.0, 3.0, 4.0]))
PROGRESS = Progress(n_learned=20, n_pending=3, n_rounds=9, n_steps=8, n_background=50, credit=0.4)


def turned_by(turn: Rows, variances: Rows = VARIANCES, axes: Rows = AXES) -> Background:
    """Return a background whose axes are linear combinations of ``axes``."""
    return Background(TABLE.mean(axis=0), axes @ turn, variances, np.ones(1))


OLD = turned_by(np.eye(R))


def rotation(n: int) -> Rows:
    return np.asarray(np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0])


def groups(n: int = 64) -> Groups:
    """Return groups of 2 to 5 rows of the table."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(2, 6, n)
    marks = rng.choice(np.array([1, 1, 0.3, -1], np.float32), sizes.sum())
    marks[np.cumsum(sizes) - sizes] = 1
    rows = rng.integers(len(TABLE), size=sizes.sum())
    return Groups.of(sizes, rows, np.zeros((0, D)), marks, rng.uniform(0.1, 1, n))


def read(parts: Sequence[Groups], n_random: int, rng: np.random.Generator) -> Rows:
    assert not n_random
    return np.asarray(TABLE[np.concatenate([part.rows for part in parts])])


def whitening_of(model: Model, learned: Groups) -> PairWhitening:
    """Return the whitening by the pairs of all groups, added one by one."""
    r = model.background.n_leading
    whitening = PairWhitening.start(r, model.background.axes.shape[1] - r, FLOAT64)._replace(next_at=np.inf)
    for start in range(len(learned)):
        group = learned.cut(start, start + 1)
        inputs = model.spaces.inputs(TABLE[group.rows])
        whitening = whitening.add(inputs[None], group.marks[None], group.weights)
    return whitening.decomposed()


def trained_model(background: Background = OLD) -> Model:
    """Return a model with random experts, after the pairs of `groups`."""
    model, rng = (
        Model.with_background(background, PROGRESS, np.arange(4, dtype=np.uint32)),
        np.random.default_rng(3),
    )
    values = (expert.values for expert in model.experts)
    experts = [Adam(*(array + rng.normal(0, 0.5, array.shape) for _ in range(3))) for array in values]
    model = model._replace(experts=Experts(*experts), evidence=EVIDENCE)
    return model._replace(whitening=whitening_of(model, groups()))


def renewed(model: Model, background: Background, learned: Sequence[Groups] | None = None) -> Model:
    return with_new_background(model, background, 99, [groups()] if learned is None else learned, read)


@pytest.fixture(params=[R, 3], ids=lambda r: f"{r} leading axes")
def n_leading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(background_module, "MAX_LEADING", request.param)
    return int(request.param)


# -- distances -----------------------------------------------------------------------------------------------


def distances(model: Model, space: str) -> Rows:
    vectors = model.spaces.vectors(TABLE, np.array(SPACES) == space)[SPACES.index(space)]
    return np.asarray(np.square(vectors[:50] - vectors[50:]).sum(axis=1))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.usefixtures("n_leading")
def test_equal_axes_change_no_distance(space: str) -> None:
    model = trained_model()
    assert distances(renewed(model, OLD), space) == pytest.approx(distances(model, space), abs=1e-9)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.usefixtures("n_leading")
def test_axes_in_another_order_and_direction_change_no_distance(space: str) -> None:
    order = [2, 0, 1, 3]  # axis 3 is a leading axis, or not
    turn = np.eye(R)[:, order] * [1, -1, -1, -1]
    model = trained_model()
    new = renewed(model, turned_by(turn, VARIANCES[order]))
    assert distances(new, space) == pytest.approx(distances(model, space), abs=1e-9)


@pytest.mark.parametrize("space", ["pair-whitened", "linear map", "network"])
def test_rotated_leading_axes_of_equal_weight_change_no_distance_after_a_matrix(space: str, n_leading: int) -> None:
    model = trained_model()
    equal = Adam.start(np.zeros(R))
    model = model._replace(experts=model.experts._replace(log_axis_weights=equal))
    new = renewed(model, turned_by(block_diag(rotation(n_leading), np.eye(R - n_leading))))
    assert distances(new, space) == pytest.approx(distances(model, space), abs=1e-9)


# -- experts -------------------------------------------------------------------------------------------------


def test_the_factor_of_an_axis_between_two_old_axes_is_their_geometric_mean() -> None:
    half = np.sqrt(0.5)
    turn = block_diag([[half, -half], [half, half]], np.eye(R - 2))
    model = trained_model()
    old, new = model.spaces.axis_weights, renewed(model, turned_by(turn)).spaces.axis_weights
    assert new == pytest.approx(np.array([*[np.sqrt(old[0] * old[1])] * 2, *old[2:]]))


def test_the_linear_map_leaves_directions_that_are_new() -> None:
    """The old background has the first two axes only."""
    model = trained_model(turned_by(np.eye(R)[:, :2], VARIANCES[:2]))
    expected = block_diag(model.spaces.linear_map, np.eye(R - 2))
    assert renewed(model, OLD).spaces.linear_map == pytest.approx(expected)


def test_the_axis_weights_of_directions_that_are_new_are_1() -> None:
    model = trained_model(turned_by(np.eye(R)[:, :2], VARIANCES[:2]))
    expected = np.array([*model.spaces.axis_weights, 1, 1])
    assert renewed(model, OLD).spaces.axis_weights == pytest.approx(expected)


def network_change(model: Model, leading: Rows) -> Rows:
    """Return what the network adds to its inputs."""
    spaces = model.spaces
    return np.asarray(np.maximum(leading @ spaces.hidden_weights + spaces.hidden_bias, 0) @ spaces.output_weights)


def test_the_network_neither_reads_nor_changes_directions_that_are_new() -> None:
    model = trained_model(turned_by(np.eye(R)[:, :2], VARIANCES[:2]))
    leading = np.random.default_rng(4).normal(size=(10, R))
    expected = np.hstack([network_change(model, leading[:, :2]), np.zeros((10, R - 2))])
    assert network_change(renewed(model, OLD), leading) == pytest.approx(expected)


def test_the_linear_map_of_axes_that_remain_stays_if_others_are_lost() -> None:
    model = trained_model()
    new = renewed(model, turned_by(np.eye(R)[:, :2], VARIANCES[:2]))
    assert new.spaces.linear_map == pytest.approx(model.spaces.linear_map[:2, :2])


def test_the_averages_of_the_gradients_start_again() -> None:
    new = renewed(trained_model(), OLD)
    assert new.progress.n_steps == 0
    assert not any(expert.means.any() or expert.squares.any() for expert in new.experts)


# -- pairs ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("n_leading")
def test_all_stored_groups_are_whitened_along_the_new_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_axes, "_BLOCK", 7)
    new = renewed(trained_model(), turned_by(rotation(R)))
    expected = whitening_of(new, groups())
    for array, other in zip(new.whitening[:4], expected[:4], strict=True):
        assert array == pytest.approx(other)
    assert new.whitening[4:] == pytest.approx(expected[4:])


def test_with_fewer_than_8_pairs_the_new_whitening_changes_nothing() -> None:
    new = renewed(trained_model(), turned_by(rotation(R)), [groups().cut(0, 4)])
    assert 0 < new.whitening.n_pairs < 8
    assert new.spaces.pair_whitening.tolist() == np.eye(R).tolist()
    assert new.whitening.next_at == 8


def test_without_stored_groups_the_new_whitening_has_no_pairs() -> None:
    assert renewed(trained_model(), OLD, []).whitening.n_pairs == 0


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_the_batches_of_the_stored_groups_do_not_change_the_bits(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_axes, "_BLOCK", 7)
    background, learned = turned_by(rotation(R)), groups()
    parts = [learned.cut(start, min(start + chunk, 64)) for start in range(0, 64, chunk)]
    found, expected = (renewed(trained_model(), background, part).to_arrays() for part in (parts, [learned]))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


# -- the rest of the model -----------------------------------------------------------------------------------


def test_progress_evidence_and_seed_are_kept() -> None:
    model = trained_model()
    new = renewed(model, turned_by(rotation(R)))
    assert new.progress == PROGRESS._replace(n_background=99, n_steps=0)
    for array, other in zip([*new.evidence, new.seed], [*EVIDENCE, model.seed], strict=True):
        np.testing.assert_array_equal(array, other)


def test_a_model_without_axes_becomes_an_untrained_model_with_its_evidence() -> None:
    start = Model.with_background(starting_background(D, FLOAT64), PROGRESS, np.arange(4, dtype=np.uint32))
    new = renewed(start._replace(evidence=EVIDENCE), OLD, [])
    expected = Model.with_background(OLD, PROGRESS._replace(n_background=99, n_steps=0), start.seed)
    for name, array in expected._replace(evidence=EVIDENCE).to_arrays().items():
        np.testing.assert_array_equal(new.to_arrays()[name], array, err_msg=name)


def test_pairs_that_were_stored_before_the_first_axes_are_whitened() -> None:
    start = Model.with_background(starting_background(D, FLOAT64), PROGRESS, np.arange(4, dtype=np.uint32))
    new = renewed(start, OLD)
    assert new.whitening.matrix == pytest.approx(whitening_of(new, groups()).matrix)
    assert new.whitening.n_pairs > 8


def test_the_old_model_does_not_change() -> None:
    model = trained_model()
    before = {name: array.copy() for name, array in model.to_arrays().items()}
    renewed(model, turned_by(rotation(R)))
    for name, array in model.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_the_arrays_keep_their_type() -> None:
    single = Background(*(array.astype(np.float32) for array in OLD))
    model = Model.with_background(single, PROGRESS, np.arange(4, dtype=np.uint32))

    def read_single(parts: Sequence[Groups], n_random: int, rng: np.random.Generator) -> NDArray[np.float32]:
        return read(parts, n_random, rng).astype(np.float32)

    turned = Background(*(array.astype(np.float32) for array in turned_by(rotation(R))))
    new = with_new_background(model, turned, 99, [groups()], read_single)
    assert {name: array.dtype for name, array in new.to_arrays().items()} == {
        name: array.dtype for name, array in model.to_arrays().items()
    }
