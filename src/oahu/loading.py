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
    """Return the learner, metric or task that ``save`` wrote.

    The file cannot run code. A class outside oahu is created only if it is imported already, if ``allow`` names it,
    or if an installed package declares it in the entry-point group ``oahu.learners``.

    Parameters
    ----------
    path : str or path
    kind : type, optional
        The expected class, or a base class of it. Type checkers and editors then know the type of the result.
    allow : collection of str or type, optional
        Trusted classes outside oahu, as ``"module:Class"``. Their modules may be imported.

    Raises
    ------
    ModelFileError
        The file is truncated, damaged, not an oahu file, newer than this oahu, or contains another class.

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
