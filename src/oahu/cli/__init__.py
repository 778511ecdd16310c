"""oahu from a shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oahu.cli import options
from oahu.exceptions import ModelFileError, OAHUError
from oahu.learners import load
from oahu.learners.base import Learner
from oahu.metrics import AnchoredMetric, EnsembleMetric, Metric
from oahu.version import __version__

__all__ = ["app"]

app = typer.Typer(
    help="Similarity metrics that change with every piece of feedback.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_console = Console()
_errors = Console(stderr=True)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        _console.print(__version__, highlight=False)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the models and the picture go.")] = Path("demo-output"),
    triplets: Annotated[int, typer.Option(min=100, help="How many triplets to stream.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the stream and the networks.")] = 0,
) -> None:
    """Stream real digits through OAHU and AnchoredOAHU, and watch them learn."""
    from oahu.demo import run

    try:
        run(_console, out, triplets, seed)
    except ImportError as error:
        _fail(error)


@app.command()
def train(
    constraints: Annotated[str, typer.Option(help="Triplets or pairs, as JSON Lines or CSV; - is standard input.")],
    model: Annotated[Path, typer.Option(help="The file to keep the learner in. If it is there, learning goes on.")],
    features: Annotated[
        Path | None, typer.Option(help="The items' features (.npy, .npz, .csv), for constraints by id.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="Which learner, when the model is new.", show_default="OAHU")
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner.")
    ] = None,
    new_lines: Annotated[
        bool, typer.Option("--new-lines", help="All lines are new to the model: skip none.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds after which the model is written again.")] = 10,
) -> None:
    """Learn from a stream of constraints, and go on where it stopped."""
    from oahu.cli.train import Order, run

    order = Order(constraints, model, features, learner, tuple(parameters or ()), new_lines, save_every)
    try:
        finished = run(_errors, order)
    except (OAHUError, OSError) as error:
        _fail(error)
    if not finished:
        raise typer.Exit(130)


@app.command()
def classify(
    model: options.Model,
    items: Annotated[Path, typer.Option(help=f"Labelled items ({options.KINDS}).")],
    queries: Annotated[Path, typer.Option(help="Items to classify, in such a file; their labels are compared.")],
    labels: options.Labels = None,
    query_labels: options.QueryLabels = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours that vote, in each space.")] = 5,
    vote: options.Voting = options.Vote.joint,
    unknown_below: Annotated[
        float | None, typer.Option(metavar="S", help="Answer unknown where familiarity is below S.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Queries shown; 0 shows all.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Label items by their nearest labelled neighbours."""
    from oahu.cli.classify import Order, run

    order = Order(
        model=model,
        items=items,
        queries=queries,
        labels=labels,
        query_labels=query_labels,
        k=k,
        vote=vote.value,
        unknown_below=unknown_below,
        limit=limit,
        json=as_json,
    )
    with _telling():
        run(_console, _errors, order)


@app.command()
def compare(
    model: Annotated[
        Path, typer.Option(help="A learner, a metric or a comparator, as train and save() write them.")
    ],
    ids: Annotated[list[str] | None, typer.Argument(metavar="A B", help="The ids of two items.")] = None,
    features: options.Features = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Pairs (JSON Lines or CSV: first, second, and same if it is known); - is standard input."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Alike are items nearer than this.", show_default="0.55")
    ] = None,
    rule: Annotated[
        options.Rule | None, typer.Option(help="What must be nearer: half of the experts by weight, or their mean.")
    ] = None,
    band: Annotated[float | None, typer.Option(help="Answer unknown this near to the threshold.")] = None,
    calibrate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Pairs with their answers, to find the threshold by.")
    ] = None,
    target: Annotated[
        options.Target | None, typer.Option(help="What the threshold is best for.", show_default="accuracy")
    ] = None,
    target_far: Annotated[float | None, typer.Option(help="Or: the share of unlike pairs it may accept.")] = None,
    target_frr: Annotated[
        float | None, typer.Option(help="And the share of like pairs it may reject; unknown is between.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the comparator here; --model takes it.")] = None,
    roc: Annotated[Path | None, typer.Option(help="Draw the ROC curve of --pairs (.png, .pdf, .svg).")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Pairs shown; 0 shows all.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Say whether two items are alike: yes, no or unknown."""
    from oahu.cli.compare import Order, run

    order = Order(
        model=model,
        features=features,
        ids=tuple(ids or ()),
        pairs=pairs,
        threshold=threshold,
        rule=None if rule is None else rule.value,
        band=band,
        calibrate=calibrate,
        target=None if target is None else target.value,
        target_far=target_far,
        target_frr=target_frr,
        save=save,
        roc=roc,
        limit=limit,
        json=as_json,
    )
    with _telling():
        run(_console, order)


@app.command()
def search(
    model: Annotated[Path, typer.Option(help="A learner, a metric or an index, as train and save() write them.")],
    features: options.Features = None,
    query: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Find the items most like this one; may be given often.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help=f"Find the items most like each in this file ({options.KINDS}).")
    ] = None,
    labels: options.Labels = None,
    query_labels: options.QueryLabels = None,
    k: Annotated[int, typer.Option(min=1, help="Items to find.")] = 10,
    vote: Annotated[
        options.Vote | None,
        typer.Option(help="Ask every expert, or their joint vectors in one search.", show_default="joint"),
    ] = None,
    combine: Annotated[
        options.Combine | None,
        typer.Option(help="Of an item that several experts found, the best score or the sum.", show_default="max"),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search by a graph: faster among millions, may miss some.")
    ] = False,
    sheet: Annotated[Path | None, typer.Option(help="Draw what was found, as images (.png, .pdf, .svg).")] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="Of an image, such as 8x8 or 32x32x3.", show_default="square")
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Large values are dark.")] = False,
    save: Annotated[Path | None, typer.Option(help="Keep the index here; --model takes it.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Queries shown; 0 shows all.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Find the items that are most like others."""
    from oahu.cli.search import Order, run

    order = Order(
        model=model,
        features=features,
        labels=labels,
        ids=tuple(query or ()),
        queries=queries,
        query_labels=query_labels,
        k=k,
        vote=None if vote is None else vote.value,
        combine=None if combine is None else combine.value,
        approximate=approximate,
        sheet=sheet,
        shape=shape,
        invert=invert,
        save=save,
        limit=limit,
        json=as_json,
    )
    with _telling():
        run(_console, _errors, order)


@app.command()
def evaluate(
    model: options.Model,
    items: Annotated[
        Path | None, typer.Option(help=f"Labelled items to find neighbours in ({options.KINDS}).")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Labelled items that the model has not learned from, in such a file.")
    ] = None,
    labels: options.Labels = None,
    query_labels: options.QueryLabels = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours that vote on a label, in each space.")] = 5,
    vote: options.Voting = options.Vote.joint,
    pairs: Annotated[
        str | None, typer.Option(help="Pairs of queries with their answers (JSON Lines or CSV).")
    ] = None,
    n_pairs: Annotated[int, typer.Option(min=0, help="Or pairs to draw from the queries' labels.")] = 10_000,
    n_triplets: Annotated[int, typer.Option(min=0, help="Triplets to draw from the queries' labels.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw ROC curves and what each expert sees (.png, .pdf, .svg).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure a model next to Euclidean distance and cosine."""
    from oahu.cli.evaluate import Order, run

    order = Order(
        model=model,
        items=items,
        queries=queries,
        labels=labels,
        query_labels=query_labels,
        k=k,
        vote=vote.value,
        pairs=pairs,
        n_pairs=n_pairs,
        n_triplets=n_triplets,
        seed=seed,
        plot=plot,
        json=as_json,
    )
    with _telling():
        run(_console, _errors, order)


_datasets = typer.Typer(help="List data sets to measure with, and get them.", invoke_without_command=True)
app.add_typer(_datasets, name="datasets")


@_datasets.callback()
def datasets(context: typer.Context, as_json: options.Json = False) -> None:
    from oahu.cli.datasets import show

    if context.invoked_subcommand is None:
        with _telling():
            show(_console, as_json)


@_datasets.command("get")
def get_datasets(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="As `oahu datasets` lists them.")],
) -> None:
    """Download data sets from their official addresses; an interrupted download goes on where it stopped."""
    from oahu.cli.datasets import get

    with _telling():
        get(_console, _errors, names)


@app.command()
def bench(
    protocol: Annotated[
        options.Protocol, typer.Argument(help="What to measure; paper: everything that the paper does.")
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option(help=f"As `oahu datasets` lists them, or your own file ({options.KINDS}). May be repeated."),
    ] = None,
    labels: options.Labels = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Learners, module:Name, or model files.", show_default="the paper's"),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Independent runs (folds).", show_default="10; retrieval 1")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Cells measured at once; 0: one for each core.")] = 0,
    out: Annotated[Path, typer.Option(help="Where results and report go; if cells are there, it goes on.")] = Path(
        "bench-output"
    ),
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose scaling and parameters by cross-validation first.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small, on the bundled digits: under a minute.")] = False,
    constraints: Annotated[
        int | None,
        typer.Option(min=2, help="How many constraints are learned.", show_default="the paper's"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many of them are drawn; the others follow from these.", show_default="half"),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(help="Of the inputs; with --tune, A,B,... to choose from.", show_default="the set's"),
    ] = None,
    pca: Annotated[int | None, typer.Option(min=1, help="Keep only so many principal components.")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Neighbours that vote on a class.", show_default="5")] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Test items that are asked, drawn from all.", show_default="all")
    ] = None,
    people: Annotated[
        options.People | None,
        typer.Option(
            help="Whether people in a tested fold may be learned from (verification).", show_default="shared"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits, constraints and learners.")] = 0,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Of the cross-validation of --tune.", show_default="10")
    ] = None,
    tune_items: Annotated[
        int | None,
        typer.Option(min=20, help="Development items that --tune looks at, at most.", show_default="10000"),
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A parameter of a learner.")
    ] = None,
) -> None:
    """Measure learners against each other, as the paper does, and write a report."""
    from oahu.cli.bench import Order, run

    given = {"seed": seed, "pca": pca, "k": k, "queries": queries, "people": people and people.value}
    if constraints is not None:
        given |= {"n_constraints": constraints, "n_seeds": constraints // 2}
    if seeds is not None:
        given["n_seeds"] = seeds
    scalings = tuple((scaling or "").split(",")) if scaling else ()
    if scalings and not tune:
        given["scaling"] = scaling
    order = Order(
        protocol=protocol.value,
        datasets=tuple(dataset or ()),
        labels=labels,
        methods=() if methods is None else tuple(map(str.strip, methods.split(","))),
        runs=runs,
        jobs=jobs,
        out=out,
        tune=tune,
        quick=quick,
        folds=folds,
        tune_items=tune_items,
        scalings=scalings if tune else (),
        parameters=tuple(parameters or ()),
        settings={name: value for name, value in given.items() if value is not None},
    )
    with _telling():
        complete = run(_console, _errors, order)
    if not complete:
        raise typer.Exit(1)


@app.command()
def info(model: Annotated[Path, typer.Argument(help="A file written by save().")]) -> None:
    """Describe a model file."""
    try:
        loaded = load(model)
    except (ModelFileError, OSError) as error:
        _fail(error)
    _console.print(_described(loaded))


@app.command()
def serve(
    data: options.Data = None,
    host: Annotated[str | None, typer.Option(help="The address to listen at.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.", show_default="8000")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Fill it with real images, if they are not there.")] = False,
    page: Annotated[
        bool | None, typer.Option("--page/--no-page", help="With or without a page.", show_default="page")
    ] = None,
) -> None:
    """Serve search that learns from every click; everything else is set in the environment (OAHU_...)."""
    from oahu.cli.serve import Order, run

    with _telling():
        run(_errors, Order({"data": data, "host": host, "port": port, "page": page}, demo))


_keys = typer.Typer(help="Say who may use a service: read, give feedback, or everything.", no_args_is_help=True)
app.add_typer(_keys, name="keys")


@_keys.command("add")
def add_key(
    role: Annotated[options.Role, typer.Option(help="What the key allows.")],
    name: Annotated[str, typer.Option(help="Whose it is.")] = "",
    data: options.Data = None,
) -> None:
    """Make a key and print it, once. A service that runs takes it within a second."""
    from oahu.cli.serve import add_key as run

    with _telling():
        run(_console, _errors, options.data_of(data), name, role.value)


@_keys.command("list")
def list_keys(data: options.Data = None) -> None:
    """List the keys there are, without their secrets."""
    from oahu.cli.serve import list_keys as run

    with _telling():
        run(_console, options.data_of(data))


@_keys.command("remove")
def remove_key(
    key: Annotated[str, typer.Argument(metavar="ID", help="As `oahu keys list` shows it.")],
    data: options.Data = None,
) -> None:
    """Let a key open nothing any more. A service that runs knows within a second."""
    from oahu.cli.serve import remove_key as run

    with _telling():
        run(_errors, options.data_of(data), key)


@app.command()
def backup(
    out: Annotated[Path, typer.Option(help="The file to write.")],
    data: options.Data = None,
) -> None:
    """Copy everything a service keeps into one file, also while it runs."""
    from oahu.cli.serve import back_up

    with _telling():
        back_up(_errors, options.data_of(data), out)


@contextmanager
def _telling() -> Iterator[None]:
    """Let errors that say what is wrong end the command."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads on: typer ends quietly
    except (OAHUError, OSError, ImportError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    _errors.print(Text.assemble(("error: ", "red"), str(error)), soft_wrap=True)
    raise typer.Exit(1) from error


def _described(loaded: Any) -> Table:
    """A learner, a metric, or a task and the metric in it."""
    metric: Metric = loaded.metric() if isinstance(loaded, Learner) else getattr(loaded, "metric", loaded)
    table = Table(show_header=False, box=None)
    table.add_row("class", type(loaded).__name__)
    if not isinstance(loaded, Learner | Metric):
        table.add_row("metric", type(metric).__name__)
        for name, value in _of_task(loaded).items():
            table.add_row(name, value)
    table.add_row("features", f"{metric.n_features:,}")
    table.add_row("constraints learned", f"{metric.version:,}")
    if isinstance(metric, EnsembleMetric | AnchoredMetric):
        for space in metric.spaces if isinstance(metric, EnsembleMetric) else metric.parts:
            table.add_row(f"weight of {space.name}", f"{space.weight:.4f}")
    if isinstance(loaded, Learner):
        for name in ("utilization", "utilization_similar", "utilization_dissimilar"):
            if hasattr(loaded, f"{name}_"):
                table.add_row(name.replace("_", " "), f"{getattr(loaded, f'{name}_'):.4f}")
        for name, value in loaded.get_params().items():
            table.add_row(name, Text(str(value)))
    return table


def _of_task(task: Any) -> dict[str, str]:
    """What there is to say of a comparator or a retriever."""
    if hasattr(task, "keys"):
        return {"items": f"{len(task):,}"}
    calibrated = getattr(task, "yes_below_", None), getattr(task, "no_from_", None)
    facts = {"rule": task.rule, "band": task.band, "threshold": task.threshold}
    facts |= {"yes below": calibrated[0], "no from": calibrated[1]}
    return {name: str(value) for name, value in facts.items() if value is not None}
