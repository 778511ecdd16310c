"""The service: a store, the collections in the store, and the background thread that refreshes the indexes."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from threading import Event, Lock, Thread, get_native_id

from oahu.service.collection import Collection
from oahu.service.collection_copy import build_collection, read_content, reencoded
from oahu.service.encoder_process import EncoderProcess
from oahu.service.errors import ConflictError, InvalidRequestError, NotFoundError, OverloadedError
from oahu.service.learner_factory import new_learner
from oahu.service.records import CollectionConfig
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore

__all__ = ["Service"]

_REFRESH_POLL = 0.1  # seconds between two checks for outdated indexes
_NICENESS = 10  # priority of the background refresh
_MAX_PAUSE = 0.05  # seconds that a refresh waits for running queries of a collection between two blocks
_QUERY_SECONDS = 0.5  # seconds in which running queries of a replaced collection end

log = logging.getLogger("oahu.service")


class Service:
    """All collections of a data folder. A lock prevents other processes from opening the folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.encoder = None if settings.encoder is None else _encoder_process(settings, settings.encoder)
        self.store = SQLiteStore(settings.data, settings.max_write_queue)
        self._collections: dict[str, Collection] = {}
        self._changing, self._refitting, self._stop = Lock(), Lock(), Event()
        self._refresher = Thread(target=self._refresh, name="oahu-refresher", daemon=True)

    def open(self) -> None:
        """Open all collections, and start the background refresh."""
        if self.encoder is not None:
            self.encoder.start()
        if self.store.has_building():
            self.store.commit(lambda transaction: transaction.delete_building()).result()
        for stored in self.store.collections():
            collection = Collection(stored, self.store, self.settings, self.encoder)
            self._collections[stored.config.name] = collection
            collection.open()
            last_seq = collection.feedback_log.last_seq
            log.info("opened collection %r with %d log entries", stored.config.name, last_seq)
        self._refresher.start()

    def close(self) -> None:
        """Finish running work, save snapshots, and unlock the folder."""
        self._stop.set()
        if self._refresher.ident is not None:
            self._refresher.join()
        if self.encoder is not None:
            self.encoder.close()
        for collection in self.collections:
            collection.close()
        self.store.close()

    @property
    def collections(self) -> list[Collection]:
        """All collections."""
        return list(self._collections.values())

    @property
    def is_ready(self) -> bool:
        """Whether all collections are open and no learner has failed."""
        return not self._stop.is_set() and all(collection.is_healthy for collection in self.collections)

    def collection(self, name: str) -> Collection:
        """Return the collection with this name. Raise `NotFoundError` if the collection does not exist."""
        found = self._collections.get(name)
        if found is None:
            raise NotFoundError(f"There is no collection {name!r}.", collection=name)
        return found

    def create(self, config: CollectionConfig) -> Collection:
        """Create a collection."""
        if config.dimension > self.settings.max_dimension:
            raise InvalidRequestError(
                f"Items can have at most {self.settings.max_dimension} features (OAHU_MAX_DIMENSION). Got "
                f"{config.dimension} instead."
            )
        new_learner(config, self.settings.max_model)
        with self._changing:
            if config.name in self._collections:
                raise ConflictError(f"The collection {config.name!r} already exists.")
            if len(self._collections) >= self.settings.max_collections:
                raise InvalidRequestError(
                    f"The service can have at most {self.settings.max_collections} collections "
                    "(OAHU_MAX_COLLECTIONS). Delete a collection first."
                )
            stored = self.store.commit(lambda transaction: transaction.create(config)).result()
            collection = Collection(stored, self.store, self.settings, self.encoder)
            collection.open()
            self._collections[config.name] = collection
        return collection

    def delete(self, name: str) -> None:
        """Delete a collection and everything in it."""
        with self._changing:
            self.collection(name).delete()
            del self._collections[name]

    def refit_encoder(self, name: str) -> int:
        """Fit the encoder of a collection on its texts, and encode these texts again. Return the number of texts.

        The feedback about the items stays, and the learner learns it again with the new vectors. Searches use the
        old vectors and the old metric meanwhile. Changes of the collection are rejected until the end.
        """
        if not self._refitting.acquire(blocking=False):
            raise OverloadedError("The texts of a collection are being encoded again.", retry_after=2)
        try:
            old = self.collection(name)
            old.freeze()
            try:
                content, n_texts = reencoded(read_content(self.store, old.stored), old.encoder)
                new = build_collection(self.store, self.settings, content, self.encoder, replaces=old)
            except BaseException:
                old.freeze(False)
                raise
            new.impressions = old.impressions
            self._collections[name] = new
            self._stop.wait(_QUERY_SECONDS)  # running queries still read the rows of the old collection
            self.store.commit(lambda transaction: transaction.delete(old.id)).result()
            old.discard()
        finally:
            self._refitting.release()
        return n_texts

    def _refresh(self) -> None:
        """Refresh outdated indexes one after the other, with low priority and with pauses between blocks."""
        import numba

        numba.set_num_threads(1)  # applies to this thread only
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICENESS)
        while not self._stop.wait(_REFRESH_POLL):
            for collection in self.collections:
                try:
                    if collection.ready and collection.queries.needs_refresh(self.settings.refresh_every):
                        collection.refresh_index(self._pause)
                except Exception:
                    log.exception("cannot refresh the index of %r", collection.config.name)

    def _pause(self, seconds: float) -> None:
        """Pause after ``seconds`` of work on an index.

        Also wait until no query is running, because queries need the memory bandwidth.
        """
        self._stop.wait(seconds * (1 / self.settings.refresh_share - 1))
        for collection in self.collections:
            collection.queries.active.wait_until_none(_MAX_PAUSE)


def _encoder_process(settings: Settings, address: str) -> EncoderProcess:
    return EncoderProcess(address, settings.encoder_timeout, settings.encoder_batch, settings.max_encoder_queue)
