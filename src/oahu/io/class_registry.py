"""Registry of the classes that a model file may contain.

A file contains the names of its classes: ``Class`` for built-in classes, ``module:Class`` for classes outside oahu.
Importing a module runs its code. For a class outside oahu that has not been imported, loading a file therefore
imports the module only in two cases: the caller allows the class, or an installed package declares the class in the
entry-point group ``oahu.learners``. Classes that are already imported are allowed.
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
    """Registry of the classes that `oahu.load` may create.

    Parameters
    ----------
    built_in : mapping of str to str
        Module of each built-in class, by class name.
    """

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._built_in = MappingProxyType(dict(built_in))
        self._registered: dict[str, type[Storable]] = {}

    def register(self, cls: type[Storable]) -> None:
        """Allow model files to contain ``cls``. It replaces an earlier class with the same name and module."""
        self._registered[class_name(cls)] = cls

    def name_of(self, cls: type) -> str:
        """Return the name of a class in model files. Raise `InvalidTypeError` if the class is not registered."""
        name = class_name(cls)
        if self._registered.get(name) is not cls:
            replaced = name in self._registered
            raise InvalidTypeError(
                f"{cls.__name__} cannot be saved: "
                + (
                    f"the class {name} was defined again after this object was created."
                    if replaced
                    else "the class is not registered. Derive it from a class of oahu, or decorate it with "
                    "oahu.io.class_registry.storable."
                )
            )
        return name

    def find(self, name: str, allow: Collection[AllowedClass] = ()) -> type[Storable]:
        """Return the class with this name. Raise `ModelFileError` if the class is unknown or not allowed."""
        if name in self._built_in:
            import_module(self._built_in[name])
        elif name not in self._registered and ":" in name:
            self._import_allowed(name, allow)
        if name not in self._registered:
            raise ModelFileError(self._unknown_class_message(name))
        return self._registered[name]

    def _import_allowed(self, name: str, allow: Collection[AllowedClass]) -> None:
        """Import the module of a class that is not part of oahu.

        The module is imported only if the caller allows the class, or if the entry points of an installed package
        list the class.
        """
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
                f"it contains a {name}. This class is outside oahu and has not been imported. If you trust the "
                f"file, import {name.partition(':')[0]} before loading, or pass "
                f"allow=[{name!r}]"
            )
        return f"it contains the unknown class {name!r}; known classes are {', '.join(sorted(self._built_in))}"


def class_name(cls: type) -> str:
    """Return the name of a class in model files: ``Class`` for a class of oahu, otherwise ``module:Class``."""
    if cls.__module__.partition(".")[0] == "oahu":
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


#: The registry that `oahu.load` and all ``save`` methods use.
REGISTRY: Final = ClassRegistry({**LEARNER_MODULES, **_OTHER_MODULES})


def storable(cls: S) -> S:
    """Allow model files to contain objects of this class. Use this function as a class decorator."""
    REGISTRY.register(cls)
    return cls
