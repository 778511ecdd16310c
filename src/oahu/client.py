"""Python client of the service: `oahu.Client`."""

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
from numpy.typing import ArrayLike, NDArray

from oahu.constraints import Pair, Triplet
from oahu.exceptions import InvalidInputError, ServiceRequestError
from oahu.io.atomic_files import write_atomically
from oahu.io.item_tables import read_item_table

try:
    import httpx
except ImportError as error:
    raise ImportError("oahu.Client requires httpx. Install it with: pip install 'oahu[client]'") from error

__all__ = ["Client"]

_BATCH_SIZE = 1_000  # items or log records per request
_RETRY_STATUSES = (429, 503)  # the service accepted nothing, so any request can be repeated
_MAX_WAIT = 30.0  # seconds before a retry
_EVENT_TIMEOUT = 60.0  # seconds; the service sends a heartbeat every 15


class Client:
    """Client of a running service.

    Parameters
    ----------
    url : str
        Address of the service.
    collection : str, optional
        Name of the collection. Most methods need a collection.
    key : str, optional
        API key. Needed if the service requires a key.
    retries : int
        Number of retries if the service is overloaded or cannot be reached. Each feedback request has an
        idempotency key, so that a retry never stores the feedback twice.
    timeout : float
        Seconds to wait for a response.
    transport : httpx.BaseTransport, optional
        Replacement of httpx's default transport, for example in tests.

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
        """Return a client for another collection. Both clients share one connection."""
        other = copy(self)
        other.name = name
        return other

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- collections -------------------------------------------------------------------------------------

    def collections(self) -> list[dict[str, Any]]:
        """Return the current state of each collection."""
        found: list[dict[str, Any]] = self._request("GET", "/collections")["collections"]
        return found

    def create(self, dimension: int, learner: str = "AnchoredOAHU", **options: Any) -> Self:
        """Create the collection.

        Parameters
        ----------
        dimension : int
            Number of features of an item.
        learner : str
            Name of the learner, one of `oahu.LEARNERS`.
        **options
            Further fields of the HTTP request: ``parameters`` (of the learner), ``closure``, ``contradictions``,
            ``vote`` and ``encoder``.
        """
        body = {"name": self._name, "dimension": dimension, "learner": learner, **options}
        self._request("POST", "/collections", body)
        return self

    def describe(self) -> dict[str, Any]:
        """Return the configuration and the current state of the collection."""
        found: dict[str, Any] = self._request("GET", self._path())
        return found

    def delete(self) -> None:
        """Delete the collection with its items and feedback."""
        self._request("DELETE", self._path())

    # -- items -------------------------------------------------------------------------------------------

    def put(
        self,
        keys: Sequence[str],
        vectors: ArrayLike | None = None,
        labels: Sequence[str | None] | None = None,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        thumbnails: Sequence[bytes | None] | None = None,
        *,
        texts: Sequence[str] | None = None,
        images: Sequence[bytes] | None = None,
    ) -> int:
        """Add items. An item replaces an existing item with the same key. Return the number of items sent.

        Items are sent in batches of 1,000.

        Parameters
        ----------
        keys : sequence of str
            Keys of the items.
        vectors : array-like of shape (n_items, dimension), optional
            Features of the items. The features are sent as float32.
        labels : sequence of str or None, optional
            Labels of the items.
        payloads : sequence of mapping or None, optional
            JSON objects to store with the items.
        thumbnails : sequence of bytes or None, optional
            Thumbnails of the items: contents of PNG, JPEG, WebP or GIF files.
        texts, images : sequence of str or bytes, optional
            Texts, or contents of image files, instead of vectors. The encoder of the collection converts them.
        """
        if sum(given is not None for given in (vectors, texts, images)) != 1:
            raise InvalidInputError("Client.put needs exactly one of 'vectors', 'texts' and 'images'.")
        rows = None if vectors is None else np.ascontiguousarray(vectors, "<f4")
        columns: dict[str, Any] = {
            "vector": rows,
            "text": texts,
            "image": images,
            "label": labels,
            "payload": payloads,
            "thumbnail": thumbnails,
        }
        for name, values in columns.items():
            if values is not None and len(values) != len(keys):
                raise InvalidInputError(
                    f"There must be one {name} for each of the {len(keys)} keys. Got {len(values)} instead."
                )

        def item(row: int) -> dict[str, Any]:
            fields: dict[str, Any] = {name: values[row] for name, values in columns.items() if values is not None}
            for name in ("image", "thumbnail"):
                if fields.get(name) is not None:
                    fields[name] = _base64(fields[name])
            if rows is not None:
                fields["vector"] = _base64(rows[row].tobytes())
            return {"key": keys[row], **fields}

        for start in range(0, len(keys), _BATCH_SIZE):
            batch = range(start, min(len(keys), start + _BATCH_SIZE))
            self._request("PUT", self._path("/items"), {"items": [item(row) for row in batch]}, repeatable=True)
        return len(keys)

    def put_file(
        self,
        path: str | Path,
        *,
        key: str,
        vector: str | None = None,
        text: str | None = None,
        label: str | None = None,
        payload: Sequence[str] = (),
        create: bool = False,
    ) -> int:
        """Add the items of a .csv, .tsv or .parquet file. Return the number of items.

        The whole file is read and checked before the first item is sent.

        Parameters
        ----------
        path : path
            The file.
        key : str
            Column of the keys.
        vector : str, optional
            Column of vectors, or a pattern of number columns such as ``emb_*``.
        text : str, optional
            Column of texts for the encoder of the collection, instead of vectors.
        label : str, optional
            Column of labels.
        payload : sequence of str
            Columns of the payload. Patterns are possible.
        create : bool
            Whether to create the collection if it does not exist. This needs vectors.
        """
        table = read_item_table(path, key=key, vector=vector, text=text, label=label, payload=payload)
        if create and all(other["name"] != self._name for other in self.collections()):
            if table.vectors is None:
                raise InvalidInputError(
                    "The dimension of a new collection for texts is not known. Create the collection first."
                )
            self.create(table.vectors.shape[1])
        payloads = table.payloads if payload else None
        return self.put(table.keys, table.vectors, table.labels, payloads, texts=table.texts)

    def item(self, key: str, *, vector: bool = False) -> dict[str, Any]:
        """Return an item with its label and payload, and with its features if ``vector`` is true."""
        options: dict[str, Any] = {"params": {"vector": "true"}} if vector else {}
        found: dict[str, Any] = self._request("GET", self._path(f"/items/{_quote_key(key)}"), **options)
        return found

    def thumbnail(self, key: str) -> bytes:
        """Return the thumbnail of an item: the content of an image file."""
        return self._send("GET", self._path(f"/thumbnails/{_quote_key(key)}")).content

    def items(self, label: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all items, or only the items with this label, in the order in which they were added."""
        return self._pages("/items", "items", {} if label is None else {"label": label})

    def delete_items(self, keys: Sequence[str]) -> None:
        """Delete items. If one item cannot be deleted, no item is deleted."""
        self._request("POST", self._path("/items/delete"), {"keys": list(keys)})

    # -- feedback ----------------------------------------------------------------------------------------

    def feedback(
        self,
        constraints: Iterable[Pair | Triplet | Mapping[str, Any]] | None = None,
        *,
        query: str | None = None,
        positive: Sequence[str] = (),
        negative: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Add feedback: either constraints, or one click. Return the response with the sequence numbers.

        A click marks items as similar or dissimilar to a query.

        Parameters
        ----------
        constraints : iterable of oahu.Pair, oahu.Triplet or mapping
            Constraints in the order in which they are learned. Items are given by their keys. A mapping has the
            fields of the HTTP API. If one constraint is rejected, all constraints are rejected.
        query : str, optional
            For a click: key of the query item.
        positive, negative : sequence of str
            For a click: keys of items that are similar to the query, and of items that are dissimilar.
        idempotency_key : str, optional
            Key of the request. A second request with the same key stores nothing. By default, a random key is used.
        """
        if (constraints is None) == (query is None):
            raise InvalidInputError(
                "Client.feedback needs either 'constraints', or 'query' with 'positive' and 'negative'."
            )
        feedback = [_as_dict(constraint) for constraint in constraints or ()]
        if query is not None:
            feedback = [{"query": query, "positive": list(positive), "negative": list(negative)}]
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        found: dict[str, Any] = self._request(
            "POST", self._path("/feedback"), {"feedback": feedback}, repeatable=True, headers=headers
        )
        return found

    def undo(self, seq: int) -> int:
        """Undo entry ``seq`` of the feedback log. Return the sequence number of the new log entry."""
        return int(self._request("DELETE", self._path(f"/feedback/{seq}"))["seq"])

    def feedback_log(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the entries of the feedback log after the sequence number ``after``, oldest entry first."""
        return self._pages("/feedback", "records", {}, after)

    # -- search, compare, classify -----------------------------------------------------------------------

    def search(
        self,
        query: str | ArrayLike | None = None,
        k: int = 10,
        label: str | None = None,
        *,
        payload: bool = False,
        use_feedback: bool = True,
        text: str | None = None,
        image: bytes | None = None,
    ) -> dict[str, Any]:
        """Return the items that are most similar to a query. The response lists them as ``matches``, best first.

        Parameters
        ----------
        query : str or array-like of shape (dimension,)
            Key of an item in the collection, or features of any item.
        k : int
            Number of results.
        label : str, optional
            Label of the items to search. By default, all items are searched.
        payload : bool
            Whether to return the payloads of the items.
        use_feedback : bool
            Whether to apply stored feedback on the query. If true, items that feedback marks as similar are ranked
            first, and items that feedback marks as dissimilar are ranked last.
        text, image : str or bytes, optional
            A text, or the content of an image file, instead of a query. The encoder converts it to features.
        """
        body = {
            **_query(query, text, image),
            "k": k,
            "label": label,
            "payload": payload,
            "use_feedback": use_feedback,
        }
        found: dict[str, Any] = self._request("POST", self._path("/search"), body, repeatable=True)
        return found

    def compare(self, first: str | ArrayLike, second: str | ArrayLike) -> dict[str, Any]:
        """Return whether two items are similar. ``answer`` in the response is "yes", "no" or "unknown"."""
        body = {"first": _item_reference(first), "second": _item_reference(second)}
        found: dict[str, Any] = self._request("POST", self._path("/compare"), body, repeatable=True)
        return found

    def calibrate(self, pairs: Iterable[Pair], **target: Any) -> dict[str, Any]:
        """Store labelled pairs. The service uses these pairs to choose the thresholds of `compare`.

        The response contains ``warnings``, for example a warning about too few pairs.

        Parameters
        ----------
        pairs : iterable of oahu.Pair
            Labelled pairs. Items are given by their keys.
        **target
            Calibration target: either ``target`` ("accuracy", "f1" or "eer"), or ``target_far`` and optionally
            ``target_frr``.
        """
        body = {"pairs": [_as_dict(pair) for pair in pairs], **target}
        response: dict[str, Any] = self._request("POST", self._path("/calibrate"), body, repeatable=True)
        return response

    def classify(
        self,
        query: str | ArrayLike | None = None,
        k: int = 5,
        *,
        text: str | None = None,
        image: bytes | None = None,
    ) -> dict[str, Any]:
        """Classify a query by its k nearest labelled items.

        The response contains the majority ``label`` and all ``votes``.
        """
        body = {**_query(query, text, image), "k": k}
        found: dict[str, Any] = self._request("POST", self._path("/classify"), body, repeatable=True)
        return found

    # -- encoder -----------------------------------------------------------------------------------------

    def encode(self, texts: Sequence[str] | None = None, *, images: Sequence[bytes] | None = None) -> NDArray[Any]:
        """Return the vectors of texts or images, of shape (n, dimension). Nothing is stored."""
        if (texts is None) == (images is None):
            raise InvalidInputError("Client.encode needs exactly one of 'texts' and 'images'.")
        body = {"texts": list(texts)} if texts is not None else {"images": [_base64(one) for one in images or ()]}
        vectors = self._request("POST", self._path("/encode"), body, repeatable=True)["vectors"]
        return np.stack([np.frombuffer(base64.b64decode(vector), "<f4") for vector in vectors])

    def refit_encoder(self) -> int:
        """Fit the encoder on all texts of the collection and encode them again. Return the number of texts.

        Feedback about the items stays. A large collection needs a client with a large ``timeout``.
        """
        return int(self._request("POST", self._path("/encoder/refit"))["texts"])

    # -- metric ------------------------------------------------------------------------------------------

    def history(self) -> dict[str, Any]:
        """Return the history of the metric weights.

        ``spaces`` in the response lists the names of the spaces. ``points`` lists their weights at several times.
        """
        found: dict[str, Any] = self._request("GET", self._path("/history"))
        return found

    def download(self, path: str | Path) -> Path:
        """Write the learner to a model file, which `oahu.load` can read. Return the path."""
        write_atomically(path, self._send("GET", self._path("/model")).content)
        return Path(path)

    def upload(self, path: str | Path) -> int:
        """Replace the learner with the learner in a model file. Return the sequence number of the new log entry."""
        body = {"content": Path(path).read_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
        return int(self._send("PUT", self._path("/model"), repeatable=False, **body).json()["seq"])

    def restore(self, metric_version: int) -> int:
        """Restore an earlier version of the metric. All later entries of the feedback log are undone.

        Return the sequence number of the new log entry.
        """
        return int(self._request("POST", self._path("/restore"), {"metric_version": metric_version})["seq"])

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of the collection as (kind, content).

        The first event contains the current metric. Each change of the collection gives a further event.
        """
        timeout = httpx.Timeout(self._timeout, read=_EVENT_TIMEOUT)
        try:
            with self._http.stream("GET", self._path("/events"), timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise _request_error(response)
                kind = ""
                for line in response.iter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        yield kind, json.loads(line.removeprefix("data: "))
        except httpx.TransportError as error:
            raise _connection_error(error) from error

    # -- requests ----------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        if self.name is None:
            raise InvalidInputError(
                "This client has no collection. Use Client(url, 'name') or client.collection('name')."
            )
        return self.name

    def _path(self, suffix: str = "") -> str:
        return f"/collections/{quote(self._name, safe='')}{suffix}"

    def _pages(self, path: str, field: str, params: dict[str, Any], after: int = 0) -> Iterator[dict[str, Any]]:
        position: int | None = after
        while position is not None:
            page = self._request(
                "GET", self._path(path), params={**params, "after": position, "limit": _BATCH_SIZE}
            )
            yield from page[field]
            position = page["next"]

    def _request(self, method: str, path: str, body: Any = None, repeatable: bool = False, **options: Any) -> Any:
        """Send a request with a JSON body. Return the JSON response, or None if the response is empty."""
        if body is not None:
            options["content"] = _json(body)
            options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
        response = self._send(method, path, repeatable or method == "GET", **options)
        return response.json() if response.content else None

    def _send(self, method: str, path: str, repeatable: bool = True, **options: Any) -> httpx.Response:
        """Send a request. Retry if the service is overloaded or cannot be reached.

        If the connection breaks, the service may already have handled the request. In this case, only
        ``repeatable`` requests are sent again.
        """
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            try:
                response = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                never_arrived = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if is_last or not (repeatable or never_arrived):
                    raise _connection_error(error) from error
                time.sleep(random.uniform(0.5, 1) * min(_MAX_WAIT, 0.2 * 2**attempt))
                continue
            if is_last or response.status_code not in _RETRY_STATUSES:
                break
            time.sleep(_wait_seconds(response.headers.get("Retry-After", "")))
        if response.is_error:
            raise _request_error(response)
        return response


def _wait_seconds(retry_after: str) -> float:
    """Return the seconds in a ``Retry-After`` header, at most 30. Return 1 if the header is not a valid number."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return 1.0
    return min(max(seconds, 0.0), _MAX_WAIT) if math.isfinite(seconds) else 1.0


def _connection_error(error: httpx.TransportError) -> ServiceRequestError:
    return ServiceRequestError(f"The service cannot be reached: {error!r}.", 0, {})


def _request_error(response: httpx.Response) -> ServiceRequestError:
    try:
        body = response.json()
    except ValueError:
        body = None
    problem = body if isinstance(body, dict) else {}
    message = problem.get("detail") or f"The service responded with status {response.status_code}."
    return ServiceRequestError(message, response.status_code, problem)


def _item_reference(item: str | ArrayLike) -> dict[str, Any]:
    """Return the JSON value for an item that is given by its key or by its features."""
    if isinstance(item, str):
        return {"key": item}
    return {"vector": _base64(np.ascontiguousarray(item, "<f4").tobytes())}


def _query(query: str | ArrayLike | None, text: str | None, image: bytes | None) -> dict[str, Any]:
    """Return the fields of a query: a key, features, a text or an image."""
    if sum(given is not None for given in (query, text, image)) != 1:
        raise InvalidInputError("A query is exactly one of a key or features ('query'), 'text' and 'image'.")
    if query is not None:
        return _item_reference(query)
    return {"text": text} if text is not None else {"image": _base64(image or b"")}


def _as_dict(constraint: Pair | Triplet | Mapping[str, Any]) -> dict[str, Any]:
    return dict(constraint._asdict() if isinstance(constraint, Pair | Triplet) else constraint)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _quote_key(key: str) -> str:
    """Return a key as a segment of a URL path. Dots are escaped, because "." and ".." would change the path."""
    return quote(key, safe="").replace(".", "%2E")


def _json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The request cannot be encoded as JSON: {error}.") from error
