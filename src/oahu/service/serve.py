"""Running the service: one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from oahu.exceptions import InvalidInputError
from oahu.service.api.app import create_app
from oahu.service.api.hosts import is_loopback, public_setting
from oahu.service.errors import ForbiddenError
from oahu.service.keys import KeyFile
from oahu.service.settings import Settings

__all__ = ["serve"]

_FINISH = 20  # seconds that open requests have when the service stops
_COLLECTING = 20_000, 50, 100  # objects more than before, and how much seldomer the older ones are looked at
_TURN = 0.0005  # seconds of Python for a thread while others wait: few of ours need more, and none is to wait long

#: Called with the address and the application when it answers, in a thread of its own.
Started = Callable[[str, Any], None]


def serve(settings: Settings, started: Started) -> None:
    """Serve until a signal comes."""
    _check_key(settings)
    sys.setswitchinterval(_TURN)
    with threadpool_limits(1, "blas"), _bound(settings.host, settings.port) as listening:
        app = create_app(settings)
        try:
            with _collecting_later():
                app.state.service.open()  # before the server starts: what is wrong is told in one line
            app.state.is_open = True
        except BaseException:
            app.state.service.close()
            raise
        server = _Server(_config(app, settings), listening, started)
        server.run(sockets=[listening])
    if server.failed is not None:
        raise server.failed


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Make what is to stay without looking for garbage in it, then or ever: that would hold up everyone.

    Afterwards, look for it seldom: reference counts free nearly all there is.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_COLLECTING)
        gc.enable()


def _check_key(settings: Settings) -> None:
    setting = public_setting(settings)
    if setting is not None and not KeyFile(settings.data).needed:
        raise ForbiddenError(
            f"With {setting}, other machines can reach the service, but it has no API key. Create one first "
            f"(oahu keys add --role admin --data {settings.data}), or listen at 127.0.0.1 only."
        )


def _bound(host: str, port: int) -> socket.socket:
    """A socket at an address. Nobody is answered before the service listens at it."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InvalidInputError(f"Cannot listen at {host}, port {port}: {error.strerror}.") from error
    return bound


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="auto" if is_loopback(settings.host) else "h11",  # the faster one takes headers of any length
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_FINISH,
        timeout_keep_alive=30,
        proxy_headers=False,
        ws_max_size=2**20,
    )


class _Server(uvicorn.Server):
    """A server that says when it answers, lets listeners go when it stops, and takes no signal for a failure."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, started: Started) -> None:
        super().__init__(config)
        self._app, self._started = config.app, started
        host, port = listening.getsockname()[:2]
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self.failed: Exception | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        try:
            await asyncio.to_thread(self._started, self._address, self._app)
        except Exception as error:
            self.failed, self.should_exit = error, True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for collection in self._app.state.service.collections:  # type: ignore[union-attr]
            collection.events.close()  # streams of events would never end
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is going on; leave at once if told twice."""
        self.force_exit, self.should_exit = self.should_exit, True
