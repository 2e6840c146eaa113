"""The application in others: the examples of the guide, as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import httpx
import pytest
from django.conf import settings as django_settings

from holdfast import Holdfast
from holdfast.web import create_app

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "web.md"
TOKEN = {"authorization": "Bearer a token of sixteen or more characters"}


def example(name: str, monkeypatch: pytest.MonkeyPatch, jobs: Holdfast) -> dict[str, Any]:
    """Return the names of an example of the guide, with `shop` as the module that it imports."""
    shop = ModuleType("shop")
    shop.app = jobs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", shop)
    block = re.search(rf"```python\n(# {name}\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    found: dict[str, Any] = {}
    exec(compile(block[1], name, "exec"), found)
    return found


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


async def check_below(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    index = (await client.get("/jobs/api/v1", headers=headers)).json()
    assert index["links"]["jobs"] == "/jobs/api/v1/jobs"
    made = await client.post("/jobs/api/v1/jobs", headers=headers, json={"queue": "q", "payload": 1})
    assert made.status_code == 200
    page = (await client.get("/jobs/", headers={**headers, "accept": "text/html"})).text
    assert 'href="/jobs/static/' in page
    assert (await client.get("/jobs/api/v1/queues")).status_code == 401


async def test_in_fastapi(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("main.py", monkeypatch, app)
    main = found["main"]
    async with main.router.lifespan_context(main), client_of(main) as client:
        await check_below(client, {"x-user": "ann"})
        refused = await client.post("/jobs/api/v1/jobs", headers={"x-user": "vic"}, json={"queue": "q", "payload": 1})
        assert refused.status_code == 403


async def test_in_django(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    if not django_settings.configured:
        django_settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
        django.setup()
    found = example("asgi.py", monkeypatch, app)
    async with client_of(found["application"]) as client:
        await check_below(client, TOKEN)
        away = await client.get("/jobs/jobs", headers={"accept": "text/html"})
        assert away.headers["location"].startswith("/jobs/login?next=%2Fjobs%2Fjobs")
    await found["web"].state.site.close()


urlpatterns: list[Any] = []


async def test_beside_flask(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("both.py", monkeypatch, app)
    found["flask"].add_url_rule("/hello", view_func=lambda: "hello")
    both = found["both"]
    async with both.router.lifespan_context(both), client_of(both) as client:
        await check_below(client, TOKEN)
        assert (await client.get("/hello")).text == "hello"


async def test_without_a_lifespan_the_first_request_opens_the_app(app: Holdfast) -> None:
    web = create_app(app)
    async with client_of(web) as client:
        assert (await client.get("/live")).status_code == 200
        assert app.loop is None
        assert (await client.get("/api/v1/queues")).status_code == 200
        assert app.loop is not None
    await web.state.site.close()
    assert app.loop is None


async def test_an_app_in_memory_can_be_looked_at_where_it_lives() -> None:
    app = Holdfast("memory://")
    web = create_app(app)
    async with app, web.router.lifespan_context(web), client_of(web) as client:
        await app.queue("q").enqueue(1)
        assert (await client.get("/api/v1/queues")).json()["queues"][0]["counts"]["waiting"] == 1


def test_an_app_is_found_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_shop.py").write_text("from holdfast import Holdfast\napp = Holdfast('memory://')\n")
    monkeypatch.chdir(tmp_path)
    assert create_app("a_shop:app").state.site.app.store.url == "memory://"
    with pytest.raises(ValueError, match="give an app"):
        create_app(3)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("holdfast.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("holdfast.distribution.find_spec", lambda name: None if name == "starlette" else object())
    with pytest.raises(ImportError, match=r"needs starlette, .* pip install 'holdfast-queue\[web\]'"):
        import holdfast.web  # noqa: F401
