"""Model files: what is written, what is refused, and what a crash leaves behind."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import random
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import oahu
from oahu import OAHU, EnsembleMetric, ModelFileError

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Thing = OAHU | EnsembleMetric

#: What a message may call a file; the words users look for.
KINDS = ("truncated", "damaged", "not an oahu model file", "Upgrade oahu")


# -- helpers: reading and writing the format without oahu ---------------------------------------------------


def tiny_learner(**parameters: Any) -> OAHU:
    """A learner of two features that has seen five triplets: its file is short."""
    learner = OAHU(**{"n_layers": 1, "hidden_size": 2, "embedding_size": 2, "random_state": 0} | parameters)
    return learner.partial_fit(np.random.default_rng(1).normal(size=(5, 3, 2)))


def saved(thing: Thing) -> bytes:
    """The bytes of the file of ``thing``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        thing.save(path)
        return path.read_bytes()


def loaded(data: bytes) -> Any:
    """What `oahu.load` makes of a file of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        return oahu.load(path)


def is_refused(data: bytes) -> bool:
    """Whether `refusal` finds an error."""
    try:
        return bool(refusal(data))
    except pytest.fail.Exception:
        return False


def refusal(data: bytes) -> str:
    """Why a file of these bytes is refused, without its name."""
    with pytest.raises(ModelFileError) as caught:
        loaded(data)
    return str(caught.value).split("': ", 1)[1]


def parsed(data: bytes) -> tuple[Header, Arrays]:
    """The oahu header and the arrays of a file, read by the rules of safetensors."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["oahu"]), safetensors.numpy.load(data)


def sha256(header: Header, arrays: Arrays) -> str:
    """The digest as the module's docstring defines it: the header, then name, type, shape and bytes of arrays."""
    parts = [json.dumps({k: header[k] for k in sorted(header) if k != "sha256"}, sort_keys=True).encode()]
    for name, array in sorted(arrays.items()):
        parts += [json.dumps([name, array.dtype.str, list(array.shape)]).encode(), array.tobytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def crafted(header: Header, arrays: Arrays) -> bytes:
    """A file with a right SHA-256, whatever it holds."""
    sealed = header | {"sha256": sha256(header, arrays)}
    return safetensors.numpy.save(arrays, metadata={"oahu": json.dumps(sealed, sort_keys=True)})


def raw(table: Any, body: bytes = b"") -> bytes:
    """A file with this safetensors table, well-formed or not."""
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + body


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of nested dicts and lists with ``value`` at ``path``."""
    if not path:
        return value
    twin = copy.deepcopy(tree)
    part = twin
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return twin


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in nested dicts and lists; of a list, the first and the last."""
    yield path
    keys = tree if isinstance(tree, dict) else {0, len(tree) - 1} if isinstance(tree, list) and tree else ()
    for key in keys:
        yield from places(tree[key], (*path, key))


@pytest.fixture(params=["learner", "metric"])
def thing(request: pytest.FixtureRequest) -> Thing:
    """Everything that can be saved."""
    learner = tiny_learner()
    return learner if request.param == "learner" else learner.metric()


@pytest.fixture
def file(thing: Thing) -> bytes:
    return saved(thing)


# -- what is written ----------------------------------------------------------------------------------------


def test_the_header_names_its_format_and_class(thing: Thing) -> None:
    header, _ = parsed(saved(thing))
    assert (header["format"], header["class"]) == (1, type(thing).__name__)


def test_the_header_says_which_versions_wrote_it(file: bytes) -> None:
    header, _ = parsed(file)
    assert (header["oahu"], header["numpy"]) == (oahu.__version__, np.__version__)


def test_the_header_of_a_learner_has_every_parameter_but_the_preprocessor() -> None:
    learner = tiny_learner(tau=0.25, hedge="hedge", bias=False)
    header, _ = parsed(saved(learner))
    expected = learner.get_params()
    del expected["preprocessor"]
    assert header["state"]["parameters"] == expected


def test_the_header_of_a_learner_counts_what_was_seen() -> None:
    header, _ = parsed(saved(tiny_learner()))
    assert header["state"]["n_seen"] == 5


def test_the_header_of_a_metric_has_its_version() -> None:
    header, _ = parsed(saved(tiny_learner().metric()))
    assert header["state"] == {"version": 5}


def test_the_sha256_covers_the_header_and_every_array(file: bytes) -> None:
    header, arrays = parsed(file)
    assert header["sha256"] == sha256(header, arrays)


def test_a_file_written_by_the_rules_of_the_format_is_read(file: bytes) -> None:
    assert saved(loaded(crafted(*parsed(file)))) == file


def test_the_arrays_are_plain_safetensors() -> None:
    metric = tiny_learner().metric()
    _, arrays = parsed(saved(metric))
    assert np.array_equal(arrays["hidden_weights.0"], metric.hidden_weights[0])


def test_saving_twice_gives_the_same_bytes(thing: Thing) -> None:
    assert saved(thing) == saved(thing)


@pytest.mark.parametrize("kind", [str, Path], ids=["str", "Path"])
def test_a_path_may_be_a_string_or_a_path(thing: Thing, tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    path = kind(tmp_path / "model")
    thing.save(path)
    assert isinstance(oahu.load(path), type(thing))


def test_a_class_that_is_not_registered_is_not_saved(tmp_path: Path) -> None:
    class Mine(oahu.MahalanobisMetric):
        pass

    with pytest.raises(TypeError, match=r"Mine cannot be saved: the class is not registered"):
        Mine(np.eye(2), 0).save(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_subclass_of_a_learner_is_saved_and_loaded(tmp_path: Path) -> None:
    class Mine(oahu.LEGO):
        pass

    Mine().initialize(2).save(tmp_path / "mine")
    assert type(oahu.load(tmp_path / "mine", Mine)) is Mine


def test_a_class_that_was_defined_again_is_not_saved(tmp_path: Path) -> None:
    def define() -> type[oahu.LEGO]:
        class Mine(oahu.LEGO):
            pass

        return Mine

    first, second = define(), define()
    second().initialize(2).save(tmp_path / "second")
    with pytest.raises(TypeError, match="was defined again after this object was created"):
        first().initialize(2).save(tmp_path / "first")


# -- metrics come back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_a_metric_comes_back_bit_for_bit(dtype: str, n_layers: int) -> None:
    metric = tiny_learner(dtype=dtype, n_layers=n_layers).metric()
    twin = loaded(saved(metric))
    for name in ("hidden_weights", "hidden_biases", "embedding_weights", "embedding_biases"):
        pairs = zip(getattr(twin, name), getattr(metric, name), strict=True)
        assert all(ours.dtype == dtype and ours.tobytes() == its.tobytes() for ours, its in pairs)


def test_a_metric_comes_back_with_its_weights() -> None:
    metric = tiny_learner().metric()
    assert loaded(saved(metric)).metric_weights.tobytes() == metric.metric_weights.tobytes()


def test_a_metric_comes_back_with_its_version() -> None:
    assert loaded(saved(tiny_learner().metric())).version == 5


def test_negative_zeros_and_subnormals_come_back() -> None:
    values = np.array([[-0.0, 1e-45], [np.finfo(np.float32).max, -1e-40]], dtype=np.float32)
    metric = EnsembleMetric.frozen([], [], [values], [np.zeros(2, np.float32)], np.ones(1), 0)
    assert loaded(saved(metric)).embedding_weights[0].tobytes() == values.tobytes()


# -- files that are not whole -------------------------------------------------------------------------------


def test_a_missing_file_is_a_plain_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        oahu.load(tmp_path / "nothing")


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.model"
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"Cannot load '.*broken\.model': "):
        oahu.load(path)


def test_a_file_cut_anywhere_is_called_truncated(file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    missed = []
    for length in range(len(file)):
        path.write_bytes(file[:length])
        try:
            oahu.load(path)
        except ModelFileError as error:
            if "truncated" in str(error):
                continue
        missed.append(length)
    assert missed == []


def test_a_file_with_bytes_behind_it_is_called_damaged(file: bytes) -> None:
    assert "damaged" in refusal(file + b"\0")


def flips(file: bytes, start: int, stop: int, path: Path) -> Iterator[tuple[int, str]]:
    """(bit, message) for single bits flipped in ``file[start:stop]``; an accepted file has no message.

    All bits of the first 64 bytes are flipped, then every fifth bit, which is each bit of a byte in turn.
    """
    every = min(start + 64, stop)
    for bit in (*range(8 * start, 8 * every), *range(8 * every, 8 * stop, 5)):
        data = bytearray(file)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            oahu.load(path)
        except ModelFileError as error:
            yield bit, str(error)
        else:
            yield bit, ""


def test_a_bit_flipped_in_the_arrays_is_called_damage(file: bytes, tmp_path: Path) -> None:
    arrays = 8 + int.from_bytes(file[:8], "little")
    assert [bit for bit, text in flips(file, arrays, len(file), tmp_path / "m") if "damaged" not in text] == []


def test_a_bit_flipped_in_the_header_is_refused_for_a_reason(file: bytes, tmp_path: Path) -> None:
    arrays = 8 + int.from_bytes(file[:8], "little")
    messages = flips(file, 0, arrays, tmp_path / "m")
    assert [bit for bit, text in messages if not any(kind in text for kind in KINDS)] == []


@pytest.mark.parametrize(
    ("parameters", "written", "flipped"),
    [
        pytest.param({"learning_rate": 1e-5}, b"1e-05", b"1E-05", id="case of the exponent"),
        pytest.param({"tau": 0.1 + 0.2}, b"0.30000000000000004", b"0.30000000000000005", id="digit beyond"),
    ],
)
def test_a_bit_flipped_without_changing_a_value_is_still_damage(
    parameters: dict[str, float], written: bytes, flipped: bytes
) -> None:
    data = saved(tiny_learner(**parameters))
    assert data.count(written) == 1
    assert "damaged" in refusal(data.replace(written, flipped))


@given(st.data())
@settings(max_examples=50)
def test_a_file_with_a_part_overwritten_is_refused(draw: st.DataObject) -> None:
    file = saved(tiny_learner())
    start = draw.draw(st.integers(0, len(file) - 1))
    part = draw.draw(st.binary(min_size=1, max_size=min(64, len(file) - start)))
    if file[start : start + len(part)] == part:
        part = bytes([part[0] ^ 255]) + part[1:]
    refusal(file[:start] + part + file[start + len(part) :])


@given(st.permutations(range(6)).filter(lambda order: list(order) != sorted(order)))
@settings(max_examples=40)
def test_a_file_with_blocks_out_of_order_is_refused(order: list[int]) -> None:
    file = saved(tiny_learner())
    blocks = [bytes(block) for block in np.array_split(np.frombuffer(file, np.uint8), 6)]
    refusal(b"".join(blocks[i] for i in order))


# -- files of others ----------------------------------------------------------------------------------------


class Payload:
    """Unpickling one calls print; pickling it is safe."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return print, ("unpickled",)


FOREIGN = {
    "random bytes": random.Random(0).randbytes(4096),
    "zeros": bytes(4096),
    "text": b"a model file, honestly\n" * 20,
    "JSON": json.dumps({"class": "OAHU", "format": 1}).encode(),
    "JSON behind a length": raw([1, 2, 3]),
    "a number behind a length": raw(7),
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "zip": b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(64),
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}" + bytes(64),
    "safetensors": safetensors.numpy.save({"weights": np.ones((2, 2))}),
    "safetensors of no arrays": safetensors.numpy.save({}),
    "safetensors of another program": safetensors.numpy.save({"w": np.ones(2)}, metadata={"format": "pt"}),
    "safetensors with text for a header": safetensors.numpy.save({"w": np.ones(2)}, metadata={"oahu": "hello"}),
    "safetensors with a list for a header": safetensors.numpy.save({"w": np.ones(2)}, metadata={"oahu": "[1]"}),
    "safetensors with a bare header": safetensors.numpy.save({"w": np.ones(2)}, metadata={"oahu": "{}"}),
    "safetensors with a deep header": safetensors.numpy.save({}, metadata={"oahu": "[" * 10**5 + "]" * 10**5}),
    **{f"pickle {version}": pickle.dumps(Payload(), protocol=version) for version in range(6)},
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_file_is_called_not_an_oahu_model_file(data: bytes) -> None:
    assert "not an oahu model file" in refusal(data)


def test_an_empty_file_is_called_truncated() -> None:
    assert "truncated" in refusal(b"")


@given(st.binary(max_size=300))
@settings(max_examples=50)
def test_any_bytes_are_refused(data: bytes) -> None:
    refusal(data)


@given(st.binary(max_size=300))
@settings(max_examples=50)
def test_any_bytes_behind_a_right_length_are_refused(data: bytes) -> None:
    refusal(len(data).to_bytes(8, "little") + data)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_not_run(protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    refusal(pickle.dumps(Payload(), protocol=protocol))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "system", "Expert", "oahu.OAHU", "object", ""])
def test_a_file_of_another_class_is_refused_by_name(name: str) -> None:
    header, arrays = parsed(saved(tiny_learner()))
    assert f"it contains the unknown class {name!r}" in refusal(crafted(header | {"class": name}, arrays))


@pytest.mark.parametrize("version", [2, 3, 10**30])
def test_a_file_of_a_newer_format_asks_for_a_newer_oahu(file: bytes, version: int) -> None:
    header, arrays = parsed(file)
    text = refusal(crafted(header | {"format": version, "oahu": "9.9"}, arrays))
    assert f"format {version} and was written by oahu 9.9" in text
    assert "Upgrade oahu" in text


def test_a_newer_file_is_called_newer_even_if_its_digest_is_made_differently(file: bytes) -> None:
    header, arrays = parsed(file)
    newer = json.dumps(header | {"format": 2, "sha256": None})
    assert "Upgrade oahu" in refusal(safetensors.numpy.save(arrays, metadata={"oahu": newer}))


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_format_that_never_was_is_not_an_oahu_model_file(file: bytes, version: Any) -> None:
    header, arrays = parsed(file)
    assert "not an oahu model file" in refusal(crafted(header | {"format": version}, arrays))


@pytest.mark.parametrize("length", [2**24 + 1, 2**40, 2**64 - 1])
def test_a_header_that_claims_too_much_is_refused_by_its_claim(file: bytes, length: int) -> None:
    assert f"its header has a stated length of {length} bytes" in refusal(length.to_bytes(8, "little") + file[8:])


def test_a_header_that_is_too_long_is_refused_by_its_length(file: bytes) -> None:
    length = int.from_bytes(file[:8], "little")
    padding = 2**24 + 8 - length
    padded = (length + padding).to_bytes(8, "little") + file[8 : 8 + length] + b" " * padding + file[8 + length :]
    assert f"its header has a stated length of {length + padding} bytes" in refusal(padded)


# -- crafted files: a right SHA-256, wrong content ----------------------------------------------------------

ARRAY_NAMES = (
    "hidden_weights.0", "hidden_biases.0", "embedding_weights.0", "embedding_weights.1", "embedding_biases.0",
    "embedding_biases.1", "metric_weights",
)  # fmt: skip
HISTORY_NAMES = ("history.running", "history.totals", "history.weights")

of_every_array = pytest.mark.parametrize(
    ("thing", "name"),
    [("learner", name) for name in ARRAY_NAMES + HISTORY_NAMES] + [("metric", name) for name in ARRAY_NAMES],
    indirect=["thing"],
)


@of_every_array
def test_a_missing_array_is_named(thing: Thing, name: str) -> None:
    header, arrays = parsed(saved(thing))
    del arrays[name]
    assert f"no array {name!r}" in refusal(crafted(header, arrays))


@of_every_array
def test_values_that_are_not_finite_are_refused_by_their_array(thing: Thing, name: str) -> None:
    header, arrays = parsed(saved(thing))
    for value in (np.nan, np.inf, -np.inf):
        wrong = arrays[name].copy()
        wrong.flat[-1] = value
        assert f"{name!r} contains values that are not finite" in refusal(crafted(header, arrays | {name: wrong}))


@of_every_array
def test_an_array_of_another_shape_or_type_is_refused(thing: Thing, name: str) -> None:
    header, arrays = parsed(saved(thing))
    array = arrays[name]
    wrong = {
        "more rows": np.repeat(array, 2, axis=0),
        "more columns": np.repeat(array, 2, axis=-1),
        "more dimensions": array[None],
        "whole numbers": np.ones(array.shape, np.int64),
        "another float": array.astype(np.float32 if array.dtype == np.float64 else np.float64),
    }
    accepted = [kind for kind, other in wrong.items() if not is_refused(crafted(header, arrays | {name: other}))]
    assert accepted == []


@pytest.mark.parametrize("weights", [[-0.5, 1.5], [0.0, 0.0], [1.0, 1.0]], ids=str)
def test_metric_weights_that_are_no_shares_of_1_are_refused(thing: Thing, weights: list[float]) -> None:
    header, arrays = parsed(saved(thing))
    assert "metric_weights" in refusal(crafted(header, arrays | {"metric_weights": np.array(weights)}))


def test_a_level_that_is_skipped_is_refused(thing: Thing) -> None:
    header, arrays = parsed(saved(thing))
    arrays["embedding_weights.3"] = arrays["embedding_weights.1"]
    refusal(crafted(header, arrays))


def test_a_file_of_no_arrays_is_refused(thing: Thing) -> None:
    assert "no array" in refusal(crafted(parsed(saved(thing))[0], {}))


def test_a_learner_is_not_read_as_a_metric() -> None:
    header, arrays = parsed(saved(tiny_learner()))
    assert "EnsembleMetric" in refusal(crafted(header | {"class": "EnsembleMetric"}, arrays))


def test_a_metric_is_not_read_as_a_learner() -> None:
    header, arrays = parsed(saved(tiny_learner().metric()))
    assert "OAHU" in refusal(crafted(header | {"class": "OAHU"}, arrays))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", 3.0),
        ("beta", None),
        ("hedge", "guess"),
        ("n_layers", -1),
        ("dtype", "int8"),
        ("command", "rm"),
        ("preprocessor", "x"),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    header, arrays = parsed(saved(tiny_learner()))
    assert name in refusal(crafted(changed(header, ("state", "parameters", name), value), arrays))


@pytest.mark.parametrize("value", [None, "x", -1, float("inf"), float("nan"), 2**200, [], [-1], [2**70], {}])
def test_any_value_of_the_header_exchanged_is_read_or_refused(value: Any) -> None:
    """Whatever the header holds, nothing but a `ModelFileError` comes out of `load`."""
    header, arrays = parsed(saved(tiny_learner()))
    escaped = {}
    for place in places(header["state"], ("state",)):
        try:
            loaded(crafted(changed(header, place, value), arrays))
        except ModelFileError:
            continue
        except Exception as error:
            escaped[place] = error
    assert escaped == {}


@pytest.mark.parametrize(
    ("place", "value"),
    [("state", -1), ("state", 2**128), ("inc", 0.5), ("has_uint32", 2), ("uinteger", 2**32), ("uinteger", None)],
)
def test_a_generator_that_stands_nowhere_is_refused(place: str, value: Any) -> None:
    """numpy does not check where a generator stands."""
    header, arrays = parsed(saved(tiny_learner()))
    assert place in refusal(crafted(changed(header, ("state", "rng", place), value), arrays))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("n_seen",), -5),
        (("n_seen",), 99),
        (("n_seen",), 5.0),
        (("n_used",), -1),
        (("n_used",), 6),
        (("history_capacity",), -1),
        (("history_capacity",), 4),
        (("history_stride",), 0),
        (("history_stride",), -1),
        (("history_stride",), 2),
    ],
)
def test_counts_that_contradict_the_history_are_refused(place: tuple[str, ...], value: int) -> None:
    """Five triplets were seen and all five kept: no other counts fit the arrays."""
    header, arrays = parsed(saved(tiny_learner()))
    refusal(crafted(changed(header, ("state", *place), value), arrays))


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", 1], "ab", {"a": "b"}])
def test_names_that_are_not_those_of_the_features_are_refused(names: Any) -> None:
    header, arrays = parsed(saved(tiny_learner()))
    refusal(crafted(changed(header, ("state", "feature_names"), names), arrays))


@pytest.mark.parametrize("entry", [None, 3, [], {}, "x"])
def test_an_unreadable_entry_in_the_table_of_arrays_is_called_damage(file: bytes, entry: Any) -> None:
    header, _ = parsed(file)
    table = {"__metadata__": {"oahu": json.dumps(header)}, "metric_weights": entry}
    assert "damaged" in refusal(raw(table))


@pytest.mark.parametrize("end", [None, "x", [], -1, float("inf"), float("nan")])
def test_an_unreadable_offset_in_the_table_of_arrays_is_called_damage(file: bytes, end: Any) -> None:
    header, _ = parsed(file)
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, end]}
    table = {"__metadata__": {"oahu": json.dumps(header)}, "metric_weights": entry}
    assert "damaged" in refusal(raw(table))


# -- what a save does to the disk ---------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A model file that is about to be overwritten, alone in its folder."""
    path = tmp_path / "folder" / "model"
    path.parent.mkdir()
    tiny_learner(random_state=7).save(path)
    return path


@contextmanager
def file_mode_mask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
def test_permissions_follow_the_umask(thing: Thing, tmp_path: Path, mask: int) -> None:
    with file_mode_mask(mask):
        thing.save(tmp_path / "model")
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o666 & ~mask


def test_a_save_leaves_nothing_but_the_file(thing: Thing, old: Path) -> None:
    thing.save(old)
    assert list(old.parent.iterdir()) == [old]


def test_the_whole_file_is_flushed_before_it_takes_its_name(
    thing: Thing, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen by fsync: first a complete file while the old one still stands, then the folder with the new one."""
    before, after, seen = old.read_bytes(), saved(thing), []
    flush = os.fsync

    def spy(descriptor: int) -> None:
        flush(descriptor)
        status = os.fstat(descriptor)
        what = "folder" if stat.S_ISDIR(status.st_mode) else status.st_size
        seen.append((what, {before: "old", after: "new"}[old.read_bytes()]))

    monkeypatch.setattr(os, "fsync", spy)
    thing.save(old)
    assert seen == [(len(after), "old"), ("folder", "new")]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["OSError", "interrupt"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
class TestASaveThatFails:
    @pytest.fixture(autouse=True)
    def failing(self, monkeypatch: pytest.MonkeyPatch, old: Path, call: str, error: BaseException) -> bytes:
        """Saving to ``old`` fails at ``call``; the bytes that were there."""
        before = old.read_bytes()

        def fail(*_: object, **__: object) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            with pytest.raises(type(error)):
                tiny_learner(random_state=8).save(old)
        return before

    def test_leaves_the_old_file_whole(self, failing: bytes, old: Path) -> None:
        assert old.read_bytes() == failing

    def test_leaves_no_temporary_file(self, old: Path) -> None:
        assert list(old.parent.iterdir()) == [old]


def test_a_save_to_a_link_writes_what_it_points_to(thing: Thing, tmp_path: Path, old: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(old)
    thing.save(link)
    assert link.is_symlink()
    assert old.read_bytes() == saved(thing)


def test_a_name_may_be_as_long_as_the_system_allows(thing: Thing, tmp_path: Path) -> None:
    path = tmp_path / ("m" * 255)
    thing.save(path)
    assert path.exists()


def test_a_save_into_a_missing_folder_fails_plainly(thing: Thing, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        thing.save(tmp_path / "nowhere" / "model")


def test_a_save_into_a_missing_folder_makes_none(thing: Thing, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        thing.save(tmp_path / "nowhere" / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_save_over_a_folder_leaves_only_the_folder(thing: Thing, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(OSError, match="model"):
        thing.save(tmp_path / "model")
    assert list(tmp_path.rglob("*")) == [tmp_path / "model"]


def test_threads_that_save_to_one_file_at_once_do_not_disturb_each_other(old: Path) -> None:
    """Each has a temporary file of its own: no save fails, none is mixed with another, none is left over."""
    learners = [tiny_learner(random_state=seed) for seed in range(4)]
    with ThreadPoolExecutor(len(learners)) as pool:
        list(pool.map(lambda learner: [learner.save(old) for _ in range(25)], learners))
    assert ([*old.parent.iterdir()], old.read_bytes() in map(saved, learners)) == ([old], True)
