"""The work arrays of the update step: one set of arrays for each thread and network shape."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oahu import OAHU
from oahu.learners.network.layers import Network, Shape
from oahu.learners.oahu.work_arrays import work_arrays


def test_a_thread_reuses_its_arrays_for_networks_of_the_same_shape_and_type() -> None:
    shape = Shape(n_features=3, n_layers=2, hidden_size=4, embedding_size=5)
    arrays = work_arrays(Network(shape, np.float32))
    assert work_arrays(Network(shape, np.float32)) is arrays
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work_arrays, Network(shape, np.float32)).result() is not arrays


@pytest.mark.parametrize("other", [Shape(3, 2, 4, 6), Shape(3, 1, 4, 5), Shape(4, 2, 4, 5)])
def test_networks_of_other_shapes_or_types_have_other_arrays(other: Shape) -> None:
    shape = Shape(3, 2, 4, 5)
    arrays = work_arrays(Network(shape, np.float32))
    assert work_arrays(Network(shape, np.float64)) is not arrays
    arrays = work_arrays(Network(shape, np.float32))
    assert work_arrays(Network(other, np.float32)) is not arrays


def test_learners_that_take_turns_do_not_affect_each_other() -> None:
    """The learners have different shapes, and learners of the same shape share the arrays."""
    triplets = np.random.default_rng(0).standard_normal((20, 3, 7)).astype(np.float32)
    sizes = [(2, 5), (2, 5), (2, 30), (0, 5)]

    def new_learners() -> list[OAHU]:
        return [OAHU(*size, random_state=seed) for seed, size in enumerate(sizes)]

    turns, alone = new_learners(), new_learners()
    for triplet in triplets:
        for learner in turns:
            learner.learn_one(*triplet)
    for learner, other in zip(turns, alone, strict=True):
        other.partial_fit(triplets)
        np.testing.assert_array_equal(learner._network.flat, other._network.flat)
