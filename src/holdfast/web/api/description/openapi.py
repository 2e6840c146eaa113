"""The OpenAPI 3.1 document, made from the endpoints."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from .... import __version__
from ....json.form import JsonObject
from ...problem import PREFIX
from ..endpoint import ROOT, Endpoint

REFERENCE = "#/components/schemas/{name}"
PROBLEM: JsonObject = {
    "type": "object",
    "description": "What was wrong (RFC 9457). `type` is stable; some have more fields.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": f"^{PREFIX}"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


@lru_cache(maxsize=16)
def document(endpoints: Sequence[Endpoint], root: str = "") -> JsonObject:
    """Return the whole document."""
    kinds = _kinds(endpoints)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    known = dict(zip(map(id, kinds), schemas, strict=True))
    paths: JsonObject = {}
    for endpoint in endpoints:
        paths.setdefault(ROOT + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, known, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "A job queue over HTTP. Names and ids stand in the query: they may hold anything.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}, {"login": []}, {}],
        "tags": [{"name": name} for name in dict.fromkeys(endpoint.group for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "apiKey", "in": "cookie", "name": "holdfast_session"},
            },
        },
    }


def _kinds(endpoints: Sequence[Endpoint]) -> list[Any]:
    """Return every type that the document describes, each once."""
    found: dict[int, Any] = {}
    for endpoint in endpoints:
        for kind in (endpoint.query, endpoint.body, endpoint.answer):
            if kind is not None:
                found[id(kind)] = kind
    return list(found.values())


def _operation(endpoint: Endpoint, known: dict[int, JsonObject], components: JsonObject) -> JsonObject:
    summary, _, more = inspect.cleandoc(endpoint.handler.__doc__ or "").partition("\n\n")
    answer = {"schema": {} if endpoint.answer is None else known[id(endpoint.answer)]}
    made: JsonObject = {
        "operationId": endpoint.name,
        "summary": summary.replace("\n", " ").rstrip("."),
        "tags": [endpoint.group],
        "parameters": _parameters(endpoint.path, known[id(endpoint.query)], components),
        "responses": {
            "200": {"description": "Done.", "content": {endpoint.media: answer}},
            **({"202": {"description": "Not yet.", "content": {endpoint.media: answer}}} if _later(endpoint) else {}),
            "default": {
                "description": "A problem.",
                "content": {"application/problem+json": {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
            },
        },
    }
    if more:
        made["description"] = more.replace("\n", " ")
    if endpoint.body is not None:
        made["requestBody"] = {"required": False, "content": {"application/json": {"schema": known[id(endpoint.body)]}}}
    return made


def _later(endpoint: Endpoint) -> bool:
    """Return whether an endpoint may answer 202: it waits, or does its work in the background."""
    return endpoint.name in ("get_job_result", "enqueue_job", "start_operation")


def _parameters(path: str, schema: JsonObject, components: JsonObject) -> list[JsonObject]:
    """Return the parameters of an address, from the struct that describes them."""
    struct = components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    required = struct.get("required", ())
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in path else "query",
            "required": name in required,
            "schema": {key: value for key, value in each.items() if key != "default" or value is not None},
            **({"description": each["description"]} if "description" in each else {}),
        }
        for name, each in struct.get("properties", {}).items()
    ]
