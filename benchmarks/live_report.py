"""Simulation of the live report: clicks through the HTTP API, the report, and the true precision of held queries.

    python benchmarks/live_report.py [clinc150] [--clicks 300] [--items 3000]
    python benchmarks/live_report.py tiles:colour --coverage 100

The queries are vectors that are no items. The first form prints the report and the true precision at 10 after some
clicks, for users with noise 0, 0.05 and 0.2, who mark one or both sides. The second form counts how often the
interval of the report contains the true improvement. In half of its runs, learning is harmful: the labels of the
items are permuted while the service learns.

A wrong mark of probability e changes each measured precision p to p (1 - 2 e) + e. The improvement by marks is
therefore the true improvement times 1 - 2 e. The interval must contain this value.
"""

import argparse
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import numpy as np
import uvicorn

import oahu
from oahu.evaluation import datasets
from oahu.evaluation.protocols.simulated_user import SimulatedUser
from oahu.service.api.app import create_app
from oahu.service.outcomes import is_held_out, query_id
from oahu.service.records import QueryVector
from oahu.service.settings import Settings

K = 20  # shown results; interleaved lists of 20 contain the ten best results of both rankings
DEPTH = K // 2
NOISES = (0.0, 0.05, 0.2)
HELD_OUT = 0.5


class Data(NamedTuple):
    """Items of the collection, and queries that are no items."""

    items: np.ndarray
    item_labels: np.ndarray
    queries: np.ndarray
    query_labels: np.ndarray


class Run(NamedTuple):
    """One run: the estimate of the report, its interval, and the true values."""

    estimate: float
    low: float
    high: float
    expected: float  # the true improvement, as marks with noise show it
    true: float
    factor: float

    @property
    def is_covered(self):
        return self.low <= self.expected <= self.high


def sample_data(name, n_items, rng):
    """Return random items of a data set, and all other rows as queries."""
    data = datasets.load(name)
    X, y = np.asarray(data.X, np.float32), np.unique(data.y, return_inverse=True)[1]
    order = rng.permutation(len(X))
    items, queries = order[:n_items], order[n_items:]
    return Data(X[items], y[items], X[queries], y[queries])


@contextmanager
def server(folder):
    """Run the service in a thread. Yield the application and its address."""
    app = create_app(
        Settings(data=Path(folder), page=False, fresh_wait=0.0, refresh_every=0.1, max_collections=10_000)
    )
    running = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield app, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for collection in app.state.service.collections:
                collection.events.close()
            running.should_exit = True
            thread.join()


class Simulation:
    """A collection with users who click."""

    def __init__(self, url, name, data, seed, *, noise=0.0, one_sided=False, **settings):
        self.data, self.noise, self.rng = data, noise, np.random.default_rng(seed)
        self.user = SimulatedUser("alike" if one_sided else "all", noise)
        self.client = oahu.Client(url, name).create(data.items.shape[1], **settings)
        self.keys = [f"item-{at}" for at in range(len(data.items))]
        self.client.put(self.keys, data.items)
        self.row_of = {key: at for at, key in enumerate(self.keys)}

    def click(self, query, labels, interleave):
        """Search for a query, and mark the results. ``labels`` are the labels of the items for the user."""
        vector = self.data.queries[query]
        found = self.client.search(vector, k=K, interleave=interleave)
        shown = np.array([self.row_of[match["key"]] for match in found["matches"]])
        marks = self.user.mark(shown, labels[shown] == self.data.query_labels[query], self.rng)
        positive, negative = ([self.keys[row] for row in rows] for rows in marks[:2])
        if positive or negative:
            self.client.feedback(query=vector, positive=positive, negative=negative, impression=found["impression"])

    def wait(self):
        """Wait until everything is learned, and the candidates of searches are those of the newest metric."""
        while True:
            state = self.client.describe()
            if not state["pending_feedback"] and not state["candidates"]["constraints_behind"]:
                return
            time.sleep(0.02)

    def precision(self, queries):
        """Return the true precision at 10 of searches as they are served."""
        correct = []
        for query in queries:
            matches = self.client.search(self.data.queries[query], k=DEPTH, interleave=0)["matches"]
            rows = [self.row_of[match["key"]] for match in matches]
            correct.append(self.data.item_labels[rows] == self.data.query_labels[query])
        return float(np.mean(correct))


def true_improvement(collection, data, queries):
    """Return the true improvement of the precision at 10 from the unlearned to the learned ranking."""
    precisions = []
    for metric in (collection.unlearned_metric, collection.published.metric):
        rows = np.argsort(-metric.scores(data.queries[queries], data.items), axis=1, kind="stable")[:, :DEPTH]
        precisions.append((data.item_labels[rows] == data.query_labels[queries][:, None]).mean())
    return float(precisions[1] - precisions[0])


def coverage_run(app, url, data, seed, *, noise=0.0, one_sided=False, harmful=False, n_learned=60, n_measured=60):
    """Learn from clicks, then measure with clicks on queries that are held out, so that the metric is constant."""
    name = f"run-{seed}-{noise}-{one_sided}-{harmful}".replace(".", "-")
    simulation = Simulation(url, name, data, seed, noise=noise, one_sided=one_sided, held_out=HELD_OUT)
    rng = np.random.default_rng(seed)
    held = [is_held_out(query_id(QueryVector(row.tobytes())), HELD_OUT) for row in data.queries]
    learned, measured = (rng.permutation(np.flatnonzero(np.array(held) == side)) for side in (False, True))
    wrong_labels = rng.permutation(data.item_labels)
    for query in learned[:n_learned]:
        simulation.click(query, wrong_labels if harmful else data.item_labels, 0.0)
    simulation.wait()
    for query in measured[:n_measured]:
        simulation.click(query, data.item_labels, 1.0)
    report = simulation.client.report()
    found = report["held_out"]["comparison"]["improvement"]
    true = true_improvement(app.state.service.collection(name), data, measured)
    simulation.client.delete()
    simulation.client.close()
    return Run(**found_as(found), expected=true * (1 - 2 * noise), true=true, factor=report["guard"]["factor"])


def found_as(found):
    return {"estimate": found["value"], "low": found["low"], "high": found["high"]}


def coverage(name, n_runs, n_items):
    """Print how often the interval contains the true improvement."""
    totals = {}
    with tempfile.TemporaryDirectory() as folder, server(folder) as (app, url):
        for seed in range(n_runs):
            noise, one_sided, harmful = NOISES[seed % 3], bool(seed // 3 % 2), bool(seed // 6 % 2)
            data = sample_data(name, n_items, np.random.default_rng(seed))
            run = coverage_run(app, url, data, seed, noise=noise, one_sided=one_sided, harmful=harmful)
            totals.setdefault(harmful, []).append(run)
            kind = f"{'one' if one_sided else 'two'}-sided {'harmful' if harmful else 'useful '}"
            verdict = "covered" if run.is_covered else "MISSED"
            print(
                f"{seed:3} noise {noise:<4} {kind}  {run.estimate:+.3f} [{run.low:+.3f}, {run.high:+.3f}]"
                f"  true {run.true:+.3f}  expected {run.expected:+.3f}  {verdict}  factor {run.factor:g}",
                flush=True,
            )
    for harmful, runs in totals.items():
        print(f"{'harmful' if harmful else 'useful'}: {sum(run.is_covered for run in runs)} of {len(runs)} covered")
    print(f"all: {sum(run.is_covered for runs in totals.values() for run in runs)} of {n_runs} covered")


def curves(name, n_clicks, n_items, share=0.5, n_held=200):
    """Print the report and the true precision at 10 of held queries after some clicks."""
    points = [n for n in (30, 100, 300, 1_000, 3_000) if n < n_clicks] + [n_clicks]
    print("noise  sides  clicks  p10 before  p10 now  true gain  | report: gain of the last half [95 % interval]")
    with tempfile.TemporaryDirectory() as folder, server(folder) as (_, url):
        for noise in NOISES:
            for one_sided in (False, True):
                data = sample_data(name, n_items, np.random.default_rng(0))
                label = f"curve-{str(noise).replace('.', '-')}-{int(one_sided)}"
                simulation = Simulation(url, label, data, 0, noise=noise, one_sided=one_sided, interleave=share)
                held, order = np.arange(n_held), np.arange(n_held, len(data.queries))
                before = simulation.precision(held)
                for at, query in enumerate(order[:n_clicks], 1):
                    simulation.click(query, data.item_labels, None)
                    if at in points:
                        simulation.wait()
                        now = simulation.precision(held)
                        recent = simulation.client.report(last=at // 2)["recent"]
                        gain = (recent["comparison"] or {}).get("improvement")
                        text = (
                            f"{recent['missing']} queries missing"
                            if gain is None
                            else (f"{gain['value']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]")
                        )
                        sides = "one" if one_sided else "two"
                        truth = f"{before:10.3f}  {now:7.3f}  {now - before:+9.3f}"
                        print(f"{noise:<5}  {sides}    {at:6}  {truth}  | {text}", flush=True)
                simulation.client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="clinc150")
    parser.add_argument("--clicks", type=int, default=300)
    parser.add_argument("--items", type=int, default=3_000)
    parser.add_argument("--coverage", type=int, metavar="RUNS", help="number of runs of the check of the intervals")
    options = parser.parse_args()
    begin = time.perf_counter()
    if options.coverage:
        coverage(options.dataset, options.coverage, min(options.items, 300))
    else:
        curves(options.dataset, options.clicks, options.items)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
