"""A saved and loaded learner continues exactly, bit for bit."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import oahu
from oahu import OAHU, EnsembleMetric, NotFittedError

Triplets = NDArray[np.float64]

TRIPLETS: Triplets = np.random.default_rng(42).normal(size=(1500, 3, 4))
DTYPES = ("float32", "float64")

#: No parameter has its default, so that none is loaded correctly by chance.
PARAMETERS: dict[str, Any] = {
    "n_layers": 2,
    "hidden_size": 7,
    "embedding_size": 3,
    "tau": 0.1 + 0.2,
    "beta": 0.9,
    "smoothing": 1 / 3,
    "learning_rate": 1e-3,
    "hedge": "log_beta",
    "through_thresholds": True,
    "initialization": "he",
    "bias": False,
    "n_constraints": 77,
    "dtype": "float64",
    "random_state": 5,
}


def small(**parameters: Any) -> OAHU:
    return OAHU(**{"n_layers": 2, "hidden_size": 6, "embedding_size": 3, "random_state": 0} | parameters)


def reloaded(learner: OAHU) -> OAHU:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        learner.save(path)
        twin = oahu.load(path)
    assert type(twin) is OAHU
    return twin


def saved(learner: OAHU | EnsembleMetric) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        learner.save(path)
        return path.read_bytes()


def as_bytes(value: Any) -> Any:
    """Return a value that is equal if and only if two attributes are equal bit for bit."""
    if isinstance(value, list):
        return [as_bytes(part) for part in value]
    return (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


# -- the round trip -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "attribute",
    [
        "hidden_weights_", "hidden_biases_", "embedding_weights_", "embedding_biases_", "metric_weights_",
        "history_rounds_", "loss_history_", "weight_history_", "n_seen_", "utilization_", "n_features_in_",
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 1100], ids=["one triplet", "a thinned history"])
def test_learned_arrays_are_loaded_bit_for_bit(n: int, attribute: str, dtype: str) -> None:
    learner = small(dtype=dtype).partial_fit(TRIPLETS[:n])
    assert as_bytes(getattr(reloaded(learner), attribute)) == as_bytes(getattr(learner, attribute))


@pytest.mark.parametrize("n_layers", [0, 1, 2, 5])
def test_networks_of_any_depth_are_loaded_unchanged(n_layers: int) -> None:
    learner = small(n_layers=n_layers).partial_fit(TRIPLETS[:20])
    assert as_bytes(reloaded(learner).transform(TRIPLETS[0])) == as_bytes(learner.transform(TRIPLETS[0]))


def test_all_parameters_are_loaded_unchanged() -> None:
    learner = OAHU(**PARAMETERS).partial_fit(TRIPLETS[:3])
    assert reloaded(learner).get_params() == {**PARAMETERS, "preprocessor": None}


def test_the_test_above_covers_all_parameters() -> None:
    default = OAHU().get_params()
    assert {name for name in default if PARAMETERS.get(name) == default[name]} == {"preprocessor"}


def test_a_parameter_changed_after_learning_is_saved() -> None:
    learner = small().partial_fit(TRIPLETS[:3]).set_params(learning_rate=0.01)
    assert reloaded(learner).learning_rate == 0.01


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_layers": np.int64(1)},
        {"hidden_size": np.int32(5)},
        {"tau": np.float32(0.25)},
        {"beta": np.float64(0.75)},
        {"random_state": np.uint8(3)},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
def test_numpy_scalars_as_parameters_are_loaded_unchanged(parameters: dict[str, Any]) -> None:
    twin = reloaded(small(**parameters).initialize(4))
    assert {name: getattr(twin, name) for name in parameters} == parameters


def test_an_untrained_learner_is_loaded_unchanged() -> None:
    learner = small().initialize(4)
    assert saved(reloaded(learner).partial_fit(TRIPLETS[:50])) == saved(learner.partial_fit(TRIPLETS[:50]))


def test_saving_an_unfitted_learner_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "model")


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_feature_names_are_loaded_unchanged() -> None:
    """scikit-learn stores the names of a data frame, and compares them in every later call."""
    learner = small().partial_fit(TRIPLETS[:3])
    learner.feature_names_in_ = np.array(["red", "green", "blue", "alpha"], dtype=object)
    assert reloaded(learner).feature_names_in_.tolist() == ["red", "green", "blue", "alpha"]


def test_saving_again_gives_the_same_bytes() -> None:
    learner = small().partial_fit(TRIPLETS[:100])
    assert saved(learner) == saved(learner)


def test_saving_a_loaded_learner_gives_the_same_bytes() -> None:
    learner = small().partial_fit(TRIPLETS[:100])
    assert saved(reloaded(learner)) == saved(learner)


def test_saving_changes_nothing() -> None:
    learner, twin = small().partial_fit(TRIPLETS[:10]), small().partial_fit(TRIPLETS[:10])
    saved(learner)
    assert saved(learner.partial_fit(TRIPLETS[10:20])) == saved(twin.partial_fit(TRIPLETS[10:20]))


# -- the preprocessor ---------------------------------------------------------------------------------------


def test_the_preprocessor_is_not_saved() -> None:
    table = TRIPLETS.reshape(-1, 4)
    indexed = small(preprocessor=table).partial_fit([[3 * i, 3 * i + 1, 3 * i + 2] for i in range(30)])
    assert saved(indexed) == saved(small().partial_fit(TRIPLETS[:30]))


def test_the_preprocessor_can_be_set_again() -> None:
    table, indices = TRIPLETS.reshape(-1, 4), np.arange(180).reshape(60, 3)
    twin = reloaded(small(preprocessor=table).partial_fit(indices[:30]))
    twin.set_params(preprocessor=table).partial_fit(indices[30:])
    assert saved(twin) == saved(small().partial_fit(TRIPLETS[:60]))


# -- randomness ---------------------------------------------------------------------------------------------

SEEDS: dict[str, Any] = {
    "an int": lambda: 3,
    "None": lambda: None,
    "a RandomState": lambda: np.random.RandomState(3),
    "PCG64": lambda: np.random.Generator(np.random.PCG64(3)),
    "PCG64DXSM": lambda: np.random.Generator(np.random.PCG64DXSM(3)),
    "MT19937": lambda: np.random.Generator(np.random.MT19937(3)),
    "Philox": lambda: np.random.Generator(np.random.Philox(3)),
    "SFC64": lambda: np.random.Generator(np.random.SFC64(3)),
}
seeded = pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())


@seeded
def test_a_learner_with_any_seed_is_loaded_unchanged(seed: Any) -> None:
    learner = small(random_state=seed()).partial_fit(TRIPLETS[:5])
    assert saved(reloaded(learner)) == saved(learner)


@seeded
@pytest.mark.parametrize("n_drawn", [0, 1, 700], ids="{} drawn".format)
def test_the_random_generator_continues_after_loading(seed: Any, n_drawn: int) -> None:
    """A generator keeps half a word after 32-bit draws. 700 draws exceed MT19937's first block."""
    learner = small(random_state=seed()).initialize(4)
    learner._state.rng.integers(2**32, size=n_drawn, dtype=np.uint32)
    twin = reloaded(learner)
    draws = [rng.integers(2**32, size=1500, dtype=np.uint32) for rng in (learner._state.rng, twin._state.rng)]
    assert np.array_equal(*draws)


def test_fitting_after_loading_draws_the_same_triplets() -> None:
    X, y = TRIPLETS[:, 0], np.arange(1500) % 3
    learner = small(random_state=3, n_constraints=20).fit(X, y)
    twin = reloaded(learner)
    assert as_bytes(twin.fit(X, y).metric_weights_) == as_bytes(learner.fit(X, y).metric_weights_)


@pytest.mark.parametrize("seed", [np.random.RandomState(3), np.random.default_rng(3)], ids=type)
def test_a_random_state_that_is_not_an_int_is_loaded_as_none(seed: Any) -> None:
    assert reloaded(small(random_state=seed).initialize(4)).random_state is None


def test_a_loaded_learner_has_its_own_generator() -> None:
    """The generators are independent: draws from one do not advance the other."""
    rng = np.random.default_rng(3)
    twin = reloaded(small(random_state=rng).initialize(4))
    assert twin._state.rng is not rng


# -- metric() -----------------------------------------------------------------------------------------------


def test_a_metric_does_not_change_when_its_learner_learns() -> None:
    learner = small().partial_fit(TRIPLETS[:10])
    metric = learner.metric()
    before = saved(metric)
    learner.partial_fit(TRIPLETS[10:200])
    assert saved(metric) == before


def test_a_metric_has_the_weights_of_its_learner() -> None:
    learner = small().partial_fit(TRIPLETS[:10])
    metric, before = learner.metric(), learner.transform(TRIPLETS[0])
    learner.partial_fit(TRIPLETS[10:200])
    assert as_bytes(metric.transform(TRIPLETS[0])) == as_bytes(before)


def test_learning_changes_the_learner() -> None:
    """Without this, the two tests above would prove nothing."""
    learner = small().partial_fit(TRIPLETS[:10])
    before = saved(learner.metric())
    assert saved(learner.partial_fit(TRIPLETS[10:200]).metric()) != before


@pytest.mark.parametrize("from_file", [False, True], ids=["from a learner", "from a file"])
def test_the_arrays_of_a_metric_are_read_only(tmp_path: Path, from_file: bool) -> None:
    metric = small().partial_fit(TRIPLETS[:10]).metric()
    if from_file:
        metric.save(tmp_path / "metric")
        metric = oahu.load(tmp_path / "metric")
    arrays = [*metric.hidden_weights, *metric.hidden_biases, *metric.embedding_weights, *metric.embedding_biases]
    assert not any(array.flags.writeable for array in [*arrays, metric.metric_weights])


def test_the_version_of_a_metric_is_the_number_of_constraints() -> None:
    assert small().partial_fit(TRIPLETS[:10]).metric().version == 10


# -- stop and go on -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4).map(sorted), st.sampled_from(DTYPES))
@settings(max_examples=30)
def test_saving_and_loading_at_any_points_changes_nothing(stops: list[int], dtype: str) -> None:
    straight = small(dtype=dtype).partial_fit(TRIPLETS[:300])
    learner = small(dtype=dtype).initialize(4)
    for start, stop in zip([0, *stops], [*stops, 300], strict=True):
        if start < stop:
            learner.partial_fit(TRIPLETS[start:stop])
        learner = reloaded(learner)
    assert saved(learner) == saved(straight)


#: Before the first round, around a block of 128, around the history's first thinning at 1,024, before the last.
STOPS = (0, 1, 2, 127, 128, 129, 1023, 1024, 1025, 1499)

CONTINUE = """
import sys
from pathlib import Path
import numpy as np
import oahu

folder = Path(sys.argv[1])
triplets = np.load(folder / "triplets.npy")
for stopped in folder.glob("*.stopped"):
    learner = oahu.load(stopped)
    learner.partial_fit(triplets[learner.n_seen_ :]).save(stopped.with_suffix(".continued"))
"""


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of learners that were saved after each of STOPS and continued by another process."""
    folder = tmp_path_factory.mktemp("continued")
    np.save(folder / "triplets.npy", TRIPLETS)
    for dtype in DTYPES:
        for k in STOPS:
            learner = small(dtype=dtype).initialize(4)
            if k:
                learner.partial_fit(TRIPLETS[:k])
            learner.save(folder / f"{dtype}-{k}.stopped")
    command = [sys.executable, "-c", CONTINUE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", STOPS)
def test_a_loaded_learner_continues_exactly_in_a_new_process(continued: Path, k: int, dtype: str) -> None:
    straight = small(dtype=dtype).partial_fit(TRIPLETS)
    assert (continued / f"{dtype}-{k}.continued").read_bytes() == saved(straight)
