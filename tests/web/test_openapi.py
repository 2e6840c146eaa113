"""The OpenAPI document is valid, and has every route of the API."""

from __future__ import annotations

import msgspec
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route
from web_case import DOCUMENT, serving

from holdfast.web import api, create_app


def test_the_document_is_valid() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    assert [error.message for error in OpenAPIV31SpecValidator(plain).iter_errors()] == []


def test_every_route_is_in_the_document(url: str) -> None:
    routes = [route for route in create_app(url).routes if isinstance(route, Route) and "/api/" in route.path]
    found = {(route.path, method) for route in routes for method in route.methods or () if method != "HEAD"}
    described = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert found == described


async def test_a_method_that_an_address_does_not_take_is_refused_with_those_that_it_takes(url: str) -> None:
    async with serving(url) as client:
        wrong = await client.put("/jobs")
        assert wrong.status_code == 405
        assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_every_operation_is_described_and_has_a_name_of_its_own() -> None:
    names = [endpoint.name for endpoint in api.ENDPOINTS]
    assert len(names) == len(set(names))
    assert [endpoint.name for endpoint in api.ENDPOINTS if not endpoint.handler.__doc__] == []
    assert [endpoint.name for endpoint in api.ENDPOINTS if endpoint.answer is None] == []


async def test_the_document_is_served(url: str) -> None:
    async with serving(url) as client:
        assert (await client.get("/openapi.json")).json()["openapi"] == "3.1.0"
