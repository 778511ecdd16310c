"""The service: a store, its collections, and what happens in the background."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from threading import Event, Lock, Thread, get_native_id

from oahu.service.collection import Collection
from oahu.service.errors import ConflictError, InvalidRequestError, NotFoundError
from oahu.service.learner_loop import new_learner
from oahu.service.records import CollectionConfig
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore

__all__ = ["Service"]

_LOOK = 0.1  # seconds between looks at what is to be refreshed
_NICE = 10
_PATIENCE = 0.05  # seconds that a refresh waits for answers, again and again

log = logging.getLogger("oahu.service")


class Service:
    """All collections of a folder. Opening it takes the folder: another process is refused."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = SQLiteStore(settings.data, settings.max_waiting)
        self._collections: dict[str, Collection] = {}
        self._changing, self._stop = Lock(), Event()
        self._refresher = Thread(target=self._refresh, name="oahu-refresher", daemon=True)

    def open(self) -> None:
        """Open all collections, and begin to refresh them."""
        for kept in self.store.collections():
            collection = Collection(kept, self.store, self.settings)
            self._collections[kept.config.name] = collection
            collection.open()
            log.info("opened %r: %d entries in its log", kept.config.name, collection.last_seq)
        self._refresher.start()

    def close(self) -> None:
        """Finish what was begun, keep what was learned, and let go of the folder."""
        self._stop.set()
        if self._refresher.ident is not None:
            self._refresher.join()
        for collection in self.collections:
            collection.close()
        self.store.close()

    @property
    def collections(self) -> list[Collection]:
        return list(self._collections.values())

    @property
    def is_ready(self) -> bool:
        """Whether all collections are open, and all learners well."""
        return not self._stop.is_set() and all(collection.is_healthy for collection in self.collections)

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            raise NotFoundError(f"There is no collection {name!r}.", collection=name)
        return found

    def create(self, config: CollectionConfig) -> Collection:
        """Make a collection."""
        if config.dimension > self.settings.max_dimension:
            raise InvalidRequestError(
                f"Items can have up to {self.settings.max_dimension} features. Got {config.dimension}."
            )
        new_learner(config, self.settings.max_model)
        with self._changing:
            if config.name in self._collections:
                raise ConflictError(f"There is a collection {config.name!r} already.")
            if len(self._collections) >= self.settings.max_collections:
                raise InvalidRequestError(
                    f"There can be {self.settings.max_collections} collections. Delete one first."
                )
            kept = self.store.commit(lambda transaction: transaction.create(config)).result()
            collection = Collection(kept, self.store, self.settings)
            collection.open()
            self._collections[config.name] = collection
        return collection

    def delete(self, name: str) -> None:
        """Delete a collection and everything in it."""
        with self._changing:
            collection = self.collection(name)
            collection.delete().result()
            del self._collections[name]
            collection.forget()

    def _refresh(self) -> None:
        """Embed catalogues anew, one after the other, in one thread, with little priority and many rests."""
        import numba

        numba.set_num_threads(1)  # of this thread
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICE)
        while not self._stop.wait(_LOOK):
            for collection in self.collections:
                try:
                    if collection.wants_refresh():
                        collection.refresh(self._rest)
                except Exception:
                    log.exception("the catalogue of %r could not be embedded anew", collection.config.name)

    def _rest(self, seconds: float) -> None:
        """After so many seconds of work: let others have the machine, and its memory, to themselves."""
        self._stop.wait(seconds * (1 / self.settings.refresh_share - 1))
        for collection in self.collections:
            collection.let_answer(_PATIENCE)
