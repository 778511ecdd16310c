"""Load a saved learner, metric or task."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oahu.exceptions import ModelFileError
from oahu.io import model_files

if TYPE_CHECKING:
    from oahu.learners.base import Learner
    from oahu.metrics import Metric
    from oahu.tasks import Comparator, Retriever

__all__ = ["load"]

T = TypeVar("T")


@overload
def load(
    path: str | os.PathLike[str], *, allow: Collection[str | type] = ()
) -> Learner[Any] | Metric | Comparator | Retriever: ...


@overload
def load(path: str | os.PathLike[str], kind: type[T], *, allow: Collection[str | type] = ()) -> T: ...


def load(path: str | os.PathLike[str], kind: type[Any] = object, *, allow: Collection[str | type] = ()) -> Any:
    """Return the learner, metric or task from a file that its ``save`` method wrote.

    Loading a file does not run code from the file. Classes outside oahu are accepted in three cases: the class is
    imported already, ``allow`` contains the class, or an installed package declares the class in the entry-point
    group ``oahu.learners``.

    Parameters
    ----------
    path : str or path
    kind : type, optional
        The expected class, or a base class of the expected class. Type checkers and editors use ``kind`` as the
        type of the result.
    allow : collection of str or type, optional
        Trusted classes outside oahu, given as classes or as ``"module:Class"``. `load` may import the modules of
        these classes.

    Raises
    ------
    ModelFileError
        The file is truncated, damaged or not an oahu file, was written by a newer version of oahu, or contains an
        object of another class.

    Examples
    --------
    >>> import oahu
    >>> from tempfile import mkdtemp
    >>> path = mkdtemp() + "/model"
    >>> oahu.LEGO().initialize(3).save(path)
    >>> oahu.load(path, oahu.LEGO).n_seen_
    0
    """
    model = model_files.read(path, allow)
    if not isinstance(model, kind):
        raise ModelFileError(
            f"Cannot load {os.fspath(path)!r}: it contains a {type(model).__name__}, not a {kind.__name__}."
        )
    return model
