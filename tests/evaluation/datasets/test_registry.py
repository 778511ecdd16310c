"""Tests of the registry: descriptions, availability, downloads, and Dataset objects."""

from __future__ import annotations

import hashlib
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits

from oahu import DatasetError, InvalidInputError
from oahu.evaluation.datasets import DATASETS, Dataset, DatasetSource, Fold, Views, fetch, load, registry, source
from oahu.evaluation.datasets.downloads import RemoteFile

NAMED = [name for name in DATASETS if name not in ("digits", "tiles", "any")]
DOWNLOADED = ["fashion-mnist", "emnist-balanced", "cifar10-gray", "lfw", "cifar100"]


def test_names_and_their_order() -> None:
    names = (
        "fashion-mnist emnist-balanced cifar10-gray lfw lfw-soft cars196 cifar100 clinc150 hwu64 digits tiles any"
    )
    assert " ".join(DATASETS) == names
    assert [source(name).name for name in DATASETS] == list(DATASETS)


@pytest.mark.parametrize("name", NAMED)
def test_description_is_complete(name: str) -> None:
    entry = source(name)
    assert entry.task in ("classification", "verification", "retrieval")
    assert entry.homepage.startswith("http")
    assert entry.licence
    assert entry.title
    assert entry.n_items is not None
    assert entry.n_classes is not None
    for remote in entry.downloads:
        assert all(url.startswith("http") for url in remote.urls)
        kind, _, digits = (remote.checksum or "").partition(":")
        assert len(digits) == {"md5": 32, "sha256": 64, "": 0}[kind]
    without_checksum = [remote.path for remote in entry.downloads if remote.checksum is None]
    assert without_checksum == (["lfw/lfw_attributes.txt"] if name == "lfw" else [])


@pytest.mark.parametrize("name", DOWNLOADED)
def test_downloads_are_a_complete_set_of_files(name: str, tmp_path: Path) -> None:
    entry = source(name)
    assert not entry.is_available(tmp_path)
    for remote in entry.downloads:
        (tmp_path / remote.path).parent.mkdir(exist_ok=True)
        (tmp_path / remote.path).touch()
    assert entry.is_available(tmp_path)
    assert entry.missing_files(tmp_path) == ()


def test_digits_come_from_scikit_learn(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    read = load("digits", tmp_path)
    assert np.array_equal(read.X, X)
    assert np.array_equal(read.y, y)
    assert (read.X.dtype, read.scaling, read.image_shape) == (np.uint8, "range", (8, 8))
    entry = source("digits")
    assert (entry.n_items, entry.n_features, entry.n_classes) == (*X.shape, 10)
    fetch("digits", tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- missing data sets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_error_for_a_missing_data_set_says_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        load(name, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"The data set {name} is not in {tmp_path}. ")
    if name in DOWNLOADED:
        assert f"Run `oahu datasets get {name}`" in message
    else:
        assert f"Copy {source(name).manual_files(tmp_path)[0]}" in message
        assert "to that folder (see http" in message


def test_data_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAHU_DATA_HOME", str(tmp_path))
    with pytest.raises(DatasetError, match=f"is not in {tmp_path}"):
        load("lfw")
    np.savez(tmp_path / "cars196-features.npz", X=np.ones((2, 2)), y=[0, 1])
    assert len(load("cars196")) == 2


def test_only_missing_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "lfw").mkdir()
    for name in ("lfw_attributes.txt.gz", "pairs.txt", "pairsDevTest.txt"):
        (tmp_path / "lfw" / name).touch()
    assert source("lfw").missing_files(tmp_path) == ("lfw/pairsDevTrain.txt",)
    assert source("lfw-soft").manual_files(tmp_path) == ("lfw/lfw_facer40.npz",)


@pytest.mark.parametrize("ask", [source, load, fetch])
def test_unknown_name_lists_the_data_sets(ask: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"There is no data set 'mnist'\. Use one of fashion-mnist, "):
        ask("mnist")


@pytest.mark.parametrize("ask", [load, fetch])
def test_any_explains_that_a_path_is_needed(ask: Any, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"'any' stands for your own file\. Use its path"):
        ask("any", tmp_path)
    assert not source("any").is_available(tmp_path)


def test_labels_are_rejected_for_registered_data_sets(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="The data set digits has its own labels"):
        load("digits", labels=tmp_path / "labels.txt")


def test_fetch_explains_files_that_cannot_be_downloaded(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        fetch("cars196", tmp_path)
    assert "It cannot be downloaded. Copy cars196-features.npz to that folder" in str(caught.value)
    assert source("cars196").homepage in str(caught.value)


# -- labelings -------------------------------------------------------------------------------------------


def test_labeling_is_part_of_the_name(tmp_path: Path) -> None:
    intents, domains = np.arange(6), np.arange(6) % 2
    np.savez(tmp_path / "clinc150-features.npz", X=np.eye(6), y=intents, domain=domains)
    assert load("clinc150", tmp_path).y.tolist() == intents.tolist()
    by_domain = load("clinc150:domain", tmp_path)
    assert by_domain.y.tolist() == domains.tolist()
    assert by_domain.name == "clinc150:domain"
    assert load("clinc150:intent", tmp_path).y.tolist() == intents.tolist()


def test_missing_labels_are_reported(tmp_path: Path) -> None:
    np.savez(tmp_path / "clinc150-features.npz", X=np.eye(6), y=np.arange(6))
    with pytest.raises(
        InvalidInputError, match=r"'clinc150' has no labeling 'domain'\. Its labelings are intent\."
    ):
        load("clinc150:domain", tmp_path)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("tiles:taste", r"Use tiles:shape or tiles:colour or tiles:size\."), ("digits:parity", r"Use digits\.")],
)
def test_unknown_labeling_lists_the_labelings(name: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"has no labeling '{name.partition(':')[2]}'. {advice}"):
        load(name, tmp_path)


def test_dataset_rejects_labels_of_another_length() -> None:
    with pytest.raises(
        InvalidInputError, match=r"The labeling 'age' of the data set 'pets' must have shape \(2,\)"
    ):
        Dataset("pets", np.eye(2), np.zeros(2), labelings={"age": np.zeros(3)})


def test_dataset_without_labelings_has_only_one() -> None:
    with pytest.raises(InvalidInputError, match=r"'pets' has no labeling 'age'\. It has only one labeling\."):
        Dataset("pets", np.eye(2), np.zeros(2)).with_labels("age")


# -- downloads ------------------------------------------------------------------------------------------

CONTENT = b"X" * 1000


def add_small(
    server: Any, monkeypatch: pytest.MonkeyPatch, file_sets: Any = (("set/a", "set/b"),)
) -> DatasetSource:
    """Add a data set of two files on the server to the registry."""
    checksum = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    server.content = CONTENT
    entry = DatasetSource(
        name="small",
        title="Small",
        n_items=1,
        n_features=1,
        n_classes=1,
        task="classification",
        licence="MIT",
        homepage="http://example.org",
        file_sets=file_sets,
        downloads=tuple(RemoteFile(f"set/{name}", (server.url(name),), checksum) for name in "ab"),
        read=lambda home: Dataset("small", np.ones((1, 1)), np.zeros(1, int)),
    )
    monkeypatch.setitem(registry._SOURCES, "small", entry)
    return entry


def test_fetched_data_set_is_available(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = add_small(server, monkeypatch)
    reported: list[str] = []
    fetch("small", tmp_path, lambda name, *_: reported.append(name))
    assert entry.is_available(tmp_path)
    assert len(load("small", tmp_path)) == 1
    assert dict.fromkeys(reported) == dict.fromkeys("ab")
    assert [path for path, _ in server.requests] == ["/a", "/b"]
    fetch("small", tmp_path)
    assert len(server.requests) == 2  # nothing is requested for an available data set


def test_only_missing_files_are_fetched(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_small(server, monkeypatch)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").write_bytes(b"by hand")
    fetch("small", tmp_path)
    assert [path for path, _ in server.requests] == ["/b"]


def test_failed_download_names_all_missing_files(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_small(server, monkeypatch)
    server.status = 404
    with pytest.raises(DatasetError, match="HTTP status 404") as caught:
        fetch("small", tmp_path)
    assert str(caught.value).endswith(f"small needs set/a, set/b in {tmp_path}.")


def test_manual_file_is_requested_after_the_downloads(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = add_small(server, monkeypatch, file_sets=(("set/a", "set/b", "set/c"),))
    with pytest.raises(DatasetError, match="Copy set/c to that folder"):
        fetch("small", tmp_path)
    assert entry.missing_files(tmp_path) == ("set/c",)


# -- Dataset objects --------------------------------------------------------------------------------


def copied_by_joblib(value: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("copied", [lambda value: pickle.loads(pickle.dumps(value)), copied_by_joblib])
def test_dataset_can_be_pickled(copied: Any) -> None:
    fold = Fold(np.array([[0, 1]]), np.array([True]), 3)
    dataset = Dataset(
        "mine",
        np.eye(2),
        np.array(["a", "b"]),
        "unit",
        keys=np.array(["x", "y"]),
        views=Views((fold, fold), (fold,)),
    )
    copy = copied(dataset)
    assert np.array_equal(copy.X, dataset.X)
    assert (copy.y.tolist(), copy.keys.tolist()) == (["a", "b"], ["x", "y"])
    assert (copy.views.folds[0].n_missing, copy.views.pairs.tolist()) == (3, [[0, 1]] * 3)
    assert (copy.name, copy.scaling, len(copy), copy.n_features, copy.n_classes) == ("mine", "unit", 2, 2, 2)


@pytest.mark.parametrize(
    ("X", "y"), [(np.ones(3), np.ones(3)), (np.ones((3, 1)), np.ones(2)), (np.ones((3, 1)), 1)]
)
def test_dataset_rejects_wrong_shapes(X: Any, y: Any) -> None:
    with pytest.raises(InvalidInputError, match="The data set 'mine' must have 'X' of shape"):
        Dataset("mine", X, np.asarray(y))


@pytest.mark.slow
def test_import_does_not_load_heavy_packages() -> None:
    heavy = "{'torch', 'matplotlib', 'pandas', 'pyarrow'}"
    code = f"import sys, oahu.evaluation.datasets; print(*{heavy} & {{*sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
