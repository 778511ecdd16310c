"""Running the service: one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

from oahu.service.errors import ForbiddenError
from oahu.service.settings import Settings

__all__ = ["serve"]

_FINISH = 20  # seconds that open requests have when the service stops


def serve(settings: Settings, started: Callable[[str, Any], None]) -> None:
    """Serve until a signal comes; ``started`` is called with the address and the application when it answers."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads of its own would wait for each other
    import uvicorn
    from threadpoolctl import threadpool_limits

    from oahu.service.api.app import create_app
    from oahu.service.api.hosts import is_loopback
    from oahu.service.keys import KeyFile

    local = is_loopback(settings.host)
    if not local and not KeyFile(settings.data).needed:
        raise ForbiddenError(
            f"Listening at {settings.host} would let in everyone who can reach it. Make a key first "
            f"(oahu keys add --role admin --data {settings.data}), or listen at 127.0.0.1."
        )
    threadpool_limits(1, "blas")
    app = create_app(settings)

    class Server(uvicorn.Server):
        failed: Exception | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            try:
                await asyncio.to_thread(started, f"http://{f'[{host}]' if ':' in host else host}:{port}", app)
            except Exception as error:
                self.failed, self.should_exit = error, True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for collection in app.state.service.collections:
                collection.events.close()  # streams of events would never end
            await super().shutdown(sockets)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Finish what is going on, and leave as if nothing was wrong; leave at once if told twice."""
            self.force_exit, self.should_exit = self.should_exit, True

    config = uvicorn.Config(
        app,
        settings.host,
        settings.port,
        http="auto" if local else "h11",  # the faster one takes headers of any length
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_FINISH,
        timeout_keep_alive=30,
        proxy_headers=False,
        ws_max_size=2**20,
    )
    server = Server(config)
    server.run()
    if server.failed is not None:
        raise server.failed
