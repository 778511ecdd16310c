"""A process that imports everything once, and forks a service as often as it is told to.

Starting Python and importing takes seconds, forking milliseconds: so a service can be killed many times. The child
runs what `oahu serve` runs. Orders come as lines of JSON, and so do the answers; the child tells where it listens
by itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def tell(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # in one piece, as short as it is


def child(settings: dict[str, Any]) -> None:
    """Be a service until a signal comes."""
    from oahu.service.serve import serve
    from oahu.service.settings import Settings

    slow_down(settings.pop("flush_seconds", 0.0))
    try:
        serve(Settings(**settings), lambda address, app: tell(pid=os.getpid(), address=address))
    except BaseException:
        tell(pid=os.getpid(), failed=traceback.format_exc(limit=-5)[-2_000:])
        os._exit(1)
    os._exit(0)


def slow_down(seconds: float) -> None:
    """Let the disk take its time with every commit: more is under way when a signal comes."""
    from oahu.service.store.sqlite import _Writing

    commit = _Writing.commit

    def slowly(self: Any) -> Any:
        time.sleep(seconds)
        return commit(self)

    if seconds:
        _Writing.commit = slowly  # type: ignore[method-assign]


def warm(configs: list[dict[str, Any]]) -> None:
    """Import what a service needs, and compile what its learners need."""
    import numpy as np
    import uvicorn.loops.auto
    import uvicorn.protocols.http.auto  # noqa: F401

    import oahu.service.api.app
    import oahu.service.serve  # noqa: F401
    from oahu.service.learner_loop import new_learner
    from oahu.service.records import CollectionConfig

    for config in configs:
        some = np.random.default_rng(0).normal(size=(2, 3, config["dimension"])).astype("f4")
        new_learner(CollectionConfig(**config)).partial_fit(some).metric().scores_to_first(some.reshape(6, -1), 3)
    if len(list(Path("/proc/self/task").glob("*"))) > 1:
        raise RuntimeError("a process with threads must not be forked")


def main() -> None:
    warm(json.loads(sys.argv[1]))
    tell(ready=True)
    pid = 0
    try:
        while order := sys.stdin.readline():
            if order.strip() == "reap":
                tell(reaped=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                pid = 0
                continue
            pid = os.fork()
            if pid == 0:
                child(json.loads(order))
            tell(forked=pid)
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
