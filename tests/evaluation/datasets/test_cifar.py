"""CIFAR's archives are read as published, in grey or in colour, and nothing in them is run."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oahu import DatasetError
from oahu.evaluation.datasets import load
from oahu.evaluation.datasets.grey import grey
from oahu.evaluation.datasets.pickled import UnsafePickleError, unpickle

RNG = np.random.default_rng(7)


class Python2:
    """A pickle as Python 2 and an early NumPy wrote them, opcode by opcode."""

    @staticmethod
    def string(text: bytes) -> bytes:
        if len(text) < 256:
            return pickle.SHORT_BINSTRING + bytes([len(text)]) + text
        return pickle.BINSTRING + len(text).to_bytes(4, "little") + text

    @staticmethod
    def number(value: int) -> bytes:
        return pickle.BININT + value.to_bytes(4, "little", signed=True)

    @classmethod
    def array(cls, value: Any) -> bytes:
        shape = b"".join(map(cls.number, value.shape))
        kind = b"cnumpy\ndtype\n(" + cls.string(b"u1") + cls.number(0) + cls.number(1) + b"tR"
        kind += b"(" + cls.number(3) + cls.string(b"|") + b"NNN" + cls.number(-1) * 2 + cls.number(0) + b"tb"
        start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n("
        start += cls.number(0) + b"t" + cls.string(b"b") + b"tR"
        state = b"(" + cls.number(1) + b"(" + shape + b"t" + kind + b"I00\n" + cls.string(value.tobytes()) + b"tb"
        return start + state

    @classmethod
    def batch(cls, data: Any, labels: Any, name: str) -> bytes:
        written = b"(" + b"".join(map(cls.number, map(int, labels)))
        entries = cls.string(b"data") + cls.array(data) + cls.string(name.encode()) + b"]" + written + b"e"
        return b"\x80\x02}(" + cls.string(b"batch_label") + cls.string(b"training batch") + entries + b"u."


def python3(data: Any, labels: Any, name: str, protocol: int = 4) -> bytes:
    return pickle.dumps({name: [int(label) for label in labels], "data": data}, protocol)


def batch(n: int, n_classes: int) -> tuple[Any, Any]:
    return RNG.integers(256, size=(n, 3072), dtype=np.uint8), RNG.integers(n_classes, size=n)


TEN = {f"cifar-10-batches-py/data_batch_{number}": batch(number, 10) for number in range(1, 6)}
TEN["cifar-10-batches-py/test_batch"] = batch(4, 10)
HUNDRED = {"cifar-100-python/train": batch(6, 100), "cifar-100-python/test": batch(3, 100)}
PATHS = {"cifar10-gray": "cifar10-gray/cifar-10-python.tar.gz", "cifar100": "cifar100/cifar-100-python.tar.gz"}

Pickler = Callable[[Any, Any, str], bytes]


def members(name: str, dump: Pickler = Python2.batch) -> dict[str, bytes]:
    batches, labels = (TEN, "labels") if name == "cifar10-gray" else (HUNDRED, "fine_labels")
    folder = next(iter(batches)).partition("/")[0]
    packed = {member: dump(*content, labels) for member, content in batches.items()}
    return {f"{folder}/readme.html": b"<html>", **dict(reversed(packed.items()))}  # in any order


def tar(contents: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def put(home: Path, name: str, content: bytes) -> Path:
    path = home / PATHS[name]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def told(home: Path, name: str) -> str:
    """What is said of a file that cannot be read."""
    with pytest.raises(DatasetError) as caught:
        load(name, home)
    assert str(caught.value).startswith(str(home / PATHS[name]))
    return str(caught.value)


# -- what is read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dump", [Python2.batch, python3])
def test_cifar_10_comes_in_grey(tmp_path: Path, dump: Pickler) -> None:
    put(tmp_path, "cifar10-gray", tar(members("cifar10-gray", dump)))
    read = load("cifar10-gray", tmp_path)
    colours = np.concatenate([data for data, _ in TEN.values()]).astype(int)
    red, green, blue = colours[:, :1024], colours[:, 1024:2048], colours[:, 2048:]
    assert read.X.dtype == np.uint8
    assert read.X.tolist() == ((4899 * red + 9617 * green + 1868 * blue + 8192) >> 14).tolist()
    assert read.y.dtype == np.int64
    assert read.y.tolist() == [label for _, labels in TEN.values() for label in labels]
    assert read.is_train is not None
    assert read.is_train.tolist() == [True] * 15 + [False] * 4
    assert (read.scaling, read.image_shape) == ("range", (32, 32))


@pytest.mark.parametrize("dump", [Python2.batch, python3])
def test_cifar_100_without_features_comes_in_pixels(tmp_path: Path, dump: Pickler) -> None:
    put(tmp_path, "cifar100", tar(members("cifar100", dump)))
    read = load("cifar100", tmp_path)
    assert read.X.shape == (9, 3072)
    assert read.image_shape == (32, 32, 3)
    data = np.concatenate([data for data, _ in HUNDRED.values()])
    for colour in range(3):
        plane = data[:, 1024 * colour : 1024 * (colour + 1)]
        assert np.array_equal(read.X.reshape(9, 32, 32, 3)[..., colour], plane.reshape(9, 32, 32))
    assert read.y.tolist() == [label for _, labels in HUNDRED.values() for label in labels]
    assert read.is_train is not None
    assert read.is_train.tolist() == [True] * 6 + [False] * 3
    assert read.scaling == "range"


# -- grey ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ((0, 0, 0), 0),
        ((255, 255, 255), 255),
        ((255, 0, 0), 76),  # 76.245
        ((0, 255, 0), 150),  # 149.685
        ((0, 0, 255), 29),  # 29.07
        ((1, 1, 1), 1),
        ((10, 20, 30), 18),  # 18.15
        ((200, 100, 50), 124),  # 124.2
    ],
)
def test_grey_by_hand(colour: tuple[int, int, int], expected: int) -> None:
    assert grey(np.array(colour, dtype=np.uint8).reshape(1, 3, 1)).tolist() == [[expected]]


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_grey_is_luminance_to_the_next_step(colour: tuple[int, int, int]) -> None:
    weights = Fraction(299, 1000), Fraction(587, 1000), Fraction(114, 1000)
    exact = sum(weight * value for weight, value in zip(weights, colour, strict=True))
    (made,) = grey(np.array(colour, dtype=np.uint8).reshape(1, 3, 1))[0].tolist()
    assert abs(made - exact) <= Fraction(51, 100)


def test_grey_of_many_is_grey_of_each() -> None:
    images = RNG.integers(256, size=(9000, 3, 2), dtype=np.uint8)
    assert np.array_equal(grey(images), np.concatenate([grey(images[:4500]), grey(images[4500:])]))


# -- pickles ---------------------------------------------------------------------------------------------


@given(arrays(np.uint8, array_shapes(max_dims=3, max_side=5)), st.sampled_from("CF"), st.integers(0, 5))
def test_arrays_of_bytes_come_back(array: Any, order: Any, protocol: int) -> None:
    ordered = np.asarray(array, order=order)
    assert np.array_equal(unpickle(pickle.dumps(ordered, protocol)), array)
    both = unpickle(pickle.dumps({"data": ordered, b"n": [1, "a"]}, protocol))
    assert np.array_equal(both["data"], array)
    assert both[b"n"] == [1, "a"]


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_both_spellings_of_numpy_are_known(core: bytes) -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    written = b"\x80\x02" + Python2.array(array).replace(b"numpy.core", core) + b"."
    assert np.array_equal(unpickle(written), array)


def test_the_text_format_of_python_2_is_known() -> None:
    array = np.arange(250, 256, dtype=np.uint8).reshape(2, 3)
    escaped = "".join(f"\\x{value:02x}" for value in array.ravel()).encode()
    kind = b"cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    written = start + b"(I1\n(I2\nI3\nt" + kind + b"I00\nS'" + escaped + b"'\ntb."
    assert np.array_equal(unpickle(written), array)


class Calls:
    """An object whose pickle calls something."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [exec, eval, getattr, Path.touch, np.load, np.frombuffer, bytearray])
def test_a_pickle_can_name_nothing_else(function: Any, protocol: int) -> None:
    with pytest.raises(UnsafePickleError, match="which is no part of an array"):
        unpickle(pickle.dumps({"data": Calls(function, "1")}, protocol))


@pytest.mark.parametrize("name", ["cifar10-gray", "cifar100"])
def test_code_in_an_archive_is_not_run(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace"
    contents = members(name)
    victim = list(contents)[-1]
    contents[victim] = pickle.dumps({"data": Calls(Path.touch, trace), "labels": [], "fine_labels": []})
    put(tmp_path, name, tar(contents))
    assert "which is no part of an array" in told(tmp_path, name)
    assert not trace.exists()
    pickle.loads(contents[victim])
    assert trace.exists()  # it would have been


@pytest.mark.parametrize("kind", ["<f8", "O", "<U3", "i1"])
def test_other_arrays_are_refused(kind: str) -> None:
    with pytest.raises(pickle.UnpicklingError):
        unpickle(pickle.dumps(np.zeros(3, dtype=kind), 2))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02",
        b"not a pickle",
        b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.",
        b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00atR.",
        b"\x80\x02" + Python2.array(np.zeros(3, np.uint8)).replace(b"\0\0\0tb", b"\0\0tb").replace(b"U\3", b"U\2"),
        b"\x80\x05\x96\xff\xff\xff\xff\xff\0\0\0.",  # an array of a million million bytes
    ],
)
def test_damaged_pickles_are_refused(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        unpickle(content)


def test_a_far_place_in_the_memo_takes_no_memory() -> None:
    assert unpickle(b"\x80\x02Nr\xff\xff\xff\xff.") is None  # the last of four thousand million


@given(st.data())
def test_no_change_of_a_pickle_does_worse_than_an_error(data: st.DataObject) -> None:
    content = bytearray(Python2.batch(np.arange(12, dtype=np.uint8).reshape(2, 6), [1, 2], "labels"))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(pickle.UnpicklingError):
        unpickle(bytes(content))


# -- damage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 15, 100, 0.3, 0.9, -9, -1])
def test_a_truncated_archive_is_said(tmp_path: Path, left: float) -> None:
    whole = tar(members("cifar10-gray"))
    put(tmp_path, "cifar10-gray", whole[: int(left * len(whole)) if 0 < left < 1 else int(left)])
    assert "broken or ends early" in told(tmp_path, "cifar10-gray")


@pytest.mark.parametrize("where", [0.2, 0.5, 0.8])
def test_a_changed_byte_is_found(tmp_path: Path, where: float) -> None:
    whole = bytearray(tar(members("cifar10-gray")))
    whole[int(where * len(whole))] ^= 1
    put(tmp_path, "cifar10-gray", bytes(whole))
    told(tmp_path, "cifar10-gray")


def test_zeros_without_end_are_not_unpacked(tmp_path: Path) -> None:
    put(tmp_path, "cifar10-gray", tar(members("cifar10-gray")) + gzip.compress(bytes(3_000_000)))
    assert "does not end where it says" in told(tmp_path, "cifar10-gray")


def test_an_enormous_member_is_not_read(tmp_path: Path) -> None:
    member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    member.size = 1 << 40
    put(tmp_path, "cifar10-gray", gzip.compress(member.tobuf() + bytes(10_240)))
    assert "far more than CIFAR" in told(tmp_path, "cifar10-gray")


def test_a_member_that_is_not_there_is_named(tmp_path: Path) -> None:
    contents = members("cifar10-gray")
    del contents["cifar-10-batches-py/data_batch_3"]
    put(tmp_path, "cifar10-gray", tar(contents))
    assert "cifar-10-batches-py/data_batch_3 is not in the archive" in told(tmp_path, "cifar10-gray")


def test_a_link_is_no_member(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in HUNDRED:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive.addfile(link)
    put(tmp_path, "cifar100", made.getvalue())
    assert "is not in the archive" in told(tmp_path, "cifar100")


DATA = HUNDRED["cifar-100-python/test"][0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1, 2], "must be a dictionary with 'data'"),
        ({"data": DATA}, "must be a dictionary with 'fine_labels'"),
        ({"data": DATA.tolist(), "fine_labels": [1, 2, 3]}, "'data' must be an array of shape (n_images, 3072)"),
        ({"data": DATA[:, 1:], "fine_labels": [1, 2, 3]}, "'data' must be an array of shape (n_images, 3072)"),
        ({"data": DATA[:0], "fine_labels": []}, "'data' must be an array of shape (n_images, 3072)"),
        ({"data": DATA, "fine_labels": [1, 2]}, "must be a list of 3 labels"),
        ({"data": DATA, "fine_labels": [1, 2, 100]}, "must be whole numbers from 0 to 99"),
        ({"data": DATA, "fine_labels": [1, 2, -1]}, "must be whole numbers from 0 to 99"),
        ({"data": DATA, "fine_labels": [1, 2, 1.0]}, "must be whole numbers from 0 to 99"),
    ],
)
def test_a_batch_that_is_none_is_named(tmp_path: Path, content: Any, problem: str) -> None:
    contents = members("cifar100") | {"cifar-100-python/test": pickle.dumps(content)}
    put(tmp_path, "cifar100", tar(contents))
    message = told(tmp_path, "cifar100")
    assert ", cifar-100-python/test cannot be read" in message
    assert problem in message
