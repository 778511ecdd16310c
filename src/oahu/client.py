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
from numpy.typing import ArrayLike

from oahu.constraints import Click, Pair, Triplet
from oahu.constraints.single import check_click
from oahu.exceptions import InvalidInputError, ServiceRequestError
from oahu.io.atomic_files import write_atomically

try:
    import httpx
except ImportError as error:
    raise ImportError("oahu.Client requires httpx. Install it with: pip install 'oahu[client]'") from error

__all__ = ["Client"]

_BATCH_SIZE = 1_000  # items or log records per request
_ITEM_FIELDS = (("anchor", "positive", "negative"), ("first", "second"), ("query",))  # of triplets, pairs, clicks
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
            ``vote``, ``interleave`` and ``held_out``.
        """
        body = {"name": self._name, "dimension": dimension, "learner": learner, **options}
        self._request("POST", "/collections", body)
        return self

    def describe(self) -> dict[str, Any]:
        """Return the configuration and the current state of the collection."""
        found: dict[str, Any] = self._request("GET", self._path())
        return found

    def update(self, **settings: Any) -> dict[str, Any]:
        """Change settings of the collection. Return its state.

        Parameters
        ----------
        **settings
            New values of ``contradictions``, ``closure``, ``vote``, ``interleave``, ``held_out`` and ``parameters``
            (of the learner). Parameters that are left out stay the same. The service learns the log again if
            necessary, and meanwhile uses the old metric.
        """
        found: dict[str, Any] = self._request("PATCH", self._path(), settings, repeatable=True)
        return found

    def delete(self) -> None:
        """Delete the collection with its items and feedback."""
        self._request("DELETE", self._path())

    # -- items -------------------------------------------------------------------------------------------

    def put(
        self,
        keys: Sequence[str],
        vectors: ArrayLike,
        labels: Sequence[str | None] | None = None,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        thumbnails: Sequence[bytes | None] | None = None,
    ) -> int:
        """Add items. An item replaces an existing item with the same key. Return the number of items sent.

        Items are sent in batches of 1,000.

        Parameters
        ----------
        keys : sequence of str
            Keys of the items.
        vectors : array-like of shape (n_items, dimension)
            Features of the items. The features are sent as float32.
        labels : sequence of str or None, optional
            Labels of the items.
        payloads : sequence of mapping or None, optional
            JSON objects to store with the items.
        thumbnails : sequence of bytes or None, optional
            Thumbnails of the items: contents of PNG, JPEG, WebP or GIF files.
        """
        rows = np.ascontiguousarray(vectors, "<f4")
        columns = {"label": labels, "payload": payloads, "thumbnail": thumbnails}
        for name, values in [("vector", rows), *columns.items()]:
            if values is not None and len(values) != len(keys):
                raise InvalidInputError(
                    f"There must be one {name} for each of the {len(keys)} keys. Got {len(values)} instead."
                )

        def item(row: int) -> dict[str, Any]:
            fields: dict[str, Any] = {name: values[row] for name, values in columns.items() if values is not None}
            if fields.get("thumbnail") is not None:
                fields["thumbnail"] = _base64(fields["thumbnail"])
            return {"key": keys[row], "vector": _base64(rows[row].tobytes()), **fields}

        for start in range(0, len(keys), _BATCH_SIZE):
            batch = range(start, min(len(keys), start + _BATCH_SIZE))
            self._request("PUT", self._path("/items"), {"items": [item(row) for row in batch]}, repeatable=True)
        return len(keys)

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
        constraints: Iterable[Click | Pair | Triplet | Mapping[str, Any]] | None = None,
        *,
        query: str | ArrayLike | None = None,
        positive: Sequence[str] = (),
        negative: Sequence[str] = (),
        shown: Sequence[str] = (),
        impression: str | None = None,
        weight: float = 1.0,
        source: str | None = None,
        all_or_nothing: bool = False,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Add feedback: either constraints, or one click. Return the response with the sequence numbers.

        A click marks items as similar or dissimilar to a query. The response lists the records that were
        ``refused``, because they contradict earlier feedback.

        Parameters
        ----------
        constraints : iterable of oahu.Click, oahu.Pair, oahu.Triplet or mapping
            Constraints in the order in which they are learned. Items are given by their keys. The query of a click,
            and the items of pairs and triplets, may be feature vectors that are no items. A mapping has the fields
            of the HTTP API. If one constraint is not valid, no constraint is stored.
        query : str or array-like of shape (dimension,), optional
            For a click: key of the query item, or features of a query that is no item.
        positive, negative : sequence of str
            For a click: keys of items that are similar to the query, and of items that are dissimilar.
        shown : sequence of str
            For a click: keys of results that the user saw and did not mark. They are weak evidence.
        impression : str, optional
            For a click: the ``impression`` of the search response, instead of ``shown``.
        weight : float
            Importance of the feedback, in (0, 1]. It is multiplied by the weight of an `oahu.Click`.
        source : str, optional
            The user or session that gave the feedback.
        all_or_nothing : bool
            Whether to store nothing if one record is refused because of a contradiction.
        idempotency_key : str, optional
            Key of the request. A second request with the same key stores nothing. By default, a random key is used.
        """
        if (constraints is None) == (query is None):
            raise InvalidInputError(
                "Client.feedback needs either 'constraints', or 'query' with 'positive' and 'negative'."
            )
        given = list(constraints or ())
        if query is not None:
            given = [Click(query, list(positive), list(negative), list(shown))]
        feedback = [_feedback(one, weight, source) for one in given]
        if impression is not None:
            if query is None:
                raise InvalidInputError(
                    "'impression' belongs to a click: Client.feedback(query=..., impression=...)."
                )
            feedback[0]["impression"] = impression
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        found: dict[str, Any] = self._request(
            "POST",
            self._path("/feedback"),
            {"feedback": feedback, "all_or_nothing": all_or_nothing},
            repeatable=True,
            headers=headers,
        )
        return found

    def undo(self, seq: int) -> int:
        """Undo entry ``seq`` of the feedback log. Return the sequence number of the new log entry."""
        return int(self._request("DELETE", self._path(f"/feedback/{seq}"))["seq"])

    def sources(self) -> Iterator[dict[str, Any]]:
        """Yield the sources of feedback, with the share of their feedback that contradicts other sources."""
        after = ""
        while after is not None:
            page = self._request("GET", self._path("/sources"), params={"after": after, "limit": _BATCH_SIZE})
            yield from page["sources"]
            after = page["next"]

    def weigh_source(self, source: str, weight: float) -> int:
        """Set the weight of all feedback that a source has given so far: 0 undoes it, 1 restores it.

        Return the sequence number of the new log entry.
        """
        path = self._path(f"/sources/{_quote_key(source)}")
        return int(self._request("PUT", path, {"weight": weight}, repeatable=True)["seq"])

    def undo_source(self, source: str) -> int:
        """Undo all feedback that a source has given so far. Return the sequence number of the new log entry."""
        return self.weigh_source(source, 0)

    def feedback_log(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the entries of the feedback log after the sequence number ``after``, oldest entry first."""
        return self._pages("/feedback", "records", {}, after)

    # -- search, compare, classify -----------------------------------------------------------------------

    def search(
        self,
        query: str | ArrayLike,
        k: int = 10,
        label: str | None = None,
        *,
        payload: bool = False,
        use_feedback: bool = True,
        interleave: float | None = None,
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
        interleave : float, optional
            Probability that the results interleave the learned and the unlearned ranking. By default, the setting
            of the collection.
        """
        body = {**_item_reference(query), "k": k, "label": label, "payload": payload, "use_feedback": use_feedback}
        if interleave is not None:
            body["interleave"] = interleave
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

    def classify(self, query: str | ArrayLike, k: int = 5) -> dict[str, Any]:
        """Classify a query by its k nearest labelled items.

        The response contains the majority ``label`` and all ``votes``.
        """
        body = {**_item_reference(query), "k": k}
        found: dict[str, Any] = self._request("POST", self._path("/classify"), body, repeatable=True)
        return found

    # -- metric ------------------------------------------------------------------------------------------

    def history(self) -> dict[str, Any]:
        """Return the history of the metric weights.

        ``spaces`` in the response lists the names of the spaces. ``points`` lists their weights at several times.
        """
        found: dict[str, Any] = self._request("GET", self._path("/history"))
        return found

    def report(self, last: int | None = None) -> dict[str, Any]:
        """Return whether learning improves search, according to the clicks of the users.

        ``all`` in the response contains the ``comparison`` of both rankings, or the number of ``missing`` queries.
        ``guard`` shows whether searches use the learned metric.

        Parameters
        ----------
        last : int, optional
            Number of last searches and clicks for the estimates in ``recent``.
        """
        params = {} if last is None else {"last": last}
        found: dict[str, Any] = self._request("GET", self._path("/report"), params=params)
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


def _feedback(
    given: Click | Pair | Triplet | Mapping[str, Any], weight: float, source: str | None
) -> dict[str, Any]:
    """Return the JSON value of a feedback record."""
    options: dict[str, Any] = {} if source is None else {"source": source}
    if isinstance(given, Click):
        check_click(given, "The click")
        weight *= float(given.weight)
        marks = {"positive": given.positives, "negative": given.negatives, "shown": given.shown}
        fields = {"query": given.query, **{name: list(part) for name, part in marks.items()}}
    else:
        fields = _as_dict(given)
    if weight != 1:
        options["weight"] = weight
    names = next((names for names in _ITEM_FIELDS if names[0] in fields), ())
    return options | fields | {name: _key_or_vector(fields[name]) for name in names if name in fields}


def _key_or_vector(item: Any) -> Any:
    return item if isinstance(item, str | Mapping) else _item_reference(item)


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
