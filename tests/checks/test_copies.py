"""Copies and files continue exactly; clones and refits start again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from oahu import InvalidInputError, ModelFileError, load
from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Learned = Callable[[Learner], dict[str, Any]]
Saved = Callable[[Learner], bytes]
Floats = NDArray[np.floating]


# -- copies go on ----------------------------------------------------------------------------------------


def through_a_file(learner: Learner, folder: Path) -> Learner:
    learner.save(folder / "learner")
    loaded: Learner = load(folder / "learner")
    return loaded


COPIES: dict[str, Callable[[Learner, Path], Learner]] = {
    "pickle": lambda learner, folder: pickle.loads(pickle.dumps(learner)),
    "oldest pickle": lambda learner, folder: pickle.loads(pickle.dumps(learner, protocol=2)),
    "deepcopy": lambda learner, folder: copy.deepcopy(learner),
    "copy": lambda learner, folder: copy.copy(learner),
    "file": through_a_file,
}


@pytest.mark.parametrize(
    ("name", "before"),
    [*((name, 130) for name in COPIES), *((name, n) for name in ("pickle", "file") for n in (1, 1200))],
)
def test_a_copy_continues_exactly(make: Factory, saved: Saved, tmp_path: Path, name: str, before: int) -> None:
    stream = np.random.default_rng(5).normal(size=(1400, 3, 5))
    other = COPIES[name](make().partial_fit(stream[:before]), tmp_path)
    assert saved(other.partial_fit(stream[before:])) == saved(make().partial_fit(stream))


def test_a_file_of_a_long_stream_continues_exactly(make_every: Factory, saved: Saved, tmp_path: Path) -> None:
    stream = np.random.default_rng(5).normal(size=(1200, 3, 5))
    other = through_a_file(make_every().partial_fit(stream[:1100]), tmp_path)
    assert saved(other.partial_fit(stream[1100:])) == saved(make_every().partial_fit(stream))


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_a_copy_that_learns_does_not_change_the_original(
    make: Factory, saved: Saved, tmp_path: Path, triplets: Floats, copied: Callable[[Learner, Path], Learner]
) -> None:
    learner = make().partial_fit(triplets)
    before = saved(learner)
    copied(learner, tmp_path).partial_fit(triplets)
    assert saved(learner) == before


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_learning_with_the_original_does_not_change_a_copy(
    make: Factory, saved: Saved, tmp_path: Path, triplets: Floats, copied: Callable[[Learner, Path], Learner]
) -> None:
    learner = make().partial_fit(triplets)
    other = copied(learner, tmp_path)
    before = saved(other)
    learner.partial_fit(triplets)
    assert saved(other) == before


@pytest.mark.parametrize("name", ["pickle", "deepcopy", "copy"])
def test_a_copy_of_a_new_learner_learns_the_same(
    make_typical: Factory, saved: Saved, tmp_path: Path, triplets: Floats, name: str
) -> None:
    other = COPIES[name](make_typical(), tmp_path)
    assert saved(other.partial_fit(triplets)) == saved(make_typical().partial_fit(triplets))


@pytest.mark.parametrize("name", ["pickle", "deepcopy"])
def test_a_copy_has_the_table(
    make: Factory, saved: Saved, tmp_path: Path, table: Floats, indices: NDArray[np.int64], name: str
) -> None:
    other = COPIES[name](make(preprocessor=table).partial_fit(indices[:100]), tmp_path)
    whole = make(preprocessor=table).partial_fit(indices)
    assert saved(other.partial_fit(indices[100:])) == saved(whole)


def test_a_file_takes_parameters_of_numpy_types(make_oahu: Factory, tmp_path: Path, triplets: Floats) -> None:
    parameters = {"n_layers": np.int64(1), "tau": np.float32(0.25), "random_state": np.uint8(3)}
    loaded = through_a_file(make_oahu(**parameters).partial_fit(triplets), tmp_path)
    assert {name: loaded.get_params()[name] for name in parameters} == parameters


def test_a_learner_that_would_not_load_is_not_saved(make_oahu: Factory, triplets: Floats, tmp_path: Path) -> None:
    learner = make_oahu().partial_fit(triplets).set_params(tau=5.0)
    with pytest.raises(InvalidInputError, match="'tau' parameter"):
        learner.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("LEGO", "n_distances", 5000),
        ("LEGO", "distances", -1.0),
        ("POLA", "threshold", 0.5),
        ("RDML", "matrix", np.arange(25.0).reshape(5, 5)),
        ("SOML", "rounds", -3),
        ("SOML", "averaging", 7),
    ],
)
def test_a_file_with_arrays_that_no_learning_leads_to_is_rejected(
    factories: dict[str, Factory], tmp_path: Path, triplets: Floats, name: str, array: str, value: Any
) -> None:
    learner = factories[name]().partial_fit(triplets)
    learner._state.arrays[array][...] = value
    learner.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="is not valid for class"):
        load(tmp_path / "model")


def test_a_model_that_is_not_finite_is_not_saved(
    factories: dict[str, Factory], tmp_path: Path, triplets: Floats
) -> None:
    learner = factories["LEGO"]().partial_fit(triplets)
    learner._state.arrays["factor"][0, 0] = np.nan
    with pytest.raises(ModelFileError, match="'factor' of this LEGO contains values that are not finite"):
        learner.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# -- clones forget ---------------------------------------------------------------------------------------


def test_a_clone_has_learned_nothing(make: Factory, learned: Learned, triplets: Floats) -> None:
    assert learned(clone(make().partial_fit(triplets))) == {}


def test_a_clone_learns_as_a_new_learner_does(make: Factory, saved: Saved, triplets: Floats) -> None:
    other = clone(make(dtype="float64", random_state=3).partial_fit(triplets))
    assert saved(other.fit(triplets)) == saved(make(dtype="float64", random_state=3).fit(triplets))


def test_a_clone_keeps_the_parameters(make: Factory) -> None:
    parameters = make(dtype="float64", n_constraints=17, random_state=3).get_params()
    assert clone(make(**parameters)).get_params() == parameters


def test_the_draws_of_a_clone_do_not_move_the_generator_of_its_original(make: Factory, triplets: Floats) -> None:
    rng = np.random.default_rng(7)
    clone(make(random_state=rng)).fit(triplets)
    assert rng.bit_generator.state == np.random.default_rng(7).bit_generator.state


# -- beginning -------------------------------------------------------------------------------------------


def test_fit_resets_what_was_learned(make: Factory, saved: Saved, triplets: Floats) -> None:
    again = make().partial_fit(triplets[:100]).fit(triplets[100:])
    assert saved(again) == saved(make().fit(triplets[100:]))


def test_fit_resets_the_number_of_features(make: Factory, saved: Saved, triplets: Floats) -> None:
    again = make().partial_fit(triplets).fit(triplets[:, :, :3])
    assert saved(again) == saved(make().fit(triplets[:, :, :3]))


def test_fit_with_labels_resets_what_was_learned(
    make: Factory, saved: Saved, triplets: Floats, table: Floats, labels: NDArray[Any]
) -> None:
    assert saved(make().partial_fit(triplets).fit(table, labels)) == saved(make().fit(table, labels))


def test_initialize_resets_what_was_learned(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().partial_fit(triplets).initialize(4)) == saved(make().initialize(4))


def test_initialize_does_not_change_what_is_learned(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().initialize(5).partial_fit(triplets)) == saved(make().partial_fit(triplets))


def test_learning_returns_the_learner(make: Factory, triplets: Floats) -> None:
    learner = make()
    results = [learner.initialize(5), learner.fit(triplets), learner.partial_fit(triplets)]
    results.append(learner.learn_one(*triplets[0]))
    assert all(result is learner for result in results)
