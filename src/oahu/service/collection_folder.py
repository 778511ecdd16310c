"""Export and import of a whole collection as a folder of JSON Lines and image files.

A folder contains:

- ``collection.json``: the settings, the calibration, and the numbers of lines of the other files
- ``items.jsonl``: one item per line, with its features. Deleted items that feedback refers to are included.
- ``feedback.jsonl``: one entry of the feedback log per line. Items are given by their numbers in ``items.jsonl``.
- ``thumbnails/``: the thumbnails as image files
- ``models/``: the model files of model replacements
- ``encoder.safetensors``: the fitted encoder, if the collection has one
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from oahu.exceptions import InvalidInputError, OAHUError
from oahu.service.api.schemas.common_schemas import CollectionName, ItemKey, Label, RequestModel, Source
from oahu.service.collection_copy import CollectionContent, build_collection, read_content
from oahu.service.images import image_type
from oahu.service.learner_factory import new_learner
from oahu.service.lsa_encoder import LsaEncoder
from oahu.service.records import Calibration, CollectionConfig, NewItem, change_from_json
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore
from oahu.service.store.interface import StoredEntry, StoredItem
from oahu.service.store.sqlite import LOG_TABLES, reading
from oahu.version import __version__

__all__ = ["export_collection", "import_collection"]

_FORMAT: Final = 1
_NAME: Final = TypeAdapter(CollectionName)
_REFUSALS: Final = TypeAdapter(dict[Source, Annotated[int, Field(strict=True, ge=1)]])
_KEY: Final = TypeAdapter(ItemKey)
_THUMBNAIL: Final = re.compile(r"thumbnails/[0-9]+\.(png|jpeg|webp|gif)\Z")
_MODEL: Final = re.compile(r"models/[0-9]+\.oahu\Z")


class _ItemLine(RequestModel):
    """One line of ``items.jsonl``."""

    number: int
    key: str
    vector: list[float]
    label: Label | None = None
    payload: dict[str, JsonValue] | None = None
    text: str | None = None
    thumbnail: str | None = None
    deleted: bool = False


class _EntryLine(BaseModel):
    """One line of ``feedback.jsonl``. Further fields are columns of the log and rows of the tables of the log."""

    model_config = ConfigDict(strict=True, extra="allow")

    seq: int
    time: float
    change: list[JsonValue]
    weight: float = Field(1.0, gt=0, le=1)
    source: Source | None = None
    examples: str | None = None
    model: str | None = None


# -- export ------------------------------------------------------------------------------------------------


def export_collection(data: Path, name: str, out: Path) -> tuple[int, int]:
    """Write a collection to a new folder. The service may be running.

    Return the number of items and the number of log entries.
    """
    if out.exists():
        raise InvalidInputError(f"{out} already exists. Choose another name.")
    temporary = out.with_name(f".{out.name}-{secrets.token_hex(4)}.tmp")
    try:
        with reading(data) as reader:
            stored = next((one for one in reader.collections() if one.config.name == name), None)
            if stored is None:
                names = ", ".join(one.config.name for one in reader.collections()) or "none"
                raise InvalidInputError(f"There is no collection {name!r} in {data}. The collections are: {names}.")
            temporary.mkdir()
            counts = _write(read_content(reader, stored), temporary)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return counts


def _write(content: CollectionContent, folder: Path) -> tuple[int, int]:
    dtype = np.dtype(content.config.parameters.get("dtype", "float32"))
    (folder / "thumbnails").mkdir()
    (folder / "models").mkdir()
    n_lines, n_items = _write_lines(
        folder / "items.jsonl", (_item_line(one, dtype, folder) for one in content.items)
    )
    n_entries, _ = _write_lines(folder / "feedback.jsonl", (_entry_line(one, folder) for one in content.log))
    if content.encoder is not None:
        (folder / "encoder.safetensors").write_bytes(content.encoder)
    head = {
        "format": _FORMAT,
        "oahu": __version__,
        "created": content.created,
        "config": asdict(content.config),
        "calibration": None if content.calibration is None else asdict(content.calibration),
        "refusals": content.refusals,
        "lines": {"items.jsonl": n_lines, "feedback.jsonl": n_entries},
    }
    (folder / "collection.json").write_bytes(orjson.dumps(head, option=orjson.OPT_INDENT_2))
    return n_items, n_entries


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Write one JSON object per line. Return the number of lines, and of those that are not deleted items."""
    n_lines = n_current = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
            n_lines += 1
            n_current += "deleted" not in line
    return n_lines, n_current


def _item_line(stored: StoredItem, dtype: np.dtype[Any], folder: Path) -> dict[str, Any]:
    number, item, is_current = stored
    line: dict[str, Any] = {"number": number, "key": item.key}
    for field in ("label", "payload", "text"):
        if (value := getattr(item, field)) is not None:
            line[field] = value
    if item.thumbnail is not None and (kind := image_type(item.thumbnail)):
        line["thumbnail"] = f"thumbnails/{number}.{kind.removeprefix('image/')}"
        (folder / line["thumbnail"]).write_bytes(item.thumbnail)
    if not is_current:
        line["deleted"] = True
    return {**line, "vector": np.frombuffer(item.vector, dtype)}


def _entry_line(entry: StoredEntry, folder: Path) -> dict[str, Any]:
    line: dict[str, Any] = {"seq": entry.seq, **entry.columns, **entry.rows}
    if entry.examples is not None:
        line["examples"] = base64.b64encode(entry.examples).decode()
    if entry.model is not None:
        line["model"] = f"models/{entry.seq}.oahu"
        (folder / line["model"]).write_bytes(entry.model)
    return line


# -- import ------------------------------------------------------------------------------------------------


def import_collection(folder: Path, data: Path, name: str | None = None) -> tuple[str, int, int]:
    """Create a collection from a folder. The learner learns the feedback again. The service must not be running.

    If the folder is damaged, nothing is stored. Return the name of the collection, and the numbers of its items and
    of its log entries.

    Parameters
    ----------
    folder : Path
        A folder that `export_collection` wrote.
    data : Path
        The data folder of the service.
    name : str or None
        The name of the new collection. By default, the name of the exported collection.
    """
    given: dict[str, Any] = {"data": data}  # the other settings come from the environment
    settings = Settings(**given)
    content = _read(folder, settings, name)
    store = SQLiteStore(settings.data)
    try:
        store.commit(lambda transaction: transaction.delete_building()).result()
        collection = build_collection(store, settings, content)
        collection.close()
    except OAHUError:
        raise
    except Exception as error:
        raise InvalidInputError(f"The files in {folder} do not fit together: {error!r}.") from error
    finally:
        store.close()
    return content.config.name, collection.queries.index.n_items, collection.feedback_log.last_seq


def _read(folder: Path, settings: Settings, name: str | None) -> CollectionContent:
    path = folder / "collection.json"
    try:
        head = json.loads(path.read_bytes())
        if head["format"] != _FORMAT:
            raise InvalidInputError(f"{path} has format {head['format']}. This version of oahu reads {_FORMAT}.")
        config = CollectionConfig(**head["config"])
        config = replace(config, name=_NAME.validate_python(name or config.name))
        calibration = _calibration(head["calibration"])
        refusals = _REFUSALS.validate_python(head["refusals"])
        created, lines = float(head["created"]), head["lines"]
        n_items, n_entries = int(lines["items.jsonl"]), int(lines["feedback.jsonl"])
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"{path} is not the head of an exported collection ({error!r}).") from error
    new_learner(config, settings.max_model)
    dtype = np.dtype(config.parameters.get("dtype", "float32"))
    return CollectionContent(
        config,
        created if name is None else time.time(),
        _lines(folder / "items.jsonl", n_items, lambda line: _stored_item(line, config.dimension, dtype, folder)),
        _checked_log(
            _lines(folder / "feedback.jsonl", n_entries, lambda line: _stored_entry(line, folder)), folder
        ),
        calibration,
        _encoder(folder / "encoder.safetensors"),
        refusals,
    )


def _calibration(stored: dict[str, Any] | None) -> Calibration | None:
    if stored is None:
        return None
    return Calibration(tuple((a, b, same) for a, b, same in stored["pairs"]), stored["target"], stored["seq"])


def _encoder(path: Path) -> bytes | None:
    if not path.exists():
        return None
    data = path.read_bytes()
    try:
        LsaEncoder.from_bytes(data)
    except ValueError as error:
        raise InvalidInputError(f"{path} is damaged: {error}.") from error
    return data


def _lines(path: Path, count: int, parse: Callable[[bytes], Any]) -> Iterator[Any]:
    """Yield the parsed lines of a file. Errors contain the number of the line."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield parse(line)
            except (ValidationError, ValueError, TypeError, OSError) as error:
                reason = error.errors()[0] if isinstance(error, ValidationError) else None
                message = f"{'/'.join(map(str, reason['loc']))}: {reason['msg']}" if reason else str(error)
                raise InvalidInputError(f"{path}, line {number}: {message}") from error
    if number != count:
        raise InvalidInputError(f"{path} must have {count} lines. Got {number} instead. The file is incomplete.")


def _stored_item(line: bytes, dimension: int, dtype: np.dtype[Any], folder: Path) -> StoredItem:
    one = _ItemLine.model_validate(orjson.loads(line))
    with np.errstate(over="ignore"):  # infinity is rejected in the next line
        vector = np.array(one.vector, dtype)
    if vector.shape != (dimension,) or not np.isfinite(vector).all():
        raise ValueError(f"the vector must have {dimension} finite numbers. Got {vector.size} numbers instead.")
    thumbnail = None
    if one.thumbnail is not None:
        thumbnail = _file(folder, one.thumbnail, _THUMBNAIL)
        if image_type(thumbnail) is None:
            raise ValueError(f"{one.thumbnail} must be a PNG, JPEG, WebP or GIF image.")
    if not one.deleted:
        _KEY.validate_python(one.key)
    item = NewItem(one.key, vector.tobytes(), one.label, one.payload, thumbnail, one.text)
    return StoredItem(one.number, item, not one.deleted)


def _stored_entry(line: bytes, folder: Path) -> StoredEntry:
    one = _EntryLine.model_validate(orjson.loads(line))
    more = one.model_extra or {}
    rows = {table: more[table] for table in LOG_TABLES if table in more}
    columns = {name: value for name, value in more.items() if name not in rows}
    known = {"time": one.time, "change": one.change, "weight": one.weight, "source": one.source}
    with suppress(LookupError):
        change_from_json(list(one.change))
        model = None if one.model is None else _file(folder, one.model, _MODEL)
        examples = None if one.examples is None else base64.b64decode(one.examples, validate=True)
        return StoredEntry(one.seq, known | columns, rows, examples, model)
    raise ValueError(f"unknown kind of log entry {one.change[:1]}")


def _checked_log(entries: Iterator[StoredEntry], folder: Path) -> Iterator[StoredEntry]:
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            raise InvalidInputError(
                f"{folder / 'feedback.jsonl'}, line {expected}: seq must be {expected}. Got {entry.seq} instead."
            )
        yield entry


def _file(folder: Path, name: str, pattern: re.Pattern[str]) -> bytes:
    """Return the content of a file in the folder. Names that point outside the folder are rejected."""
    if not pattern.match(name):
        raise ValueError(f"{name!r} is not a valid file name.")
    return (folder / name).read_bytes()
