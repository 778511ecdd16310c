"""The encoder of a collection: the built-in encoder `lsa`, or the encoder function of the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.service.encoder_process import EncoderInput, EncoderProcess, InputKind
from oahu.service.errors import ConflictError, InvalidRequestError
from oahu.service.lsa_encoder import LsaEncoder
from oahu.service.records import CollectionConfig

__all__ = ["CollectionEncoder", "StoreEncoder"]

Vectors = NDArray[np.float32]

#: A function that stores a fitted encoder and returns when it is on disk.
StoreEncoder = Callable[[bytes], None]


class CollectionEncoder:
    """Encodes texts and images as vectors for one collection.

    Parameters
    ----------
    config : CollectionConfig
    process : EncoderProcess or None
        The encoder function of the service. None if the service has no such function.
    stored : bytes or None
        The fitted encoder `lsa` of the collection.
    store : callable
        Stores the encoder `lsa` when it is fitted for the first time.
    """

    def __init__(
        self, config: CollectionConfig, process: EncoderProcess | None, stored: bytes | None, store: StoreEncoder
    ) -> None:
        self._config, self._process, self._store = config, process, store
        self._lsa = None if stored is None else LsaEncoder.from_bytes(stored)
        self._executor: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str | None:
        """The name of the encoder: ``lsa``, the address of a function, or None if there is no encoder."""
        return self._config.encoder or (self._process.address if self._process else None)

    @property
    def is_fitted(self) -> bool:
        """Whether the encoder can encode queries."""
        return self._lsa is not None if self._config.encoder == "lsa" else self._process is not None

    def submit(self, kind: InputKind, inputs: Sequence[EncoderInput], fit: bool = False) -> Future[Vectors]:
        """Return a future of the vectors, an array of shape (n_inputs, dimension).

        With ``fit``, an encoder `lsa` that is not fitted yet is fitted on these texts first.
        """
        if self._config.encoder == "lsa":
            if kind == "image":
                raise InvalidRequestError("The encoder 'lsa' encodes only texts. Send the vectors of images.")
            if self._executor is None:  # one thread, so that only the first request fits the encoder
                self._executor = ThreadPoolExecutor(1, "oahu-lsa")
            return self._executor.submit(self._encode_with_lsa, [str(text) for text in inputs], fit)
        if self._process is None:
            raise InvalidRequestError(
                f"The collection {self._config.name!r} has no encoder for a {kind}. Send vectors, create the "
                "collection with the encoder 'lsa' for texts, or start the service with --encoder."
            )
        return self._process.submit(kind, inputs)

    def fit(self, texts: Sequence[str]) -> LsaEncoder | None:
        """Return an encoder that is fitted on texts. Return None if the encoder needs no fit."""
        return LsaEncoder.fit(texts, self._config.dimension) if self._config.encoder == "lsa" else None

    def close(self) -> None:
        """Stop the thread of the encoder."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _encode_with_lsa(self, texts: list[str], fit: bool) -> Vectors:
        if self._lsa is None:
            if not fit:
                raise ConflictError(
                    f"The encoder 'lsa' of {self._config.name!r} is fitted on the first texts of items. Add items "
                    "with texts first."
                )
            fitted = LsaEncoder.fit(texts, self._config.dimension)
            self._store(fitted.to_bytes())
            self._lsa = fitted
        return self._lsa.encode(texts)

    def check(self, vectors: NDArray[Any]) -> None:
        """Raise `InvalidRequestError` if vectors do not have the dimension of the collection."""
        if vectors.shape[1] != self._config.dimension:
            raise InvalidRequestError(
                f"The encoder {self.name} returns vectors with {vectors.shape[1]} features, but "
                f"{self._config.name!r} has {self._config.dimension}. Create a collection with dimension "
                f"{vectors.shape[1]}."
            )
