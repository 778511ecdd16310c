"""Benchmark the live service under load, as ratios against the idle service and against its store.

    make bench-service        (or: python benchmarks/service.py [--quick] [--soak 600])

`oahu serve` runs in its own process, and this process sends requests over loopback. The catalogue holds 65,000
items of 784 features: Fashion-MNIST if `oahu datasets get fashion-mnist` was run, else generated items.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import oahu
from oahu.evaluation.datasets import load
from oahu.exceptions import DatasetError
from oahu.service.records import CollectionConfig
from oahu.service.store import SQLiteStore

console = Console(width=116)
NAME = "bench"


# -- the service and its clients --------------------------------------------------------------------------


class Server:
    """`oahu serve` in its own process."""

    def __init__(self, data: Path) -> None:
        self._log = (data.parent / "serve.log").open("a")
        command = [sys.executable, "-m", "oahu", "serve", "--no-page", "--port", "0", "--data", str(data)]
        begin = time.perf_counter()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=self._log, text=True)
        assert self._process.stderr is not None
        found = None
        for line in self._process.stderr:
            if found := re.search(r"oahu listens at http://[^:]+:(\d+)", line):
                break
        if found is None:
            raise SystemExit("oahu serve did not start")
        self.port, self.seconds = int(found[1]), time.perf_counter() - begin
        threading.Thread(target=shutil.copyfileobj, args=(self._process.stderr, self._log), daemon=True).start()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    @property
    def resident(self) -> float:
        """The resident memory in MiB."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Connection:
    """A persistent connection. It uses http.client, whose own time is short."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def send(self, method: str, path: str, body: bytes | None = None) -> Any:
        self._connection.request(method, f"/v1/collections{path}", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        body = response.read()
        if response.status >= 300:
            raise SystemExit(f"{method} {path}: {response.status} {body[:300]!r}")
        return json.loads(body) if body else None


def search_body(vector: NDArray[Any]) -> bytes:
    return json.dumps({"vector": [float(value) for value in vector], "k": 10}).encode()


def feedback_bodies(triplets: NDArray[Any], n: int) -> Iterator[tuple[int, bytes]]:
    """Yield requests of n triplets each, with the number of triplets."""
    for start in range(0, len(triplets), n):
        rows = triplets[start : start + n].tolist()
        records = [{"anchor": f"i{a}", "positive": f"i{p}", "negative": f"i{o}"} for a, p, o in rows]
        yield len(records), json.dumps({"feedback": records}).encode()


def run_concurrently(calls: list[Callable[[], None]]) -> float:
    """Run each call in a thread; return the seconds until all are done."""
    threads = [threading.Thread(target=call) for call in calls]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


# -- measurements ----------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Use 6,500 items and short, noisier measurements.")
    parser.add_argument(
        "--soak", type=float, default=600.0, help="Seconds of constant load for the memory measurement."
    )
    options = parser.parse_args()
    X, y = items(6_500 if options.quick else 65_000)
    folder = Path(tempfile.mkdtemp(prefix="oahu-bench-"))
    try:
        run(X, y, folder, options.quick, 20.0 if options.quick else options.soak)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(X: NDArray[Any], y: NDArray[Any], folder: Path, quick: bool, soak: float) -> None:
    server = Server(folder / "data")
    console.print(f"[bold]{len(X):,} items of {X.shape[1]} features, AnchoredOAHU[/bold]")
    fill(server, X, y)
    rng = np.random.default_rng(0)
    stream = Stream(oahu.sample_triplets(y, 200_000, random_state=0))
    queries = [search_body(X[at] + rng.normal(0, 0.01, X.shape[1])) for at in rng.integers(len(X), size=200)]
    warm_up(server, stream, queries)
    table = Table("measurement", "result", "compared with", "ratio", "target", box=None)

    def show(rows: Iterable[tuple[str, ...]]) -> None:
        for row in rows:
            table.add_row(*row)
            console.print(f"{row[0]}: {row[1]}", style="dim")

    show(acknowledged(server, stream, folder, quick))
    show(responsive(server, stream, queries, quick))
    show(freshness(server, stream, quick))
    server, restarted = restart(server, stream, folder, quick)
    show(restarted)
    show(memory(server, stream, queries, soak))
    server.stop()
    console.print(table)


class Stream:
    """A stream of triplets. Thread-safe."""

    def __init__(self, triplets: NDArray[Any]) -> None:
        self._triplets, self._at, self._lock = triplets, 0, threading.Lock()

    def take(self, n: int) -> NDArray[Any]:
        with self._lock:
            start = self._at % len(self._triplets)
            self._at += n
        return np.take(self._triplets, range(start, start + n), axis=0, mode="wrap")


def items(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        data = load("fashion-mnist")
        return (data.X[:n] / 255).astype(np.float32), np.asarray(data.y[:n])
    except DatasetError:
        rng = np.random.default_rng(0)
        y = rng.integers(10, size=n)
        plane, centres = rng.normal(size=(40, 784)), rng.normal(size=(10, 40))
        return ((centres[y] + rng.normal(size=(n, 40))) @ plane / 40).astype(np.float32), y


def fill(server: Server, X: NDArray[Any], y: NDArray[Any]) -> None:
    client = oahu.Client(f"http://127.0.0.1:{server.port}", NAME).create(X.shape[1])
    begin = time.perf_counter()
    client.put([f"i{at}" for at in range(len(X))], X, labels=[str(label) for label in y])
    console.print(f"stored in {time.perf_counter() - begin:.1f} s")
    client.close()


def warm_up(server: Server, stream: Stream, queries: list[bytes]) -> None:
    """Compile everything and learn a metric: a search with a learned metric costs more."""
    connection = Connection(server.port)
    for _, body in feedback_bodies(stream.take(6_000), 1_000):
        connection.send("POST", f"/{NAME}/feedback", body)
    settle(connection)
    for query in queries[:10]:
        connection.send("POST", f"/{NAME}/search", query)


def settle(connection: Connection) -> None:
    """Wait until all feedback is learned and the index is refreshed."""
    while True:
        state = connection.send("GET", f"/{NAME}")
        if not state["pending_feedback"] and not state["candidates"]["constraints_behind"]:
            return
        time.sleep(0.2)


def acknowledged(server: Server, stream: Stream, folder: Path, quick: bool) -> Iterator[tuple[str, ...]]:
    """Measure the feedback that the service stores per second, compared with the store alone."""
    seconds = 3.0 if quick else 5.0
    for n, threads in ((1, 16), (100, 4)):
        alone, groups = store_throughput(folder / f"store-{n}", n, threads, seconds)
        served = service_throughput(server, stream, n, threads, seconds)
        yield (
            f"stored feedback, {n} per request, {threads} clients",
            f"{served:,.0f}/s",
            f"store {alone:,.0f}/s in {groups:,.0f} commits/s",
            f"{served / alone:.2f}, {served / groups:.2f} of commits",
            "0.5",
        )
        settle(Connection(server.port))


def store_throughput(folder: Path, n: int, threads: int, seconds: float) -> tuple[float, float]:
    """Return the records and commits per second of the store alone, with concurrent callers."""
    store = SQLiteStore(folder)
    collection = store.commit(lambda transaction: transaction.create(CollectionConfig("alone", 1))).result()
    counts = [0] * threads
    last = [0]
    until = time.perf_counter() + seconds

    def caller(me: int) -> None:
        def append(transaction: Any) -> None:
            transaction.append(collection.id, last[0] + 1, [oahu.Triplet(1, 2, 3)] * n)
            last[0] += n

        while time.perf_counter() < until:
            store.commit(append, n).result()
            counts[me] += n

    before = store.n_commits
    took = run_concurrently([lambda me=me: caller(me) for me in range(threads)])
    commits = store.n_commits - before
    store.close()
    return sum(counts) / took, commits / took


def service_throughput(server: Server, stream: Stream, n: int, threads: int, seconds: float) -> float:
    """Return the records per second that the service acknowledges."""
    counts = [0] * threads
    connections = [Connection(server.port) for _ in range(threads)]
    bodies = [list(feedback_bodies(stream.take(n * 200), n)) for _ in range(threads)]
    until = time.perf_counter() + seconds

    def caller(me: int) -> None:
        at = 0
        while time.perf_counter() < until:
            count, body = bodies[me][at % len(bodies[me])]
            connections[me].send("POST", f"/{NAME}/feedback", body)
            counts[me] += count
            at += 1

    took = run_concurrently([lambda me=me: caller(me) for me in range(threads)])
    return sum(counts) / took


def latencies(server: Server, queries: list[bytes], n: int) -> list[float]:
    """Return the seconds that each of n searches takes."""
    connection = Connection(server.port)
    found = []
    for at in range(n):
        begin = time.perf_counter()
        connection.send("POST", f"/{NAME}/search", queries[at % len(queries)])
        found.append(time.perf_counter() - begin)
        time.sleep(0.01)
    return found


@contextmanager
def feeding(server: Server, stream: Stream, rate: float) -> Iterator[list[int]]:
    """Send feedback at a constant rate during the block; the value counts the records."""
    stop, sent = threading.Event(), [0]

    def feed() -> None:
        connection, begin = Connection(server.port), time.perf_counter()
        while not stop.is_set():
            for n, body in feedback_bodies(stream.take(50), 50):
                connection.send("POST", f"/{NAME}/feedback", body)
                sent[0] += n
            stop.wait(max(0.0, begin + sent[0] / rate - time.perf_counter()))

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


def responsive(server: Server, stream: Stream, queries: list[bytes], quick: bool) -> Iterator[tuple[str, ...]]:
    """Measure searches of the idle service, and while it learns 2,000 constraints per second and refreshes.

    Both are measured alternately, because other processes may use the machine.
    """
    n, rounds = (100, 2) if quick else (500, 4)
    connection = Connection(server.port)
    at_rest: list[list[float]] = []
    loaded: list[list[float]] = []
    learned = n_sent = 0
    seconds = 0.0
    for _ in range(rounds):
        settle(connection)
        at_rest.append(latencies(server, queries, n))
        before = connection.send("GET", f"/{NAME}")
        begin = time.perf_counter()
        with feeding(server, stream, 2_000) as sent:
            loaded.append(latencies(server, queries, n))
            after = Connection(server.port).send("GET", f"/{NAME}")
            seconds += time.perf_counter() - begin
            n_sent += sent[0]
        learned += after["constraints"] - before["constraints"]
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        ratios = [quantile(load, part) / quantile(rest, part) for rest, load in zip(at_rest, loaded, strict=True)]
        rest, load = (quantile([*chain(*times)], part) for times in (at_rest, loaded))
        yield (
            f"search {name} under load",
            f"{load * 1e3:.1f} ms",
            f"idle {rest * 1e3:.1f} ms",
            f"{load / rest:.2f} ({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds)",
            "2",
        )
    yield (
        "learning",
        f"{learned / seconds:,.0f} constraints/s",
        f"sent {n_sent / seconds:,.0f} records/s",
        f"{after['pending_feedback']} behind",
        "2,000/s",
    )


def quantile(times: list[float], part: float) -> float:
    return sorted(times)[int(part * len(times))]


def freshness(server: Server, stream: Stream, quick: bool) -> Iterator[tuple[str, ...]]:
    """Measure the time from sending feedback to a result of a metric that has learned it."""
    connection = Connection(server.port)
    settle(connection)
    search, times = b'{"key": "i0", "k": 10}', []
    for _, body in feedback_bodies(stream.take(50 if quick else 300), 1):
        begin = time.perf_counter()
        seq = connection.send("POST", f"/{NAME}/feedback", body)["last_seq"]
        found = connection.send("POST", f"/{NAME}/search", search)
        while found["metric_version"] < seq:
            found = connection.send("POST", f"/{NAME}/search", search)
        times.append(time.perf_counter() - begin)
    middle, late = statistics.median(times) * 1e3, quantile(times, 0.99) * 1e3
    yield "feedback to changed result", f"{middle:.1f} ms, p99 {late:.1f} ms", "", "", "100 ms"


def restart(server: Server, stream: Stream, folder: Path, quick: bool) -> tuple[Server, list[tuple[str, ...]]]:
    """Measure a restart with a long log."""
    connection = Connection(server.port)
    n_records = 10_000 if quick else 100_000
    while (state := connection.send("GET", f"/{NAME}"))["last_seq"] < n_records:
        for _, body in feedback_bodies(stream.take(2_000), 1_000):
            connection.send("POST", f"/{NAME}/feedback", body)
    settle(connection)
    server.stop()
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import oahu.service.api.app"], check=True)
    importing = time.perf_counter() - begin
    server = Server(folder / "data")
    begin = time.perf_counter()
    Connection(server.port).send("POST", f"/{NAME}/search", b'{"key": "i0"}')
    row = (
        f"restart with {state['last_seq']:,} log entries",
        f"{server.seconds:.1f} s, first search {(time.perf_counter() - begin) * 1e3:.0f} ms",
        f"Python and imports alone {importing:.1f} s",
        "",
        "5 s",
    )
    return server, [row]


def memory(server: Server, stream: Stream, queries: list[bytes], seconds: float) -> Iterator[tuple[str, ...]]:
    """Measure the resident memory under constant load."""
    connection = Connection(server.port)
    marks = []
    with feeding(server, stream, 200):
        begin = time.perf_counter()
        at = 0
        while time.perf_counter() - begin < seconds:
            connection.send("POST", f"/{NAME}/search", queries[at % len(queries)])
            at += 1
            marks.append(server.resident)
            time.sleep(0.05)
    third = len(marks) // 3
    early, late = statistics.median(marks[third : 2 * third]), statistics.median(marks[2 * third :])
    yield (
        f"memory over {seconds:.0f} s",
        f"last third {late:,.0f} MiB",
        f"middle third {early:,.0f} MiB",
        f"{late / early:.3f}",
        "constant",
    )


if __name__ == "__main__":
    main()
