"""Tests of the HTML report: contents, structure, escaping and missing parts."""

from __future__ import annotations

import re
from base64 import b64decode
from html.parser import HTMLParser
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.report import figures, html_page, paper
from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial

pytestmark = pytest.mark.slow

EMPTY = ("img", "meta", "br", "hr", "link", "input")
EVIL = "<b>&\"'<script>alert(1)</script>"


class Page(HTMLParser):
    """Parses a page; a tag that is not closed is an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def outcome(protocol: str, method: str, run: int, **more: Any) -> Outcome:
    scores, curves, dataset = more.pop("scores", {}), more.pop("curves", {}), more.pop("dataset", "digits")
    return Outcome(Trial(protocol, dataset, method, run, more), scores, curves, {"learning": 1.0})


def record(*outcomes: Outcome, **more: Any) -> BenchmarkRecord:
    machine = {"processor": "a & b", "cores": 2, "versions": {"numpy": "2.0"}}
    given = {
        "command": "oahu benchmark",
        "started": "2026-01-02T03:04:05",
        "seconds": 3725.0,
        "machine": machine,
        **more,
    }
    return BenchmarkRecord(
        **given,
        datasets={"digits": {"n_items": 5, "n_features": 4, "n_classes": 2}},
        outcomes=outcomes,
        reference="OAHU",
    )


def of_all_protocols(method: str = "OAHU") -> list[Outcome]:
    weights = {"weights": {"rounds": [0, 9], "weights": [[0.5, 0.5], [0.2, 0.8]]}}
    roc = {"roc": {"far": [0, 0.5, 1], "tar": [0, 0.9, 1]}}
    regret = {"regret": {"rounds": [1, 9], "regret": [0.5, 1.0], "bound": [1.0, 3.0]}}
    made = []
    for run in range(2):
        e = 0.2 + run / 100
        rates = {"error_rate": e, "macro_f1": 1 - e, "utilization": nan}
        made += [
            outcome("classification", name, run, scores=rates, curves=weights) for name in (method, "Euclidean")
        ]
        made += [outcome("constraints", method, run, scores=rates, n_constraints=n) for n in (1000, 2000)]
        made.append(
            outcome("verification", method, run, scores={"auc": 1 - e, "accuracy": 0.7, "eer": e}, curves=roc)
        )
        made.append(outcome("retrieval", method, run, scores={"recall@1": 0.5, "recall@2": 0.6}, curves=weights))
        made += [
            outcome("sensitivity", method, run, scores=rates, vary="tau", params={"tau": v}) for v in (0.1, 0.9)
        ]
        made.append(outcome("regret", method, run, scores={"regret": 1.0, "bound": 3.0}, curves=regret))
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a report with all protocols."""
    return html_page.write(record(*of_all_protocols()), tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture(scope="module")
def page(path: Path) -> Page:
    return Page(path)


def test_all_files_are_written(path: Path) -> None:
    assert path.name == "report.html"
    assert {each.name for each in path.parent.iterdir()} == {"report.html", "tables.md", "tables.tex", "figures"}


def test_each_protocol_has_a_section(page: Page) -> None:
    sections = [attrs["id"] for attrs in page.all("section")]
    protocols = ["classification", "constraints", "verification", "retrieval", "sensitivity", "regret"]
    assert [name for name in sections if name in protocols] == protocols
    links = {str(attrs["href"])[1:] for attrs in page.all("a") if str(attrs["href"]).startswith("#")}
    assert links == {"summary", *protocols, "how"}


def test_ids_are_unique(page: Page) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_page_has_no_external_resources(page: Page, path: Path) -> None:
    assert page.all("script") == page.all("link") == []
    assert all(str(attrs["src"]).startswith("data:image/") for attrs in page.all("img"))
    outside = {attrs["href"] for attrs in page.all("a") if not str(attrs["href"]).startswith("#")}
    assert outside == {paper.ADDRESS}
    style = re.search("<style>(.*?)</style>", path.read_text(), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_figures_are_embedded_and_described(page: Page, path: Path) -> None:
    images = page.all("img")
    assert len(images) == len(list((path.parent / "figures").glob("*.svg"))) == 12
    assert all(attrs["alt"] for attrs in images)
    assert b"<svg" in b64decode(str(images[0]["src"]).partition(",")[2])


def test_tables_have_captions_and_scopes(page: Page) -> None:
    assert len(page.all("caption")) == len(page.all("table")) > 10
    assert {attrs.get("scope") for attrs in page.all("th")} == {"row", "col"}


def test_heading_levels(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_all_values_are_escaped(tmp_path: Path) -> None:
    mixed = [
        *of_all_protocols(EVIL),
        outcome("classification", "OAHU", 0, dataset=EVIL, scores={"error_rate": 0.1}),
    ]
    mixed.append(Outcome(Trial("regret", EVIL, EVIL, 0, {"scaling": EVIL}), error=EVIL))
    with_markup = record(*mixed, command=EVIL, started=EVIL, machine={EVIL: EVIL})
    page = Page(html_page.write(with_markup, tmp_path))
    assert page.all("script") == page.all("b")[2:] == []
    assert page.text.count(EVIL) > 20


def test_command_and_machine_are_shown(page: Page) -> None:
    for words in ("oahu benchmark", "a & b", "numpy 2.0", "1 h 02 min (3,725 s)", "2026-01-02T03:04:05"):
        assert words in page.text
    assert "two samples with a pooled variance" in page.text


def test_paired_test_is_stated(tmp_path: Path) -> None:
    assert "by a paired Student's t-test" in Page(html_page.write(record(), tmp_path, paired=True)).text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1.25, "1.2 seconds"), (59.0, "59.0 seconds"), (61.0, "1 min 01 s"), (nan, "an unknown time")],
)
def test_duration_format(tmp_path: Path, seconds: float, words: str) -> None:
    assert f"took {words}." in Page(html_page.write(record(seconds=seconds), tmp_path)).text


def test_empty_record(tmp_path: Path) -> None:
    page = Page(html_page.write(record(), tmp_path))
    assert "Nothing was measured." in page.text
    assert page.all("img") == []


def test_record_with_failures_only(tmp_path: Path) -> None:
    page = Page(
        html_page.write(record(Outcome(Trial("classification", "digits", "LEGO", 4), error="E: x < y")), tmp_path)
    )
    assert "E: x < y" in page.text
    assert "failures" in [attrs.get("id") for attrs in page.all("section")]


def test_single_run(tmp_path: Path) -> None:
    one = [each for each in of_all_protocols() if each.trial.run == 0 and each.trial.protocol == "classification"]
    assert "no standard deviation and no significance test" in Page(html_page.write(record(*one), tmp_path)).text


def test_nan_is_shown_as_a_dash(tmp_path: Path) -> None:
    nothing = [
        outcome("classification", method, run, scores={"error_rate": nan})
        for method in ("OAHU", "LEGO")
        for run in (0, 1)
    ]
    text = Page(html_page.write(record(*nothing), tmp_path)).text
    assert "nan" not in text.lower().split()


def with_examples() -> BenchmarkRecord:
    examples = {"right": [{"a": 0, "b": 1, "same": True, "vote_share": 0.9}], "wrong": []}
    return record(outcome("verification", "OAHU", 0, scores={"auc": 0.9}, curves={"examples": examples}))


def test_report_states_that_images_are_missing(tmp_path: Path) -> None:
    assert "because the images of digits are missing" in Page(html_page.write(with_examples(), tmp_path)).text


def test_example_sheet_with_images(tmp_path: Path) -> None:
    dataset = Dataset("digits", np.arange(8.0).reshape(2, 4), np.arange(2), image_shape=(2, 2))
    page = Page(html_page.write(with_examples(), tmp_path, {"digits": dataset}))
    assert any(str(attrs["src"]).startswith("data:image/png") for attrs in page.all("img"))
    assert "the images of digits are missing" not in page.text


def test_report_states_that_examples_are_missing(page: Page) -> None:
    assert "no examples are stored for OAHU" in page.text


def test_report_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise ImportError("oahu.plots needs matplotlib. Install it with: pip install 'oahu[plots]'")

    monkeypatch.setattr(figures, "draw_all", missing)
    page = Page(html_page.write(record(*of_all_protocols()), tmp_path))
    assert "The report has no figures: oahu.plots needs matplotlib" in page.text
    assert page.all("img") == []
    assert page.all("table")


def test_report_can_be_replaced(tmp_path: Path) -> None:
    some = record(*(each for each in of_all_protocols() if each.trial.protocol == "regret"))
    first = html_page.write(some, tmp_path).read_bytes()
    assert html_page.write(some, tmp_path).read_bytes() == first
