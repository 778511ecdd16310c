"""Python client of the service: `oahu.Client`."""

from __future__ import annotations

import base64
import json
import math
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.constraints import Click, Pair, Triplet
from oahu.constraints.single import check_click
from oahu.exceptions import InvalidInputError, ServiceRequestError, ServiceTimeoutError
from oahu.io.atomic_files import write_atomically
from oahu.io.item_tables import read_item_table

try:
    import httpx
except ImportError as error:
    raise ImportError("oahu.Client requires httpx. Install it with: pip install 'oahu[client]'") from error

__all__ = ["Client"]

_BATCH_SIZE = 1_000  # items or log records per request
_ITEM_FIELDS = (("anchor", "positive", "negative"), ("first", "second"), ("query",))  # of triplets, pairs, clicks
_SEARCHES = 200  # searches per request
_RESULTS = 20_000  # results per request
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5  # seconds between two requests of `Client.wait`
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
        """Return the configuration and the current state of the collection.

        ``items`` in the response is the number of stored items. ``feedback`` is the number of feedback records that
        are not undone. ``pending_feedback`` is the number of log entries that are not learned yet.
        """
        found: dict[str, Any] = self._request("GET", self._path())
        return found

    def update(self, **settings: Any) -> dict[str, Any]:
        """Change settings of the collection. Return its state.

        Parameters
        ----------
        **settings
            New values of ``contradictions``, ``closure``, ``vote`` and ``parameters`` (of the learner). Parameters
            that are left out stay the same. The service learns the log again if necessary, and meanwhile uses the
            old metric.
        """
        found: dict[str, Any] = self._request("PATCH", self._path(), settings, repeatable=True)
        return found

    def wait(self, timeout: float = 60.0) -> dict[str, Any]:
        """Wait until the service has learned all feedback sent so far. Return the state as `describe` does.

        Undos, restores and uploads are waited for as well. Raise `ServiceTimeoutError` after ``timeout`` seconds.
        """
        deadline, pause = monotonic() + timeout, _FIRST_PAUSE
        state = self.describe()
        seq = state["last_seq"]
        while state["metric_version"] < seq:
            if state["learner_error"] is not None:
                raise ServiceRequestError(
                    f"The learner of {self._name!r} has failed ({state['learner_error']}). The feedback is stored. "
                    "Restart the service to continue learning.",
                    0,
                    {},
                )
            if monotonic() >= deadline:
                raise ServiceTimeoutError(
                    f"{self._name!r} has not learned all feedback in {timeout:g} s: the metric has version "
                    f"{state['metric_version']}, and the newest log entry is {seq}. The feedback is stored. Wait "
                    "longer with a larger 'timeout'.",
                    0,
                    {},
                )
            time.sleep(min(pause, max(0.0, deadline - monotonic())))
            pause = min(_LONGEST_PAUSE, 2 * pause)
            state = self.describe()
        return state

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

        The whole item is replaced: without ``labels``, the new items have no labels, and so on. To change single
        fields, use `patch`. Items are sent in batches of 1,000.

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
        columns = {"text": texts, "image": images, "label": labels, "payload": payloads, "thumbnail": thumbnails}
        item = _item_bodies(keys, vectors, columns)
        for start in range(0, len(keys), _BATCH_SIZE):
            batch = range(start, min(len(keys), start + _BATCH_SIZE))
            self._request("PUT", self._path("/items"), {"items": [item(row) for row in batch]}, repeatable=True)
        return len(keys)

    def patch(
        self,
        keys: Sequence[str],
        vectors: ArrayLike | None = None,
        labels: Sequence[str | None] | None = None,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        thumbnails: Sequence[bytes | None] | None = None,
        *,
        texts: Sequence[str] | None = None,
        images: Sequence[bytes] | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Change single fields of items. Arguments that are not given stay as they are. Return the number of items.

        Parameters
        ----------
        keys : sequence of str
            Keys of existing items.
        vectors, labels, thumbnails : optional
            New values, as in `put`. None in place of a label or thumbnail removes it.
        payloads : sequence of mapping or None, optional
            JSON merge patches (RFC 7396): the fields replace the fields with the same names, objects are merged,
            and a value of None removes a field. None in place of a mapping removes the payload.
        texts, images : sequence of str or bytes, optional
            Texts, or contents of image files, instead of vectors. The encoder of the collection converts them.
        idempotency_key : str, optional
            Key of the request. A second call with the same key changes nothing. By default, a random key is used.
        """
        if sum(given is not None for given in (vectors, texts, images)) > 1:
            raise InvalidInputError("Client.patch needs at most one of 'vectors', 'texts' and 'images'.")
        columns = {"text": texts, "image": images, "label": labels, "payload": payloads, "thumbnail": thumbnails}
        if vectors is None and all(values is None for values in columns.values()):
            raise InvalidInputError(
                "Client.patch needs 'vectors', 'texts', 'images', 'labels', 'payloads' or 'thumbnails'."
            )
        item = _item_bodies(keys, vectors, columns)
        request = idempotency_key or uuid.uuid4().hex
        for start in range(0, len(keys), _BATCH_SIZE):
            headers = {"Idempotency-Key": f"{request}-{start}" if start else request}
            body = {"items": [item(row) for row in range(start, min(len(keys), start + _BATCH_SIZE))]}
            self._request("PATCH", self._path("/items"), body, repeatable=True, headers=headers)
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

    def find(
        self,
        text: str | None = None,
        label: str | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field in the HTTP API
    ) -> Iterator[dict[str, Any]]:
        """Yield the items that match all given conditions, in the order in which they were added.

        Parameters
        ----------
        text : str, optional
            Beginnings of words in the key, the label or the payload, such as ``"gyo sup"``.
        label : str, optional
            Label of the items.
        filter : mapping, optional
            Conditions on payload fields, as in `search`.
        """
        position: int | None = 0
        while position is not None:
            body = {"text": text, "label": label, "filter": filter, "after": position, "limit": _BATCH_SIZE}
            page = self._request("POST", self._path("/items/find"), body, repeatable=True)
            yield from page["items"]
            position = page["next"]

    def delete_items(self, keys: Sequence[str]) -> None:
        """Delete items. If one item cannot be deleted, no item is deleted."""
        _check_list(keys, "keys")
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
        text: str | None = None,
        image: bytes | None = None,
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
        text, image : str or bytes, optional
            For a click: a text, or the content of an image file, instead of a query. The encoder converts it.
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
        is_click = constraints is None
        if is_click == all(given is None for given in (query, text, image)):
            raise InvalidInputError(
                "Client.feedback needs either 'constraints', or 'query' (or 'text' or 'image') with 'positive' and "
                "'negative'."
            )
        for name, marked in (
            ("positive", positive),
            ("negative", negative),
            ("shown", shown),
            ("constraints", constraints),
        ):
            _check_list(marked, name)
        given: list[Any] = list(constraints or ())
        if text is not None or image is not None:
            marks = {"positive": list(positive), "negative": list(negative), "shown": list(shown)}
            given = [{"query": _query(query, text, image), **marks}]
        elif is_click:
            given = [Click(query, list(positive), list(negative), list(shown))]
        feedback = [_feedback(one, weight, source) for one in given]
        if impression is not None:
            if not is_click:
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
        query: str | ArrayLike | None = None,
        k: int = 10,
        label: str | None = None,
        *,
        payload: bool = False,
        use_feedback: bool = True,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field in the HTTP API
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
        filter : mapping, optional
            Conditions on payload fields, for example ``{"field": "price", "lt": 20}``. The service guide lists all
            conditions.
        text, image : str or bytes, optional
            A text, or the content of an image file, instead of a query. The encoder converts it to features.
        """
        options = {"k": k, "label": label, "payload": payload, "use_feedback": use_feedback, "filter": filter}
        body = {**_query(query, text, image), **options}
        found: dict[str, Any] = self._request("POST", self._path("/search"), body, repeatable=True)
        return found

    def search_many(
        self,
        queries: Sequence[str | ArrayLike] | None = None,
        k: int = 10,
        label: str | None = None,
        *,
        payload: bool = False,
        use_feedback: bool = True,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field in the HTTP API
        texts: Sequence[str] | None = None,
        images: Sequence[bytes] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the result of `search` for each query. Queries are sent in batches.

        Parameters
        ----------
        queries : sequence of str or array-like, or array-like of shape (n_queries, dimension)
            Keys of items in the collection, or features of any items. Keys and features can be mixed.
        k, label, payload, use_feedback, filter
            As in `search`, for all queries.
        texts, images : sequence of str or bytes, optional
            Texts, or contents of image files, instead of queries. The encoder converts them to features.
        """
        references = _queries(queries, texts, images)
        options = {"k": k, "label": label, "payload": payload, "use_feedback": use_feedback, "filter": filter}
        searches = [{**reference, **options} for reference in references]
        size = max(1, min(_SEARCHES, _RESULTS // max(1, k)))
        found: list[dict[str, Any]] = []
        for start in range(0, len(searches), size):
            body = {"searches": searches[start : start + size]}
            found += self._request("POST", self._path("/search/batch"), body, repeatable=True)["results"]
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
        _check_list(pairs, "pairs")
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

    def download(self, path: str | Path, timeout: float = 600.0) -> Path:
        """Write the learner to a model file, which `oahu.load` can read. Return the path.

        The learner has learned all feedback sent so far. After `restore`, it is the restored learner. Raise
        `ServiceTimeoutError` if learning takes longer than ``timeout`` seconds.
        """
        self.wait(timeout)
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
    try:
        vector = np.asarray(item, "<f4")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"A query must be the key of one item or the features of one item. Got {item!r:.100} instead. For "
            "several queries, use search_many."
        ) from error
    if vector.ndim != 1:
        raise InvalidInputError(
            f"The features of one query must have shape (dimension,). Got shape {vector.shape} instead. For "
            "several queries, use search_many."
        )
    return {"vector": _base64(np.ascontiguousarray(vector).tobytes())}


def _item_bodies(
    keys: Sequence[str], vectors: ArrayLike | None, columns: Mapping[str, Sequence[Any] | None]
) -> Callable[[int], dict[str, Any]]:
    """Return a function that returns the JSON value of one item. Columns that are None are left out."""
    _check_list(keys, "keys")
    rows = None if vectors is None else np.ascontiguousarray(vectors, "<f4")
    for name, values in [("vector", rows), *columns.items()]:
        if values is not None and not isinstance(values, np.ndarray):
            _check_list(values, f"{name}s")
        if values is not None and len(values) != len(keys):
            raise InvalidInputError(
                f"There must be one {name} for each of the {len(keys)} keys. Got {len(values)} instead."
            )

    def body(row: int) -> dict[str, Any]:
        fields: dict[str, Any] = {name: values[row] for name, values in columns.items() if values is not None}
        for name in ("image", "thumbnail"):
            if fields.get(name) is not None:
                fields[name] = _base64(fields[name])
        if rows is not None:
            fields["vector"] = _base64(rows[row].tobytes())
        return {"key": keys[row], **fields}

    return body


def _check_list(values: Any, name: str) -> None:
    """Raise an error if one value was given in place of a list. Python would iterate over its letters or fields."""
    if isinstance(values, str | bytes | Mapping | Pair | Triplet):
        kind = "text" if isinstance(values, str) else type(values).__name__
        raise InvalidInputError(f"{name!r} must be a list. Got one {kind} instead. Write [{values!r:.200}].")


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


def _queries(
    queries: Sequence[str | ArrayLike] | None, texts: Sequence[str] | None, images: Sequence[bytes] | None
) -> list[dict[str, Any]]:
    """Return the fields of several queries: keys or features, texts, or images."""
    given = {"queries": queries, "texts": texts, "images": images}
    for name, values in given.items():
        _check_list(values, name)
    if sum(values is not None for values in given.values()) != 1:
        raise InvalidInputError("Queries are exactly one of 'queries' (keys or features), 'texts' and 'images'.")
    if queries is not None:
        return [_item_reference(query) for query in queries]
    return [{"text": text} for text in texts or ()] + [{"image": _base64(image)} for image in images or ()]


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
