"""A process that imports everything once, and forks a service on request.

Starting Python and importing the service takes seconds; forking takes milliseconds. A test can therefore kill many
services. The child runs the same code as `oahu serve`. Requests and messages are lines of JSON. The child reports
its address without a request.
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


def report(**message: Any) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")  # short enough for an atomic write


def run_service(settings: dict[str, Any]) -> None:
    """Run a service until it receives a signal."""
    from oahu.service.serve import serve
    from oahu.service.settings import Settings

    slow_down_commits(settings.pop("flush_seconds", 0.0))
    if (kill := settings.pop("kill_at_commit", None)) is not None:
        kill_at_commit(*kill)
    try:
        serve(Settings(**settings), lambda address, app: report(pid=os.getpid(), address=address))
    except BaseException:
        report(pid=os.getpid(), failed=traceback.format_exc(limit=-5)[-2_000:])
        os._exit(1)
    os._exit(0)


def slow_down_commits(seconds: float) -> None:
    """Let every commit take longer, as on a slow disk, so that one commit holds the changes of several clients."""
    from oahu.service.store.sqlite import _Writer

    commit = _Writer.commit

    def commit_slowly(self: Any) -> Any:
        time.sleep(seconds)
        return commit(self)

    if seconds:
        writer: Any = _Writer
        writer.commit = commit_slowly


def kill_at_commit(count: int, moment: str) -> None:
    """Kill this process at a commit of items or feedback, before or after the data are on disk.

    In both cases the requests of the commit get no answer.
    """
    from oahu.service.store.sqlite import _Writer

    begin, append, put_item, commit = _Writer.begin, _Writer.append, _Writer.put_item, _Writer.commit
    writes, n_commits = False, 0

    def recording(method: Any) -> Any:
        def recorded(self: Any, *arguments: Any) -> Any:
            nonlocal writes
            writes = True
            return method(self, *arguments)

        return recorded

    def begin_group(self: Any) -> None:
        nonlocal writes
        writes = False
        begin(self)

    def commit_and_kill(self: Any) -> Any:
        nonlocal n_commits
        n_commits += writes
        if writes and n_commits == count and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        calls = commit(self)
        if writes and n_commits == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return calls

    writer: Any = _Writer
    writer.begin, writer.append, writer.put_item = begin_group, recording(append), recording(put_item)
    writer.commit = commit_and_kill


def warm_up(configs: list[dict[str, Any]]) -> None:
    """Import everything that a service needs, and compile its learners."""
    import numpy as np
    import uvicorn.loops.auto
    import uvicorn.protocols.http.auto  # noqa: F401

    import oahu.service.api.app
    import oahu.service.serve  # noqa: F401
    from oahu.service.learner_factory import new_learner
    from oahu.service.records import CollectionConfig

    for config in configs:
        rows = np.random.default_rng(0).normal(size=(2, 3, config["dimension"])).astype("f4")
        new_learner(CollectionConfig(**config)).partial_fit(rows).metric().scores_to_first(rows.reshape(6, -1), 3)
    if len(list(Path("/proc/self/task").glob("*"))) > 1:
        raise RuntimeError("a process with threads must not be forked")


def main() -> None:
    warm_up(json.loads(sys.argv[1]))
    report(ready=True)
    pid = 0
    try:
        while request := sys.stdin.readline():
            if request.strip() == "reap":
                report(reaped=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                pid = 0
                continue
            pid = os.fork()
            if pid == 0:
                run_service(json.loads(request))
            report(forked=pid)
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
