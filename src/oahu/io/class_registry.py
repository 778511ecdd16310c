"""The classes that a model file may contain.

Built-in classes are stored by name, classes outside oahu as ``module:Class``. A file alone never causes
the import of a module: a class outside oahu must be imported already, be allowed by the caller, or belong to an
installed package that declares it in the entry-point group ``oahu.learners``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from oahu.exceptions import InvalidTypeError, ModelFileError

if TYPE_CHECKING:
    from oahu.io.model_files import Storable

__all__ = ["ENTRY_POINTS", "LEARNER_MODULES", "REGISTRY", "ClassRegistry", "storable"]

#: The group of entry points in which an installed package declares its learners.
ENTRY_POINTS: Final = "oahu.learners"

#: The module of every built-in learner. Modules are imported on demand, because most of them import numba.
LEARNER_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OAHU": "oahu.learners.oahu",
        "AnchoredOAHU": "oahu.learners.anchored",
        "LEGO": "oahu.learners.lego",
        "RDML": "oahu.learners.rdml",
        "OASIS": "oahu.learners.oasis",
        "OPML": "oahu.learners.opml",
        "POLA": "oahu.learners.pola",
        "SOML": "oahu.learners.soml",
        "SORS": "oahu.learners.sors",
        "AdaSORS": "oahu.learners.sors",
        "Euclidean": "oahu.learners.fixed_learners",
        "Cosine": "oahu.learners.fixed_learners",
    }
)

_OTHER_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AnchoredMetric": "oahu.metrics",
        "BilinearMetric": "oahu.metrics",
        "CosineMetric": "oahu.metrics",
        "EnsembleMetric": "oahu.metrics",
        "EuclideanMetric": "oahu.metrics",
        "MahalanobisMetric": "oahu.metrics",
        "Comparator": "oahu.tasks",
        "Retriever": "oahu.tasks",
    }
)

AllowedClass = str | type
S = TypeVar("S", bound="type[Storable]")


class ClassRegistry:
    """The classes that `oahu.load` may create.

    Parameters
    ----------
    built_in : mapping of str to str
        The module of every built-in class.
    """

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._built_in = MappingProxyType(dict(built_in))
        self._registered: dict[str, type[Storable]] = {}

    def register(self, cls: type[Storable]) -> None:
        """Allow files to contain ``cls``. A later class of the same name and module replaces it."""
        self._registered[class_name(cls)] = cls

    def name_of(self, cls: type) -> str:
        """Return the name of a class in a file; `InvalidTypeError` if no file may contain it."""
        name = class_name(cls)
        if self._registered.get(name) is not cls:
            replaced = name in self._registered
            raise InvalidTypeError(
                f"{cls.__name__} cannot be saved: "
                + (
                    f"{name} was defined again after this object was created."
                    if replaced
                    else "the class is not registered. Derive it from a class of oahu, or decorate it with "
                    "oahu.io.class_registry.storable."
                )
            )
        return name

    def find(self, name: str, allow: Collection[AllowedClass] = ()) -> type[Storable]:
        """Return the class of a file; `ModelFileError` if it is unknown or not allowed."""
        if name in self._built_in:
            import_module(self._built_in[name])
        elif name not in self._registered and ":" in name:
            self._import_allowed(name, allow)
        if name not in self._registered:
            raise ModelFileError(self._unknown_class_message(name))
        return self._registered[name]

    def _import_allowed(self, name: str, allow: Collection[AllowedClass]) -> None:
        """Import the module of a class outside oahu if the caller or an installed package names the class."""
        names = {one if isinstance(one, str) else class_name(one) for one in allow}
        declared = {point.value.replace(" ", "") for point in entry_points(group=ENTRY_POINTS)}
        if name in names | declared:
            module = name.partition(":")[0]
            try:
                import_module(module)
            except ImportError as error:
                raise ModelFileError(f"it contains a {name}, but {module} cannot be imported ({error})") from error

    def _unknown_class_message(self, name: str) -> str:
        if ":" in name:
            return (
                f"it contains a {name}, a class outside oahu that is not imported. Loading does not import modules "
                f"that a file names. If you trust the file, import {name.partition(':')[0]} first, or pass "
                f"allow=[{name!r}]"
            )
        return f"it contains the unknown class {name!r}; known classes are {', '.join(sorted(self._built_in))}"


def class_name(cls: type) -> str:
    """Return the name of a class in files: ``Class`` for classes of oahu, ``module:Class`` for others."""
    if cls.__module__.partition(".")[0] == "oahu":
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


#: The registry that `oahu.load` and all ``save`` methods use.
REGISTRY: Final = ClassRegistry({**LEARNER_MODULES, **_OTHER_MODULES})


def storable(cls: S) -> S:
    """Class decorator: allow model files to contain objects of this class."""
    REGISTRY.register(cls)
    return cls
