"""The server process, which runs the service until it receives a signal."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import warnings
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

_SHUTDOWN_TIMEOUT = 20  # seconds for open requests when the service stops
_GC_THRESHOLDS = 20_000, 50, 100  # garbage collections should be rare, because they pause all threads
_SWITCH_INTERVAL = 0.0005  # seconds; a short interval lets queries interrupt the background threads soon

#: A function that is called in a thread when the server accepts requests. It gets the address and the application.
Started = Callable[[str, Any], None]


def serve(settings: Settings, started: Started) -> None:
    """Run the service until it receives a signal. ``started`` is called when the service accepts requests."""
    _require_key(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    warnings.filterwarnings("ignore", "target_f(ar|rr)=", UserWarning)  # the API returns calibration warnings
    with threadpool_limits(1, "blas"), _bind(settings.host, settings.port) as listening:
        app = create_app(settings)
        try:
            with _gc_frozen():
                app.state.service.open()  # before the server starts, so that an error is reported in one line
            app.state.is_open = True
        except BaseException:
            app.state.service.close()
            raise
        server = _Server(_config(app, settings), listening, started)
        server.run(sockets=[listening])
    if server.failed is not None:
        raise server.failed


@contextmanager
def _gc_frozen() -> Iterator[None]:
    """Turn the garbage collector off inside the ``with`` block, then call `gc.freeze`.

    Later garbage collections skip the objects that were created inside the block. The function also makes garbage
    collections rare, because reference counting frees most objects.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()


def _require_key(settings: Settings) -> None:
    setting = public_setting(settings)
    if setting is not None and not KeyFile(settings.data).is_required():
        raise ForbiddenError(
            f"With {setting}, other machines can reach the service, but the service has no API key. Create a key "
            f"first (oahu keys add --role admin --data {settings.data}), or listen only on 127.0.0.1."
        )


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket. Connections are refused until the server listens on the socket."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InvalidInputError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
    return bound


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="auto" if is_loopback(settings.host) else "h11",  # httptools accepts headers of any length
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        timeout_keep_alive=30,
        proxy_headers=False,
        ws_max_size=2**20,
    )


class _Server(uvicorn.Server):
    """A server that calls ``started`` when it accepts requests, and ends all event streams before it stops."""

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
            collection.events.close()  # event streams do not end by themselves
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish open requests after the first signal. Exit immediately after the second signal."""
        self.force_exit, self.should_exit = self.should_exit, True
