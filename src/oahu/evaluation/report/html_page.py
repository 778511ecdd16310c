"""A record as one page to read, with its tables and figures beside it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Final

from oahu.evaluation.cells import Record
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report import figures, paper, tables
from oahu.evaluation.report.groups import PROTOCOLS, Group, groups
from oahu.evaluation.report.style import CSS
from oahu.evaluation.report.summary import about, headlines
from oahu.evaluation.report.text_table import Table
from oahu.io.atomic_files import write_atomically

__all__ = ["write"]

_TITLES: Final = {
    "classification": "Classification",
    "constraints": "Error against the number of constraints",
    "verification": "Verification",
    "retrieval": "Retrieval",
    "sensitivity": "Sensitivity to parameters",
    "regret": "Regret",
}
_INTRO: Final = {
    "classification": "Every test item gets the class that its nearest training items vote for.",
    "constraints": "The same task, learned from fewer and from more constraints.",
    "verification": "Are these two the same? Each fold of pairs is judged by a metric that never saw them.",
    "retrieval": "Each test item asks for those most like it among the other test items.",
    "sensitivity": "One parameter of OAHU changes; all others stay as they are.",
    "regret": "What it cost not to know from the start which depth would be best.",
}
_LATEX_HEAD: Final = "% \\usepackage{booktabs,graphicx} in the preamble; \\input this file.\n\n"


def write(
    record: Record, folder: str | Path, datasets: Mapping[str, Dataset] | None = None, paired: bool = False
) -> Path:
    """Write ``tables.md``, ``tables.tex``, ``figures/`` and ``report.html`` into a folder.

    A report that is there is replaced, with its figures. Without matplotlib there are none, and the report says so.

    Parameters
    ----------
    record : Record
    folder : path
        Made if it does not exist.
    datasets : dict of Dataset by name, optional
        For example sheets: those with images show the pairs and queries that were kept.
    paired : bool
        Compare run by run instead of by the paper's test.

    Returns
    -------
    path : Path
        Of ``report.html``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = tables.everything(record, paired)
    write_atomically(folder / "tables.md", "\n".join(table.to_markdown() for table in made))
    write_atomically(folder / "tables.tex", _LATEX_HEAD + "\n".join(table.to_latex() for table in made))
    _clear(folder / "figures")
    drawn, problem = _draw(record, folder / "figures", datasets)
    page = _page(record, drawn, problem, paired)
    path = folder / "report.html"
    write_atomically(path, page)
    return path


def _clear(figures: Path) -> None:
    """Remove the figures of a report that was here: files of that name and kind, nothing else."""
    for protocol in PROTOCOLS:
        for kind in ("png", "svg"):
            for path in figures.glob(f"{protocol}-*.{kind}"):
                path.unlink()


def _draw(
    record: Record, folder: Path, datasets: Mapping[str, Dataset] | None
) -> tuple[list[figures.Drawing], str | None]:
    try:
        return figures.draw_all(record, folder, datasets), None
    except ImportError as error:
        return [], f"There are no figures: {error}"


# -- the page --------------------------------------------------------------------------------------------


def _page(record: Record, drawn: list[figures.Drawing], problem: str | None, paired: bool) -> str:
    present = [protocol for protocol in PROTOCOLS if groups(record, protocol)]
    body = [_head(record), _contents(present, bool(record.failures)), "<main>", _summary(record, problem, paired)]
    body += [_protocol(record, protocol, drawn, paired) for protocol in present]
    body += [_failures(record), _how(record, present, paired), "</main>", _foot()]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>OAHU, measured</title>\n<style>{CSS}</style>\n</head>\n<body>\n{''.join(body)}</body>\n</html>\n"
    )


def _head(record: Record) -> str:
    n = sum(outcome.cell.stage == "result" and outcome.error is None for outcome in record.outcomes)
    names = ", ".join(record.datasets) or "no data set"
    words = f"{n:,} measurements on {names}. Started {_moment(record.started)}; took {_duration(record.seconds)}."
    return f'<header>\n<h1>OAHU, measured</h1>\n<p class="lead">{escape(words)}</p>\n</header>\n'


def _contents(present: Iterable[str], failed: bool) -> str:
    links = [("summary", "Summary"), *((protocol, _TITLES[protocol]) for protocol in present)]
    links += [("failures", "Failures")] if failed else []
    links.append(("how", "How it was run"))
    items = "".join(f'<li><a href="#{to}">{escape(name)}</a></li>' for to, name in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>\n'


def _summary(record: Record, problem: str | None, paired: bool) -> str:
    said = headlines(record, paired) + ([problem] if problem else [])
    items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in said)
    test = "a paired Student's t-test over the runs" if paired else "Student's t-test over the runs"
    legend = (
        f'<p class="legend"><span><b>•</b> OAHU is significantly better</span> '
        "<span><b>∘</b> OAHU is significantly worse</span> "
        f"<span>no mark: no significant difference</span> <span>by {test}, at 0.05</span> "
        "<span><strong>bold</strong>: the best of its column</span></p>\n"
    )
    glance = tables.at_a_glance(record, paired)
    table = glance.to_html() if glance.rows else ""
    return f'<section id="summary">\n<h2>Summary</h2>\n<ul class="said">\n{items}</ul>\n{table}{legend}</section>\n'


def _protocol(record: Record, protocol: str, drawn: list[figures.Drawing], paired: bool) -> str:
    parts = [f'<section id="{protocol}">\n<h2>{_TITLES[protocol]}</h2>\n<p>{escape(_INTRO[protocol])}</p>\n']
    if protocol in ("classification", "verification", "retrieval"):
        counted = tables.win_tie_loss(record, protocol, paired)
        several = len({group.dataset for group in groups(record, protocol)}) > 1
        parts += [table.to_html() for table in counted if several]
    for group in groups(record, protocol):
        parts.append(_group(group, [drawing for drawing in drawn if drawing.group == group.slug], paired))
    parts.append(_folded("Where the time went", tables.time(record, protocol)))
    return "".join([*parts, "</section>\n"])


def _group(group: Group, drawn: list[figures.Drawing], paired: bool) -> str:
    said = about(group, paired)
    parts = [
        f'<section id="{group.slug}">\n<h3>{escape(group.title)}</h3>\n',
        f"<p>{escape(said)}</p>\n" if said else "",
    ]
    parts.append(tables.of_group(group, paired).to_html())
    if group.protocol == "verification":
        parts.append(_folded("AUC per fold", tables.auc_by_fold(group)))
    if drawn:
        parts.append(f'<div class="figures">\n{"".join(map(_figure, drawn))}</div>\n')
    if group.protocol in ("verification", "retrieval") and not any(d.name.endswith("-examples") for d in drawn):
        parts.append(f'<p class="absent">{escape(_no_sheet(group))}</p>\n')
    return "".join([*parts, "</section>\n"])


def _no_sheet(group: Group) -> str:
    if not (group.ours and group.ours.curves("examples")):
        return "There is no sheet of right and wrong examples: OAHU kept none."
    return (
        f"There is no sheet of right and wrong examples: it needs the images of {group.dataset}: pixels as "
        "features, or image files named as the items are, in the set's folder images."
    )


def _figure(drawing: figures.Drawing) -> str:
    sheet = drawing.name.endswith("-examples")  # photographs: as pixels they are smaller
    path = drawing.stem.with_name(f"{drawing.stem.name}.{'png' if sheet else 'svg'}")
    kind, data = "png" if sheet else "svg+xml", b64encode(path.read_bytes()).decode()
    caption = escape(drawing.caption)
    image = f'<img alt="{caption}" src="data:image/{kind};base64,{data}">'
    image = f'<div class="picture{" sheet" if sheet else ""}" tabindex="0">{image}</div>'
    return f'<figure id="{drawing.name}">\n{image}\n<figcaption>{caption}</figcaption>\n</figure>\n'


def _folded(title: str, table: Table) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{table.to_html()}</details>\n" if table.rows else ""


def _failures(record: Record) -> str:
    if not record.failures:
        return ""
    words = f"{len(record.failures):,} of {len(record.outcomes):,} measurements have no scores."
    table = tables.failures(record).to_html()
    return f'<section id="failures">\n<h2>Failures</h2>\n<p>{escape(words)}</p>\n{table}</section>\n'


def _how(record: Record, present: Iterable[str], paired: bool) -> str:
    facts = {"Started": record.started, "Took": f"{_duration(record.seconds)} ({record.seconds:,.0f} s)"}
    facts |= {name: _words(value) for name, value in record.machine.items()}
    listed = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>\n" for name, value in facts.items()
    )
    test = (
        "Two methods are compared run by run, by a paired Student's t-test."
        if paired
        else "Two methods are compared by Student's t-test for two samples with a pooled variance, the one that "
        "the paper names. Runs share their splits, so a paired test would be sharper."
    )
    parts = [
        '<section id="how">\n<h2>How it was run</h2>\n',
        f'<pre tabindex="0"><code>{escape(record.command)}</code></pre>\n',
        f"<dl>\n{listed}</dl>\n",
        tables.datasets(record).to_html() if record.datasets else "",
        *(_folded(f"Settings: {_TITLES[each].lower()}", tables.settings(record, each)) for each in present),
        _folded("Warnings", tables.warned(record)),
        f"<p>{escape(test)} A p-value below 0.05 counts; it is not corrected for the number of comparisons.</p>\n",
        f'<p>The paper is <a href="{paper.ADDRESS}">{escape(paper.TITLE)}</a>. {escape(_defaults())}</p>\n',
        "</section>\n",
    ]
    return "".join(parts)


def _defaults() -> str:
    said = ", ".join(f"{name} {value}" for name, value in paper.DEFAULTS.items())
    return f"Its parameters of OAHU: {said}."


def _foot() -> str:
    where = "The numbers are in results.json, the tables in tables.md and tables.tex, the figures in figures."
    return f"<footer><p>{where}</p></footer>\n"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(inner)}" for name, inner in value.items())
    return ", ".join(map(_words, value)) if isinstance(value, list | tuple) else str(value)


def _moment(started: str) -> str:
    try:
        return f"{datetime.fromisoformat(started):%Y-%m-%d, %H:%M}"
    except ValueError:
        return started


def _duration(seconds: float) -> str:
    if not isfinite(seconds) or seconds < 0:
        return "an unknown time"
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
