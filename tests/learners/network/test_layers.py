"""The parameters of the network: sizes, layout and initialization."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.network.layers import INITIALIZATIONS, Initialization, Network, Shape

shapes = st.builds(
    Shape,
    n_features=st.integers(1, 40),
    n_layers=st.integers(0, 4),
    hidden_size=st.integers(1, 40),
    embedding_size=st.integers(1, 40),
)


def parameter_arrays(network: Network) -> list[np.ndarray]:
    return [
        *network.hidden_weights, *network.hidden_biases, *network.embedding_weights, *network.embedding_biases
    ]  # fmt: skip


@given(shapes, st.sampled_from(["float32", "float64"]))
def test_layers_have_the_sizes_of_the_paper(shape: Shape, dtype: str) -> None:
    network = Network(shape, dtype)
    assert [w.shape for w in network.hidden_weights] == shape.hidden
    assert [w.shape for w in network.embedding_weights] == shape.embedding
    assert sum(part.size for part in parameter_arrays(network)) == shape.n_parameters


@given(shapes)
def test_no_two_parameters_share_memory(shape: Shape) -> None:
    network = Network(shape, "float64")
    for number, part in enumerate(parameter_arrays(network)):
        part[...] = number + 1
    for number, part in enumerate(parameter_arrays(network)):
        assert (part == number + 1).all()


@given(shapes, st.integers(0, 2**32))
def test_copies_and_pickles_are_equal_and_independent(shape: Shape, seed: int) -> None:
    network = Network.random(shape, "float32", np.random.default_rng(seed))
    for twin in (network.copy(), pickle.loads(pickle.dumps(network))):
        np.testing.assert_array_equal(twin.flat, network.flat)
        twin.embedding_weights[0][...] = 7.0
        assert (network.embedding_weights[0] != 7.0).all()


def test_assign_rejects_layers_of_other_shapes() -> None:
    network, other = Network(Shape(3, 1, 4, 2), "float32"), Network(Shape(3, 1, 1, 2), "float32")
    with pytest.raises(ValueError, match=r"must have shape \(4, 3\), not \(1, 3\)"):
        network.assign(other.hidden_weights, other.hidden_biases, other.embedding_weights, other.embedding_biases)


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_draws_do_not_depend_on_the_type_nor_the_layout(initialization: Initialization, bias: bool) -> None:
    shape = Shape(7, 3, 5, 4)
    single = Network.random(shape, "float32", np.random.default_rng(1), initialization, bias)
    double = Network.random(shape, "float64", np.random.default_rng(1), initialization, bias)
    for a, b in zip(parameter_arrays(single), parameter_arrays(double), strict=True):
        np.testing.assert_array_equal(a, b.astype("float32"))


def test_pytorch_initialisation_is_uniform_within_one_over_root_in() -> None:
    network = Network.random(Shape(400, 1, 300, 200), "float64", np.random.default_rng(0))
    for weights, biases in zip(network.embedding_weights, network.embedding_biases, strict=True):
        bound = 1 / np.sqrt(weights.shape[1])
        assert 0.99 * bound < np.abs(weights).max() <= bound
        assert weights.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
        assert 0.8 * bound < np.abs(biases).max() <= bound


def test_he_initialisation_has_variance_two_over_in_and_no_bias() -> None:
    network = Network.random(Shape(400, 1, 300, 200), "float64", np.random.default_rng(0), "he")
    assert network.hidden_weights[0].std() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    assert not network.hidden_biases[0].any()


@pytest.mark.parametrize(("out", "into"), [(5, 9), (9, 5), (6, 6)])
def test_orthogonal_initialisation_has_orthonormal_rows_or_columns(out: int, into: int) -> None:
    weights = Network.random(
        Shape(into, 0, 1, out), "float64", np.random.default_rng(0), "orthogonal"
    ).embedding_weights[0]
    gram = weights @ weights.T if out <= into else weights.T @ weights
    np.testing.assert_allclose(gram, np.eye(min(out, into)), atol=1e-12)


def test_without_bias_the_biases_are_zero() -> None:
    network = Network.random(Shape(4, 2, 3, 2), "float32", np.random.default_rng(0), bias=False)
    assert not any(part.any() for part in network.hidden_biases + network.embedding_biases)
