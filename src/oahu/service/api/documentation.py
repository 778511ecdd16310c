"""The API documentation as one HTML page, generated from the OpenAPI document. The page loads nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

__all__ = ["documentation_page"]

Schema = Mapping[str, Any]

_MAX_DEPTH: Final = 4  # of examples
_CODE: Final = re.compile(r"``(.+?)``")
_REFERENCE: Final = "#/components/schemas/"
_PATH_EXAMPLES: Final = {"name": "teas", "key": "sencha", "seq": "1", "source": "session-1"}
_METHODS: Final = ("get", "put", "post", "patch", "delete")
_LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} elements",
    "maxItems": "at most {} elements",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --accent: #7aa2ff; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); }
nav a { display: block; text-decoration: none; font-size: .875rem; overflow-wrap: anywhere; }
nav h2 { font-size: .875rem; margin: 1rem 0 .25rem; text-transform: capitalize; }
main { padding: 1rem 2rem 4rem; max-width: 62rem; }
a { color: var(--accent); }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
h3 { overflow-wrap: anywhere; } h3 b { color: var(--accent); text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; }
th, td { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
td p { margin: 0; }
code, pre { font: .875em ui-monospace, monospace; background: var(--soft); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .75rem; overflow: auto; }
summary { cursor: pointer; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } }
"""
_INTRODUCTION: Final = """
<p>Requests and responses are JSON. If the service has API keys, send one in the header
<code>Authorization: Bearer oahu_...</code>. Errors are problem details (RFC 9457): they contain the error, its
location in the request, and the expected value. An operation with the header <code>Idempotency-Key</code> can be
repeated safely with this header. This page is generated from the <a href="openapi.json">OpenAPI document</a>.</p>
"""


def documentation_page(document: Schema, url: str) -> str:
    """Return the HTML page for an OpenAPI document. ``url`` is the address of the service in the examples."""
    schemas: Schema = document["components"]["schemas"]
    title = f"{escape(document['info']['title'])} {escape(document['info']['version'])}"
    operations = list(_operations(document))
    navigation, sections, tag = [], [], None
    for operation in operations:
        if operation["tag"] != tag:
            tag = operation["tag"]
            navigation.append(f"<h2>{escape(tag)}</h2>")
        navigation.append(f'<a href="#{operation["id"]}">{escape(operation["title"])}</a>')
        sections.append(_operation_section(operation, schemas, url))
    navigation.append('<h2><a href="#schemas">Schemas</a></h2>')
    described = [_schema_section(name, schemas[name], schemas) for name in sorted(schemas)]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: HTTP API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<nav aria-label="Operations">{"".join(navigation)}</nav><main><h1>{title}: HTTP API</h1>{_INTRODUCTION}'
        f'{"".join(sections)}<h2 id="schemas">Schemas</h2>{"".join(described)}</main></body></html>'
    )


def _operations(document: Schema) -> Iterator[dict[str, Any]]:
    """Yield all operations, with path, method, tag, title and id."""
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = methods[method]
                yield {
                    **operation,
                    "path": path,
                    "method": method,
                    "tag": operation["tags"][0],
                    "title": operation["summary"],
                    "id": operation["operationId"],
                }


def _operation_section(operation: Schema, schemas: Schema, url: str) -> str:
    method, path = operation["method"], escape(operation["path"])
    parts = [f"<h3><b>{method}</b> <code>{path}</code></h3>", _text(operation["description"])]
    if parameters := operation.get("parameters"):
        rows = [
            (f"{one['name']} ({one['in']})", one["schema"], one.get("required", False), one.get("description", ""))
            for one in parameters
        ]
        parts.append("<h4>Parameters</h4>" + _table(rows))
    if body := operation.get("requestBody"):
        kind, content = next(iter(body["content"].items()))
        parts.append(f"<h4>Request body</h4><p>{_type(content['schema'])} ({escape(kind)})</p>")
    parts.append(f"<h4>Example</h4><pre>{escape(_curl(operation, schemas, url))}</pre>")
    for status, response in operation["responses"].items():
        if status < "400":
            kinds = [_type(one["schema"]) for one in response.get("content", {}).values() if one.get("schema")]
            parts.append(
                f"<h4>Response {status}</h4><p>{' or '.join(kinds) or escape(response['description'])}</p>"
            )
    errors = [
        f"<li>{status}: {escape(response['description'])}</li>"
        for status, response in operation["responses"].items()
        if status >= "400"
    ]
    parts.append(f"<details><summary>Errors</summary><ul>{''.join(errors)}</ul></details>")
    return f'<section id="{operation["id"]}">{"".join(parts)}</section>'


def _schema_section(name: str, schema: Schema, schemas: Schema) -> str:
    required = schema.get("required", ())
    fields = [
        (field, inner, field in required, inner.get("description", ""))
        for field, inner in schema.get("properties", {}).items()
    ]
    example = json.dumps(_example(schema, schemas), ensure_ascii=False, indent=2)
    return (
        f'<section id="schema-{escape(name)}"><h3>{escape(name)}</h3>{_text(schema.get("description", ""))}'
        f"{_table(fields) if fields else f'<p>{_type(schema)}</p>'}"
        f"<details><summary>Example</summary><pre>{escape(example)}</pre></details></section>"
    )


def _table(rows: list[tuple[str, Schema, bool, str]]) -> str:
    cells = [
        f"<tr><td><code>{escape(name)}</code>{'' if required else ' <small>optional</small>'}</td>"
        f"<td>{_type(schema)}{_limits(schema)}</td><td>{_text(description)}</td></tr>"
        for name, schema, required, description in rows
    ]
    return f"<table><tr><th>Name</th><th>Type</th><th>Description</th></tr>{''.join(cells)}</table>"


def _type(schema: Schema) -> str:
    """Return the type of a schema as HTML. References are links."""
    if reference := schema.get("$ref"):
        name = escape(reference.removeprefix(_REFERENCE))
        return f'<a href="#schema-{name}">{name}</a>'
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[choice]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(schema.get("format") or schema.get("type") or "any JSON value")


def _limits(schema: Schema) -> str:
    """Return the limits and the default of a value as HTML."""
    limits = [text.format(schema[name]) for name, text in _LIMITS.items() if name in schema]
    for inner in schema.get("anyOf", ()):
        limits += [text.format(inner[name]) for name, text in _LIMITS.items() if name in inner]
    if schema.get("default") not in (None, [], {}):
        limits.append(f"default {json.dumps(schema['default'])}")
    return f"<br><small>{escape(', '.join(limits))}</small>" if limits else ""


def _text(text: str) -> str:
    """Return a description as HTML paragraphs."""
    marked = _CODE.sub(r"<code>\1</code>", escape(text))
    return "".join(f"<p>{part}</p>" for part in marked.split("\n\n") if part.strip())


def _curl(operation: Schema, schemas: Schema, url: str) -> str:
    """Return a curl command with example values."""
    path = operation["path"]
    for name, example in _PATH_EXAMPLES.items():
        path = path.replace(f"{{{name}}}", example)
    method = "" if operation["method"] == "get" else f"-X {operation['method'].upper()} "
    command = f"curl {method}{url.rstrip('/')}{path}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind != "application/json":
            return f"{command} -H 'Content-Type: {kind}' --data-binary @FILE"
        example = json.dumps(_example(content["schema"], schemas), ensure_ascii=False).replace("'", r"'\''")
        command += f" \\\n  -H 'Content-Type: {kind}' \\\n  -d '{example}'"
    return command


def _example(schema: Schema, schemas: Schema, depth: int = 0) -> Any:
    """Return an example value of a schema, with its required fields and the fields that have an example."""
    if "examples" in schema:
        return schema["examples"][0]
    if reference := schema.get("$ref"):
        return _example(schemas[reference.removeprefix(_REFERENCE)], schemas, depth)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _example(schema[choice][0], schemas, depth)
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    kind = schema.get("type")
    if kind == "array":
        return [] if depth > _MAX_DEPTH else [_example(schema.get("items", {}), schemas, depth + 1)]
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: _example(inner, schemas, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if depth <= _MAX_DEPTH and (name in required or "examples" in inner)
        }
    return {"string": "text", "integer": int(schema.get("minimum", 1)), "number": 0.5, "boolean": True}.get(
        str(kind)
    )
