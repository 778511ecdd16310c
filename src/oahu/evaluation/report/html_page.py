"""HTML report of a benchmark. Tables and figures are also written to separate files."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report import figures, overview_tables, paper
from oahu.evaluation.report.experiments import MAIN_SCORES, PROTOCOL_NAMES, Experiment, experiments
from oahu.evaluation.report.html_style import CSS
from oahu.evaluation.report.protocol_tables import auc_table, main_table
from oahu.evaluation.report.report_table import ReportTable
from oahu.evaluation.report.summary import headlines, summarize
from oahu.evaluation.trials import BenchmarkRecord
from oahu.io.atomic_files import write_atomically

__all__ = ["write"]

_TITLES: Final = {
    "classification": "Classification",
    "constraints": "Error by number of constraints",
    "verification": "Verification",
    "retrieval": "Retrieval",
    "sensitivity": "Sensitivity to parameters",
    "regret": "Regret",
    "clicks": "Learning from clicks",
}
_INTRODUCTIONS: Final = {
    "classification": "Each test item gets the class of the majority of its nearest training items.",
    "constraints": "Classification error after learning from different numbers of constraints.",
    "verification": "Do two images show the same person? The pairs of the tested fold are not used for learning.",
    "retrieval": "Each test item is a query. The other test items are ranked by their distance to the query.",
    "sensitivity": "One parameter of OAHU is varied. All other parameters have their default values.",
    "regret": "The loss of OAHU's weighted experts, compared with the single expert that was best in hindsight.",
    "clicks": "A simulated user marks shown items. The metric is evaluated on queries that received no feedback.",
}
_LATEX_HEAD: Final = "% \\usepackage{booktabs,graphicx} in the preamble; \\input this file.\n\n"


def write(
    record: BenchmarkRecord, folder: str | Path, datasets: Mapping[str, Dataset] | None = None, paired: bool = False
) -> Path:
    """Write ``tables.md``, ``tables.tex``, ``figures/`` and ``report.html`` to a folder.

    An existing report and its figures are replaced. Without matplotlib, the report has a note instead of figures.

    Parameters
    ----------
    record : BenchmarkRecord
        Results of the benchmark.
    folder : path
        Folder for the report. It is created if it does not exist.
    datasets : dict of Dataset by name, optional
        Data sets with images. They are needed for the figures of example images.
    paired : bool
        Whether to use a paired t-test instead of the unpaired t-test of the paper.

    Returns
    -------
    path : Path
        Path of ``report.html``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = overview_tables.all_tables(record, paired)
    markdown = "\n".join(table.to_markdown() for table in tables)
    latex = _LATEX_HEAD + "\n".join(table.to_latex() for table in tables)
    write_atomically(folder / "tables.md", markdown)
    write_atomically(folder / "tables.tex", latex)
    _remove_figures(folder / "figures")
    drawn, problem = _draw(record, folder / "figures", datasets)
    path = folder / "report.html"
    write_atomically(path, _page(record, drawn, problem, paired))
    return path


def _remove_figures(folder: Path) -> None:
    """Remove the figures of an earlier report. Other files are not removed."""
    for protocol in PROTOCOL_NAMES:
        for kind in ("png", "svg"):
            for path in folder.glob(f"{protocol}-*.{kind}"):
                path.unlink()


def _draw(
    record: BenchmarkRecord, folder: Path, datasets: Mapping[str, Dataset] | None
) -> tuple[list[figures.ReportFigure], str | None]:
    """Draw and return the figures. If matplotlib is missing, return no figures and a message."""
    try:
        return figures.draw_all(record, folder, datasets), None
    except ImportError as error:
        return [], f"The report has no figures: {error}"


# -- sections --------------------------------------------------------------------------------------------


def _page(record: BenchmarkRecord, drawn: list[figures.ReportFigure], problem: str | None, paired: bool) -> str:
    present = [protocol for protocol in PROTOCOL_NAMES if experiments(record, protocol)]
    body = [_head(record), _contents(present, bool(record.failures)), "<main>", _summary(record, problem, paired)]
    body += [_protocol(record, protocol, drawn, paired) for protocol in present]
    body += [_failures(record), _conditions(record, present, paired), "</main>", _foot()]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>oahu benchmark</title>\n<style>{CSS}</style>\n</head>\n<body>\n{''.join(body)}</body>\n</html>\n"
    )


def _head(record: BenchmarkRecord) -> str:
    n = sum(outcome.trial.stage == "result" and outcome.error is None for outcome in record.outcomes)
    names = ", ".join(record.datasets) or "no data set"
    text = (
        f"{n:,} trials on {names}. Started {_format_start(record.started)}; took "
        f"{_format_duration(record.seconds)}. Reference: {record.reference}."
    )
    return f'<header>\n<h1>oahu benchmark</h1>\n<p class="lead">{escape(text)}</p>\n</header>\n'


def _contents(present: Iterable[str], failed: bool) -> str:
    links = [("summary", "Summary"), *((protocol, _TITLES[protocol]) for protocol in present)]
    links += [("failures", "Failures")] if failed else []
    links.append(("how", "How it was run"))
    items = "".join(f'<li><a href="#{target}">{escape(name)}</a></li>' for target, name in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>\n'


def _summary(record: BenchmarkRecord, problem: str | None, paired: bool) -> str:
    sentences = headlines(record, paired) + ([problem] if problem else [])
    items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in sentences)
    name = escape(record.reference)
    test = "a paired Student's t-test over the runs" if paired else "Student's t-test over the runs"
    legend = (
        f'<p class="legend"><span><b>•</b> {name} is significantly better</span> '
        f"<span><b>∘</b> {name} is significantly worse</span> "
        f"<span>no mark: no significant difference</span> <span>by {test}, at 0.05</span> "
        "<span><strong>bold</strong>: the best of its column</span></p>\n"
    )
    overview = overview_tables.overview_table(record, paired)
    table = overview.to_html() if overview.rows else ""
    findings = f'<ul class="findings">\n{items}</ul>\n'
    return f'<section id="summary">\n<h2>Summary</h2>\n{findings}{table}{legend}</section>\n'


def _protocol(record: BenchmarkRecord, protocol: str, drawn: list[figures.ReportFigure], paired: bool) -> str:
    introduction = escape(_INTRODUCTIONS[protocol])
    parts = [f'<section id="{protocol}">\n<h2>{_TITLES[protocol]}</h2>\n<p>{introduction}</p>\n']
    found = experiments(record, protocol)
    if protocol in MAIN_SCORES and len({experiment.dataset for experiment in found}) > 1:
        parts += [table.to_html() for table in overview_tables.win_tie_loss_tables(record, protocol, paired)]
    for experiment in found:
        own = [figure for figure in drawn if figure.experiment == experiment.slug]
        parts.append(_experiment(experiment, own, paired))
    parts.append(_folded("Time", overview_tables.time_table(record, protocol)))
    return "".join([*parts, "</section>\n"])


def _experiment(experiment: Experiment, drawn: list[figures.ReportFigure], paired: bool) -> str:
    text = summarize(experiment, paired)
    parts = [
        f'<section id="{experiment.slug}">\n<h3>{escape(experiment.title)}</h3>\n',
        f"<p>{escape(text)}</p>\n" if text else "",
        main_table(experiment, paired).to_html(),
    ]
    if experiment.protocol == "verification":
        parts.append(_folded("AUC per fold", auc_table(experiment)))
    elif experiment.protocol == "clicks":
        parts += [table.to_html() for table in overview_tables.more_tables(experiment, paired)]
    if drawn:
        parts.append(f'<div class="figures">\n{"".join(map(_figure, drawn))}</div>\n')
    has_sheet = any(figure.name.endswith("-examples") for figure in drawn)
    if experiment.protocol in ("verification", "retrieval") and not has_sheet:
        parts.append(f'<p class="remark">{escape(_why_no_sheet(experiment))}</p>\n')
    return "".join([*parts, "</section>\n"])


def _why_no_sheet(experiment: Experiment) -> str:
    if not (experiment.reference and experiment.reference.curves("examples")):
        name = experiment.reference_name
        return f"There is no figure of right and wrong examples, because no examples are stored for {name}."
    return (
        f"There is no figure of right and wrong examples, because the images of {experiment.dataset} are "
        "missing. The features must be pixels, or the data set's folder 'images' must contain an image file for "
        "each item key."
    )


def _figure(figure: figures.ReportFigure) -> str:
    is_sheet = figure.name.endswith("-examples")  # photographs are smaller as PNG
    path = figure.stem.with_name(f"{figure.stem.name}.{'png' if is_sheet else 'svg'}")
    kind, data = "png" if is_sheet else "svg+xml", b64encode(path.read_bytes()).decode()
    caption = escape(figure.caption)
    image = f'<img alt="{caption}" src="data:image/{kind};base64,{data}">'
    box = f'<div class="image-box{" sheet" if is_sheet else ""}" tabindex="0">{image}</div>'
    return f'<figure id="{figure.name}">\n{box}\n<figcaption>{caption}</figcaption>\n</figure>\n'


def _folded(title: str, table: ReportTable) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{table.to_html()}</details>\n" if table.rows else ""


def _failures(record: BenchmarkRecord) -> str:
    if not record.failures:
        return ""
    text = f"{len(record.failures):,} of {len(record.outcomes):,} trials failed. They have no scores."
    table = overview_tables.failures_table(record).to_html()
    return f'<section id="failures">\n<h2>Failures</h2>\n<p>{escape(text)}</p>\n{table}</section>\n'


def _conditions(record: BenchmarkRecord, present: Iterable[str], paired: bool) -> str:
    """Return the section "How it was run": command, machine, settings and significance test."""
    facts = {"Started": record.started, "Took": f"{_format_duration(record.seconds)} ({record.seconds:,.0f} s)"}
    facts |= {name: _flatten(value) for name, value in record.machine.items()}
    listed = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>\n" for name, value in facts.items()
    )
    test = (
        "Two methods are compared by a paired Student's t-test over the runs."
        if paired
        else "Methods are compared by Student's t-test for two samples with a pooled variance, as in the paper. "
        "The runs of two methods share their splits, so a paired test would be more powerful."
    )
    settings = (
        _folded(f"Settings: {_TITLES[each].lower()}", overview_tables.settings_table(record, each))
        for each in present
    )
    parts = [
        '<section id="how">\n<h2>How it was run</h2>\n',
        f'<pre tabindex="0"><code>{escape(record.command)}</code></pre>\n',
        f"<dl>\n{listed}</dl>\n",
        overview_tables.datasets_table(record).to_html() if record.datasets else "",
        *settings,
        _folded("Warnings", overview_tables.warnings_table(record)),
        f"<p>{escape(test)} A p-value below 0.05 counts as significant. The p-values are not corrected "
        "for the number of comparisons.</p>\n",
        f'<p>The paper is <a href="{paper.ADDRESS}">{escape(paper.TITLE)}</a>. {escape(_paper_defaults())}</p>\n',
        "</section>\n",
    ]
    return "".join(parts)


def _paper_defaults() -> str:
    values = ", ".join(f"{name} {value}" for name, value in paper.DEFAULTS.items())
    return f"The parameters of OAHU in the paper: {values}."


def _foot() -> str:
    text = (
        "The results are also in results.json, the tables in tables.md and tables.tex, and the figures in figures/."
    )
    return f"<footer><p>{text}</p></footer>\n"


# -- values ----------------------------------------------------------------------------------------------


def _flatten(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flatten(inner)}" for name, inner in value.items())
    return ", ".join(map(_flatten, value)) if isinstance(value, list | tuple) else str(value)


def _format_start(started: str) -> str:
    try:
        return f"{datetime.fromisoformat(started):%Y-%m-%d, %H:%M}"
    except ValueError:
        return started


def _format_duration(seconds: float) -> str:
    if not isfinite(seconds) or seconds < 0:
        return "an unknown time"
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
