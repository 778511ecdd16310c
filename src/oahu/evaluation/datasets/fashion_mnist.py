"""Fashion-MNIST: 28 x 28 greyscale images of clothes, in MNIST's format."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.idx import read_labelled, train_and_test
from oahu.evaluation.datasets.source import DatasetSource, RemoteFile

__all__ = ["SOURCE"]

_N_CLASSES: Final = 10
_ADDRESSES: Final = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_MD5: Final = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_FILES: Final = tuple(
    RemoteFile(f"fashion-mnist/{name}", tuple(address + name for address in _ADDRESSES), f"md5:{md5}")
    for name, md5 in _MD5.items()
)


def _read(home: Path) -> Dataset:
    with ExitStack() as opened:
        paths = [home / remote.path for remote in _FILES]
        files = [(opened.enter_context(path.open("rb")), path) for path in paths]
        train = read_labelled(files[0], files[1], _N_CLASSES)
        test = read_labelled(files[2], files[3], _N_CLASSES)
    return train_and_test("fashion-mnist", train, test, paths[2])


SOURCE: Final = DatasetSource(
    name="fashion-mnist",
    title="Fashion-MNIST, greyscale images of clothes",
    n_items=70_000,
    n_features=784,
    n_classes=_N_CLASSES,
    task="classification",
    licence="MIT",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    file_sets=(tuple(remote.path for remote in _FILES),),
    downloads=_FILES,
    read=_read,
)
