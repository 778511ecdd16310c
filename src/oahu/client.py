"""A client of the service: `oahu.Client`."""

from __future__ import annotations

import base64
import json
import math
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from oahu.constraints import Pair, Triplet
from oahu.exceptions import InvalidInputError, ServiceRequestError

try:
    import httpx
except ImportError as error:
    raise ImportError("oahu.Client needs httpx: pip install 'oahu[client]'") from error

__all__ = ["Client"]

_AT_ONCE = 1_000  # items sent in a request
_AGAIN = (429, 503)  # what is worth trying again: nothing was accepted
_LONGEST = 30.0  # seconds to wait before that
_QUIET = 60.0  # seconds without a sign of life after which a stream of events is dead


class Client:
    """One collection of a running service, or all of them.

    Parameters
    ----------
    url : str
        Where the service is.
    collection : str, optional
        Which collection the methods are about.
    key : str, optional
        The API key, if the service asks for one.
    retries : int
        How often to try again when the service is busy or cannot be reached. Feedback carries a key of its own, so
        that it counts once however often it is sent.
    timeout : float
        Seconds to wait for an answer.

    Examples
    --------
    ::

        teas = oahu.Client("http://127.0.0.1:8000", "teas").create(dimension=64)
        teas.put(keys, vectors, labels=labels)
        teas.search("sencha", k=5)
        teas.feedback(query="sencha", positive=["gyokuro"], negative=["espresso"])
        teas.search("sencha", k=5)  # another ranking
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        collection: str | None = None,
        key: str | None = None,
        *,
        retries: int = 5,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/v1", headers=headers, timeout=timeout, transport=transport
        )
        self._retries, self._timeout, self.name = retries, timeout, collection

    def collection(self, name: str) -> Client:
        """The same client, for another collection."""
        other = copy(self)
        other.name = name
        return other

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- collections -------------------------------------------------------------------------------------

    def collections(self) -> list[dict[str, Any]]:
        """What there is."""
        found: list[dict[str, Any]] = self._ask("GET", "/collections")["collections"]
        return found

    def create(self, dimension: int, learner: str = "AnchoredOAHU", **more: Any) -> Self:
        """Create the collection; ``more``: its ``parameters``, ``closure``, ``contradictions``, ``vote``."""
        self._ask("POST", "/collections", {"name": self._name, "dimension": dimension, "learner": learner, **more})
        return self

    def describe(self) -> dict[str, Any]:
        """What the collection was created with, has learned, and how fresh its candidates are."""
        found: dict[str, Any] = self._ask("GET", self._path())
        return found

    def delete(self) -> None:
        """Delete the collection and everything in it."""
        self._ask("DELETE", self._path())

    # -- items -------------------------------------------------------------------------------------------

    def put(
        self,
        keys: Sequence[str],
        vectors: ArrayLike,
        labels: Sequence[str | None] | None = None,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        thumbnails: Sequence[bytes | None] | None = None,
    ) -> int:
        """Add items, or replace those that are there, a thousand in a request; how many.

        Parameters
        ----------
        vectors : array-like of shape (n, dimension)
            Sent as float32.
        thumbnails : sequence of bytes, optional
            PNG, JPEG, WebP or GIF files.
        """
        rows = np.ascontiguousarray(vectors, "<f4")
        columns = {"label": labels, "payload": payloads, "thumbnail": thumbnails}
        for name, values in [("vector", rows), *columns.items()]:
            if values is not None and len(values) != len(keys):
                raise InvalidInputError(
                    f"There must be one {name} for each of {len(keys)} keys. Got {len(values)}."
                )

        def item(at: int) -> dict[str, Any]:
            told: dict[str, Any] = {name: values[at] for name, values in columns.items() if values is not None}
            if told.get("thumbnail") is not None:
                told["thumbnail"] = _text(told["thumbnail"])
            return {"key": keys[at], "vector": _text(rows[at].tobytes()), **told}

        for start in range(0, len(keys), _AT_ONCE):
            some = range(start, min(len(keys), start + _AT_ONCE))
            self._ask("PUT", self._path("/items"), {"items": [item(at) for at in some]}, twice=True)
        return len(keys)

    def item(self, key: str, *, vector: bool = False) -> dict[str, Any]:
        """An item: its label and payload, and its features under ``vector`` if they are asked for."""
        asked: dict[str, Any] = {"params": {"vector": "true"}} if vector else {}
        found: dict[str, Any] = self._ask("GET", self._path(f"/items/{_quoted(key)}"), **asked)
        return found

    def thumbnail(self, key: str) -> bytes:
        """The image of an item, as it was put."""
        return self._send("GET", self._path(f"/thumbnails/{_quoted(key)}")).content

    def items(self, label: str | None = None) -> Iterator[dict[str, Any]]:
        """All items, of a label if one is given, in the order in which they were added."""
        return self._pages("/items", "items", {} if label is None else {"label": label})

    def remove(self, keys: Sequence[str]) -> None:
        """Delete items: all of them, or none."""
        self._ask("POST", self._path("/items/delete"), {"keys": list(keys)})

    # -- feedback ----------------------------------------------------------------------------------------

    def feedback(
        self,
        pieces: Iterable[Pair | Triplet | Mapping[str, Any]] | None = None,
        *,
        query: str | None = None,
        positive: Sequence[str] = (),
        negative: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Say what is alike: a click (``query``, ``positive``, ``negative``), or pieces in order, all or none.

        Parameters
        ----------
        pieces : iterable of oahu.Pair, oahu.Triplet, or dicts as the service takes them
        """
        if (pieces is None) == (query is None):
            raise InvalidInputError("feedback takes pieces, or query= with positive= and negative=.")
        said = [_piece(piece) for piece in pieces or ()]
        if query is not None:
            said = [{"query": query, "positive": list(positive), "negative": list(negative)}]
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        found: dict[str, Any] = self._ask(
            "POST", self._path("/feedback"), {"feedback": said}, twice=True, headers=headers
        )
        return found

    def undo(self, seq: int) -> int:
        """Let a piece of feedback not count any more; the sequence number of that."""
        return int(self._ask("DELETE", self._path(f"/feedback/{seq}"))["seq"])

    def log(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Everything that was said, in order."""
        return self._pages("/feedback", "records", {}, after)

    # -- tasks -------------------------------------------------------------------------------------------

    def search(
        self,
        query: str | ArrayLike,
        k: int = 10,
        label: str | None = None,
        *,
        payload: bool = False,
        use_feedback: bool = True,
    ) -> dict[str, Any]:
        """The k items most like one that is there, or like features, best first, under ``matches``.

        If ``use_feedback``, items that are known to be like it come first, and those known to be unlike it last.
        """
        asked = {**_item(query), "k": k, "label": label, "payload": payload, "use_feedback": use_feedback}
        found: dict[str, Any] = self._ask("POST", self._path("/search"), asked, twice=True)
        return found

    def compare(self, first: str | ArrayLike, second: str | ArrayLike) -> dict[str, Any]:
        """Whether two items are alike: ``answer`` is yes, no or unknown."""
        asked = {"first": _item(first), "second": _item(second)}
        found: dict[str, Any] = self._ask("POST", self._path("/compare"), asked, twice=True)
        return found

    def calibrate(self, pairs: Iterable[Pair], **target: Any) -> None:
        """Choose thresholds by labelled pairs: ``target="accuracy"``, or ``target_far=`` and ``target_frr=``."""
        asked = {"pairs": [_piece(pair) for pair in pairs], **target}
        self._ask("POST", self._path("/calibrate"), asked, twice=True)

    def classify(self, query: str | ArrayLike, k: int = 5) -> dict[str, Any]:
        """The ``label`` that the nearest labelled items vote for."""
        asked = {**_item(query), "k": k}
        found: dict[str, Any] = self._ask("POST", self._path("/classify"), asked, twice=True)
        return found

    # -- the metric --------------------------------------------------------------------------------------

    def history(self) -> dict[str, Any]:
        """How the weights moved: ``parts`` and ``moments``."""
        found: dict[str, Any] = self._ask("GET", self._path("/history"))
        return found

    def download(self, path: str | Path) -> Path:
        """Write the model to a file that `oahu.load` reads."""
        Path(path).write_bytes(self._send("GET", self._path("/model")).content)
        return Path(path)

    def upload(self, path: str | Path) -> int:
        """Let a model from a file take over; the sequence number of that."""
        sent = {"content": Path(path).read_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
        return int(self._send("PUT", self._path("/model"), twice=False, **sent).json()["seq"])

    def restore(self, metric_version: int) -> int:
        """Go back to a version of the metric; the sequence number of that."""
        return int(self._ask("POST", self._path("/restore"), {"metric_version": metric_version})["seq"])

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The metric as it is, then what happens: kind and content, as long as the service runs."""
        timeout = httpx.Timeout(self._timeout, read=_QUIET)
        try:
            with self._http.stream("GET", self._path("/events"), timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refused(answer)
                kind = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        yield kind, json.loads(line.removeprefix("data: "))
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        if self.name is None:
            raise InvalidInputError(
                "This client has no collection: Client(url, 'name'), or client.collection('name')."
            )
        return self.name

    def _path(self, more: str = "") -> str:
        return f"/collections/{quote(self._name, safe='')}{more}"

    def _pages(self, path: str, what: str, params: dict[str, Any], after: int = 0) -> Iterator[dict[str, Any]]:
        at: int | None = after
        while at is not None:
            page = self._ask("GET", self._path(path), params={**params, "after": at, "limit": _AT_ONCE})
            yield from page[what]
            at = page["next"]

    def _ask(self, method: str, path: str, body: Any = None, twice: bool = False, **more: Any) -> Any:
        if body is not None:
            more["content"] = _json(body)
            more["headers"] = {"Content-Type": "application/json", **more.get("headers", {})}
        answer = self._send(method, path, twice or method == "GET", **more)
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, twice: bool = True, **sent: Any) -> httpx.Response:
        """Ask, and ask again while the service is busy, or if it was cut off and the same may come ``twice``."""
        for n in range(self._retries + 1):
            last = n == self._retries
            try:
                answer = self._http.request(method, path, **sent)
            except httpx.TransportError as error:
                never_arrived = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if last or not (twice or never_arrived):
                    raise _unreachable(error) from error
                time.sleep(random.uniform(0.5, 1) * min(_LONGEST, 0.2 * 2**n))
                continue
            if last or answer.status_code not in _AGAIN:
                break
            time.sleep(_wait(answer.headers.get("Retry-After", "")))
        if answer.is_error:
            raise _refused(answer)
        return answer


def _wait(retry_after: str) -> float:
    """The seconds that a service asks to wait; a second if it says nothing that is one."""
    try:
        wait = float(retry_after)
    except ValueError:
        return 1.0
    return min(max(wait, 0.0), _LONGEST) if math.isfinite(wait) else 1.0


def _unreachable(error: httpx.TransportError) -> ServiceRequestError:
    return ServiceRequestError(f"The service cannot be reached: {error!r}.", 0, {})


def _refused(answer: httpx.Response) -> ServiceRequestError:
    try:
        told = answer.json()
    except ValueError:
        told = None
    problem = told if isinstance(told, dict) else {}
    message = problem.get("detail") or f"The service answered {answer.status_code}."
    return ServiceRequestError(message, answer.status_code, problem)


def _item(query: str | ArrayLike) -> dict[str, Any]:
    """An item by its key, or by its features."""
    if isinstance(query, str):
        return {"key": query}
    return {"vector": _text(np.ascontiguousarray(query, "<f4").tobytes())}


def _piece(piece: Pair | Triplet | Mapping[str, Any]) -> dict[str, Any]:
    return dict(piece._asdict() if isinstance(piece, Pair | Triplet) else piece)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _quoted(key: str) -> str:
    """A key as the last part of an address; dots alone would mean another address."""
    return quote(key, safe="").replace(".", "%2E")


def _json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"That cannot be sent as JSON: {error}.") from error
