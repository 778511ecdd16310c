"""Sphinx extension that writes the reference pages: Python API, commands and HTTP API.

The pages are generated from the code when the site is built: from ``oahu.__all__``, from the typer application and
from the OpenAPI schema of the service.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

import oahu

GROUPS = {
    "Learners": "Learners of oahu, the paper and its peers.",
    "Metrics": "Frozen metrics, as `learner.metric()` returns them.",
    "Tasks": "Classification, comparison and retrieval with any metric.",
    "Constraints": "Constraints, their closure, and sampling from labels.",
    "Files and streams": "Model files, feature tables and streams of constraints.",
    "Service client": "Python client of the live service.",
    "Errors": "Exceptions. All of them inherit from `OAHUError`.",
    "Other names": "",
}
MODULES = {
    "oahu.learners": "Learners",
    "oahu.metrics": "Metrics",
    "oahu.tasks": "Tasks",
    "oahu.constraints": "Constraints",
    "oahu.io": "Files and streams",
    "oahu.client": "Service client",
    "oahu.exceptions": "Errors",
}


# -- Python API ------------------------------------------------------------------------------------------


def group_of(name: str) -> str:
    """Return the group of a public name."""
    if name == "load":
        return "Files and streams"
    if name == "LEARNERS":
        return "Learners"
    module = getattr(getattr(oahu, name), "__module__", "")
    return next((group for prefix, group in MODULES.items() if module.startswith(prefix)), "Other names")


def api_page() -> str:
    """Return the page of all public names, with a page for each class and function."""
    members: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in sorted(oahu.__all__, key=str.lower):
        if not name.startswith("__"):
            members[group_of(name)].append(name)
    text = "Python API\n==========\n\n.. currentmodule:: oahu\n"
    for group, names in members.items():
        documented = [name for name in names if callable(getattr(oahu, name))]
        constants = [name for name in names if name not in documented]
        if not names:
            continue
        text += f"\n{group}\n{'-' * len(group)}\n\n{GROUPS[group]}\n\n"
        if documented:
            text += ".. autosummary::\n   :toctree: python\n   :nosignatures:\n\n"
            text += "".join(f"   {name}\n" for name in documented)
        for name in constants:
            text += f"\n.. data:: {name}\n\n   {type(getattr(oahu, name)).__name__}: ``{getattr(oahu, name)!r}``\n"
    return text


# -- commands --------------------------------------------------------------------------------------------


def command_page() -> str:
    """Return the page of all commands, with the help text that each prints."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from oahu.cli import app

    app.rich_markup_mode = None  # plain text instead of boxes
    text = "# Commands\n\n`oahu --install-completion` installs completion for the current shell.\n"
    for words in _command_names(get_command(app)):
        help_text = CliRunner().invoke(app, [*words, "--help"], prog_name="oahu", env={"COLUMNS": "100"}).output
        text += f"\n## oahu {' '.join(words)}\n\n```text\n{help_text.strip()}\n```\n"
    return text


def _command_names(command: Any, parents: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the words of each command, without the program's name."""
    children = getattr(command, "commands", {}).items()
    below = [words for name, child in children for words in _command_names(child, (*parents, name))]
    return [parents, *below] if parents else below


def _escape(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


# -- HTTP API --------------------------------------------------------------------------------------------


def http_page() -> str:
    """Return the page of all HTTP operations and their JSON objects."""
    schema = _openapi()
    text = "# HTTP API\n\nA running service publishes this schema as OpenAPI under `/v1/openapi.json`.\n"
    tags: dict[str, str] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["service"])[0]
            tags[tag] = tags.get(tag, "") + _operation(method, path, operation)
    for tag, operations in tags.items():
        text += f"\n## {tag.capitalize()}\n{operations}"
    text += "\n## Objects\n"
    for name, fields in sorted(schema["components"]["schemas"].items()):
        text += f"\n### {name}\n\n{_description(fields)}\n\n{_field_table(fields)}"
    return text


def _openapi() -> dict[str, Any]:
    from oahu.service.api.app import create_app
    from oahu.service.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data=Path(folder), page=False))
        try:
            return app.openapi()
        finally:
            app.state.service.close()


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    text = f"\n### {method.upper()} {path}\n\n{_description(operation) or operation.get('summary', '')}\n"
    parameters = operation.get("parameters", [])
    if parameters:
        text += "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
        for one in parameters:
            name = f"`{one['name']}`" + (" (required)" if one.get("required") else "")
            meaning = _description(one) or _description(one["schema"])
            text += f"| {name} | {one['in']} | {_type(one['schema'])} | {_escape(meaning)} |\n"
    if "requestBody" in operation:
        text += f"\nRequest: {_contents(operation['requestBody'])}\n"
    for status, response in operation.get("responses", {}).items():
        if status.startswith("2"):
            text += f"\nResponse {status}: {_contents(response) or response.get('description', '')}\n"
    errors = [status for status in operation.get("responses", {}) if not status.startswith("2")]
    return text + (f"\nErrors: {', '.join(errors)} ([Problem](#problem)).\n" if errors else "")


def _contents(body: dict[str, Any]) -> str:
    entries = body.get("content", {}).items()
    return ", ".join(f"`{kind}` {_type(entry.get('schema', {}))}".strip() for kind, entry in entries)


def _description(entry: dict[str, Any]) -> str:
    return " ".join(entry.get("description", "").split())


def _field_table(schema: dict[str, Any]) -> str:
    fields = schema.get("properties")
    if not fields:
        return f"Type: {_type(schema)}\n"
    text = "| field | type | meaning |\n|---|---|---|\n"
    for name, field in fields.items():
        required = " (required)" if name in schema.get("required", ()) else ""
        text += f"| `{name}`{required} | {_type(field)} | {_escape(_description(field))} |\n"
    return text


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{re.sub(r'[^a-z0-9_-]', '', name.lower())})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


# -- Sphinx ----------------------------------------------------------------------------------------------


def write_pages(app: Sphinx, _: Config) -> None:
    """Write the pages, and leave unchanged files alone so that Sphinx does not read them again."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in {"api.rst": api_page(), "commands.md": command_page(), "http.md": http_page()}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip the methods of scikit-learn's metadata routing, which refer to pages of scikit-learn."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name) else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", write_pages)  # before Sphinx lists the source files
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}
