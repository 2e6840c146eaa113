"""Who may do what: hosts, callers, roles, logins, forged requests, and what browsers are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route
from web_case import API, OPERATOR, TOKEN, VIEWER, asking, kind_of

from holdfast import ConfigError, Holdfast
from holdfast.web import Identity, WebSettings, create_app, hash_password
from holdfast.web.auth.passwords import is_password
from holdfast.web.auth.tokens import access_token, read_tokens

HTML = {"accept": "text/html"}
PASSWORD = "correct horse"
HASH = hash_password(PASSWORD)


class Clock:
    """The server's clock, in a test's hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file of two people."""
    path = tmp_path / "users"
    path.write_text(f"# people\nann:operator:{HASH}\nvic:viewer:{HASH}\n")
    return path


def with_tokens(url: str, **options: Any) -> Any:
    return create_app(url, tokens=[access_token(TOKEN, name="robot"), access_token(VIEWER, "viewer")], **options)


async def log_in(client: httpx.AsyncClient, name: str = "ann", secret: str = PASSWORD, **fields: str) -> httpx.Response:
    form = (await client.get("http://localhost/login", headers=HTML)).text
    csrf = re.search(r'name="csrf" value="([^"]+)"', form)
    assert csrf is not None
    data = {"name": name, "secret": secret, "csrf": csrf[1], **fields}
    return await client.post("http://localhost/login", data=data, headers={"origin": "http://localhost"})


async def csrf_of(client: httpx.AsyncClient) -> str:
    page = (await client.get("http://localhost/", headers=HTML)).text
    found = re.search(r'<meta name="csrf" content="([^"]+)"', page)
    assert found is not None
    return found[1]


JOB = {"queue": "q", "payload": 1}


# --- hosts


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True), ("localhost:8080", True), ("127.0.0.1:8080", True), ("[::1]:8080", True),
        ("10.1.2.3", True),
        ("jobs.example.com", True), ("JOBS.example.com.:443", True), ("a.wild.example.com", True),
        ("evil.example.com", False), ("localhost.evil.com", False), ("wild.example.com.evil.com", False), ("", False),
        ("127.0.0.1.evil.com", False),
    ],
)  # fmt: skip
async def test_only_names_of_this_server_are_answered(url: str, host: str, known: bool) -> None:
    settings = WebSettings(allowed_hosts=("jobs.example.com", "*.wild.example.com"))
    async with asking(create_app(url, settings=settings)) as client:
        answer = await client.get("/queues", headers={"host": host})
        assert answer.status_code == (200 if known else 400)
        if not known:
            assert kind_of(answer) == "unknown-host"
        assert (await client.get("http://localhost/live", headers={"host": host or "x"})).status_code == 200


# --- callers and roles


async def test_without_credentials_only_this_machine_is_served(url: str) -> None:
    async with asking(create_app(url), client=("10.0.0.9", 1)) as client:
        far = await client.get("/queues")
        assert (far.status_code, kind_of(far)) == (403, "not-from-here")
    async with asking(create_app(url)) as client:
        proxied = await client.get("/queues", headers={"x-forwarded-for": "10.0.0.9"})
        assert kind_of(proxied) == "not-from-here"
    aloud = WebSettings(insecure=True)
    async with asking(create_app(url, settings=aloud), client=("10.0.0.9", 1)) as client:
        assert (await client.get("/queues")).status_code == 200


async def test_a_token_has_a_role(url: str) -> None:
    async with asking(with_tokens(url)) as client:
        nobody = await client.get("/queues")
        assert (nobody.status_code, kind_of(nobody)) == (401, "unauthenticated")
        assert nobody.headers["www-authenticate"].startswith("Bearer")
        for wrong in ("Bearer nope", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x"):
            assert (await client.get("/queues", headers={"authorization": wrong})).status_code == 401
        viewer = {"authorization": f"Bearer {VIEWER}"}
        assert (await client.get("/queues", headers=viewer)).status_code == 200
        refused = await client.post("/jobs", headers=viewer, json=JOB)
        assert (refused.status_code, kind_of(refused)) == (403, "not-an-operator")
        assert (await client.post("/jobs", headers=OPERATOR, json=JOB)).status_code == 200


async def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# tokens\n\n{TOKEN}\n{VIEWER} viewer the page\nsha256:{'0' * 64} operator\n")
    found = [(token.role, token.name) for token in read_tokens(path)]
    assert found == [("operator", "operator"), ("viewer", "the page"), ("operator", "operator")]
    for text, said in (("short", "at least 16"), (f"{TOKEN} king", "line 1: role 'king' is none"), ("", "no token")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_tokens(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tokens(tmp_path / "none")


async def test_a_hook_says_who_asks(url: str) -> None:
    async def hook(connection: Any) -> Identity | None:
        name = connection.headers.get("x-user")
        return Identity(name, "operator" if name == "ann" else "viewer") if name else None

    async with asking(create_app(url, auth=hook)) as client:
        assert (await client.get("/queues")).status_code == 401
        assert (await client.get("http://localhost/", headers=HTML)).status_code == 401
        assert (await client.get("/queues", headers={"x-user": "vic"})).status_code == 200
        assert kind_of(await client.post("/jobs", headers={"x-user": "vic"}, json=JOB)) == "not-an-operator"
        assert (await client.post("/jobs", headers={"x-user": "ann"}, json=JOB)).status_code == 200
        browser = {"x-user": "ann", "cookie": "proxy=1"}
        bare = await client.post("/jobs", headers=browser, json=JOB)
        assert kind_of(bare) == "csrf", "a hook may go by a cookie, which a browser sends for anyone"
        page = (await client.get("http://localhost/", headers={**HTML, "x-user": "ann"})).text
        csrf = re.search(r'<meta name="csrf" content="([^"]+)"', page)
        assert csrf is not None
        meant = {**browser, "x-csrf-token": csrf[1]}
        assert (await client.post("/jobs", headers=meant, json=JOB)).status_code == 200


def changing_routes(web: Any) -> list[tuple[str, str]]:
    """Return every route that is no GET, but for those by which people come and go."""
    routes = [route for route in web.routes if isinstance(route, Route)]
    found = [(method, route.path) for route in routes for method in route.methods or ()]
    return [(m, path) for m, path in found if m not in ("GET", "HEAD") and path not in ("/login", "/logout")]


@pytest.mark.parametrize("who", ["read-only", "viewer", "nobody", "forged"])
async def test_nothing_changes_where_it_must_not(url: str, who: str) -> None:
    web = with_tokens(url, settings=WebSettings(read_only=who == "read-only"))
    if who == "forged":
        web = create_app(url)
    headers = {
        "read-only": OPERATOR,
        "viewer": {"authorization": f"Bearer {VIEWER}"},
        "nobody": {},
        "forged": {"origin": "http://evil.example.com"},
    }[who]
    wanted = {
        "read-only": "read-only",
        "viewer": "not-an-operator",
        "nobody": "unauthenticated",
        "forged": "other-origin",
    }
    routes = changing_routes(web)
    assert len(routes) > 20
    async with asking(web) as client:
        for method, path in routes:
            where = path.replace("{id}", "1")
            answer = await client.request(method, f"http://localhost{where}", headers=headers, json={})
            assert kind_of(answer) == wanted[who], (method, path)


# --- logins


async def test_people_log_in_and_out(url: str, users: Path) -> None:
    async with asking(create_app(url, users=users)) as client:
        away = await client.get("http://localhost/?state=failed", headers=HTML)
        assert (away.status_code, away.headers["location"]) == (303, "/login?next=%2F%3Fstate%3Dfailed")
        answer = await log_in(client, next="/?state=failed")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?state=failed")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert "Secure" not in cookie
        assert (await client.get("/queues")).status_code == 200
        stolen = client.cookies["holdfast_session"]
        csrf = await csrf_of(client)
        out = await client.post("http://localhost/logout", data={"csrf": csrf})
        assert out.status_code == 303
        assert (await client.get("/queues")).status_code == 401
        client.cookies.set("holdfast_session", stolen)
        assert (await client.get("/queues")).status_code == 401, "a login that was ended is over for everyone"


async def test_a_login_by_tls_has_a_secure_cookie(url: str, users: Path) -> None:
    async with asking(create_app(url, users=users)) as client:
        data = {"name": "ann", "secret": PASSWORD}
        answer = await client.post("https://localhost/login", data=data)
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("after", ["//evil.com", "https://evil.com", "/\\evil.com", "evil", "/a\r\nb: c", ""])
async def test_a_login_leads_nowhere_else(url: str, users: Path, after: str) -> None:
    async with asking(create_app(url, users=users)) as client:
        assert (await log_in(client, next=after)).headers["location"] == "/"


async def test_wrong_logins_are_refused_and_slowed_down(url: str, users: Path) -> None:
    clock = Clock()
    async with asking(create_app(url, users=users, settings=WebSettings(clock=clock))) as client:
        for name, secret in (("ann", "wrong"), ("nobody", PASSWORD), ("", PASSWORD), ("ann", ""), ("ann", "x" * 5000)):
            answer = await log_in(client, name, secret)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
        slow = await log_in(client)
        assert (slow.status_code, "retry-after" in slow.headers) == (429, True)
        clock.now += 2
        assert (await log_in(client)).status_code == 303


async def test_a_login_expires_and_cannot_be_forged(url: str, users: Path) -> None:
    clock = Clock()
    web = create_app(url, users=users, secret="0123456789abcdef", settings=WebSettings(clock=clock, session_seconds=60))
    async with asking(web) as client:
        await log_in(client)
        good = client.cookies["holdfast_session"]
        body, _, signature = good.partition(".")
        other = f"{signature[:-1]}{'1' if signature.endswith('0') else '0'}"
        for forged in (f"{body}x.{signature}", f"{body}.{other}", body, ".", "x.y", "ü"):
            answer = await client.get("/queues", headers={"cookie": f"holdfast_session={forged}".encode()})
            assert answer.status_code == 401, forged
        clock.now += 61
        late = await client.get("/queues")
        assert (late.status_code, kind_of(late)) == (401, "unauthenticated")
    other = create_app(url, users=users, secret="another secret!!", settings=WebSettings(clock=clock))
    async with asking(other) as client:
        clock.now -= 61
        assert (await client.get("/queues", headers={"cookie": f"holdfast_session={good}"})).status_code == 401


async def test_a_changed_password_ends_logins(url: str, users: Path) -> None:
    def change() -> None:
        users.write_text(f"vic:viewer:{hash_password('another password')}\n")

    async with asking(create_app(url, users=users)) as client:
        await log_in(client, "vic")
        assert (await client.get("/queues")).status_code == 200
        change()
        assert (await client.get("/queues")).status_code == 401


async def test_a_token_logs_in_too(url: str) -> None:
    async with asking(with_tokens(url)) as client:
        assert (await log_in(client, "", VIEWER)).status_code == 303
        assert (await client.get("/queues")).status_code == 200
        csrf = await csrf_of(client)
        refused = await client.post("/jobs", json=JOB, headers={"x-csrf-token": csrf})
        assert kind_of(refused) == "not-an-operator"


def test_passwords_are_kept_as_hashes(users: Path, tmp_path: Path) -> None:
    assert is_password(PASSWORD, HASH)
    assert not is_password(PASSWORD + " ", HASH)
    assert hash_password(PASSWORD) != HASH
    with pytest.raises(ConfigError, match="from 8 to"):
        hash_password("short")
    for text, said in (
        ("ann", "write NAME:ROLE:HASH"),
        ("ann:operator:plain", "no hash of a password"),
        (f"ann:king:{HASH}", "role 'king' is none"),
        ("", "there is no user in it"),
    ):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(ConfigError, match=said):
            create_app("memory://", users=tmp_path / "bad")
    with pytest.raises(ConfigError, match="cannot be read"):
        create_app("memory://", users=tmp_path / "none")


# --- forged requests


async def test_a_page_of_another_site_changes_nothing(url: str, users: Path) -> None:
    async with asking(create_app(url, users=users)) as client:
        await log_in(client)
        csrf = await csrf_of(client)
        bare = await client.post("/jobs", json=JOB)
        assert (bare.status_code, kind_of(bare)) == (403, "csrf")
        wrong = await client.post("/jobs", json=JOB, headers={"x-csrf-token": "0" * 64})
        assert kind_of(wrong) == "csrf"
        for headers in ({"origin": "http://evil.com"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
            forged = await client.post("/jobs", json=JOB, headers={"x-csrf-token": csrf, **headers})
            assert kind_of(forged) == "other-origin"
        meant = {"x-csrf-token": csrf, "origin": "http://localhost", "sec-fetch-site": "same-origin"}
        assert (await client.post("/jobs", json=JOB, headers=meant)).status_code == 200


async def test_on_loopback_programs_need_no_token_and_browsers_do(url: str) -> None:
    async with asking(create_app(url)) as client:
        assert (await client.post("/jobs", json=JOB)).status_code == 200
        own = {"origin": "http://localhost"}
        assert kind_of(await client.post("/jobs", json=JOB, headers=own)) == "csrf"
        csrf = await csrf_of(client)
        assert (await client.post("/jobs", json=JOB, headers={**own, "x-csrf-token": csrf})).status_code == 200


# --- what browsers are told, and how much they may send


async def test_every_answer_has_the_headers(url: str) -> None:
    async with asking(create_app(url)) as client:
        for path in ("/", "/login", "/live", "/nope", "/static/style.css", f"{API}/queues", f"{API}/job?queue=a&id=b"):
            headers = (await client.get(f"http://localhost{path}", headers=HTML)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")
            assert headers["referrer-policy"] == "same-origin"
            stored = "no-cache" if "static" in path else "no-store"
            assert headers["cache-control"] == stored, path


async def test_an_error_of_the_server_tells_nothing_of_itself(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Holdfast(url)

    async def broken() -> Any:
        raise RuntimeError("the secret path /etc/x")

    web = create_app(app)
    monkeypatch.setattr(web.state.site.glance, "queues", broken)
    async with asking(web) as client:
        answer = await client.get("/queues")
        assert (answer.status_code, kind_of(answer)) == (500, "error")
        assert "secret" not in answer.text
        assert answer.headers["x-frame-options"] == "DENY"


async def test_a_request_that_is_too_large_is_refused(url: str) -> None:
    async with asking(create_app(url, settings=WebSettings(max_body=2000))) as client:
        large = await client.post("/jobs", json={"queue": "q", "payload": "x" * 3000})
        assert (large.status_code, kind_of(large)) == (413, "body-too-large")

        async def pieces() -> Any:
            for _ in range(10):
                yield b'{"x": "' + b"x" * 1000

        headers = {"content-type": "application/json"}
        streamed = await client.post("/jobs", content=pieces(), headers=headers)
        assert (streamed.status_code, kind_of(streamed)) == (413, "body-too-large")


async def test_static_files_are_those_of_the_folder_alone(url: str) -> None:
    async with asking(create_app(url)) as client:
        for path in (
            "../templates/base.html",
            "..%2ftemplates%2fbase.html",
            "%2e%2e/__init__.py",
            "/etc/passwd",
            "nope",
        ):
            assert (await client.get(f"http://localhost/static/{path}")).status_code == 404, path
        page = (await client.get("http://localhost/", headers=HTML)).text
        address = re.search(r'href="(/static/style\.css\?v=\w+)"', page)
        assert address is not None
        kept = await client.get(f"http://localhost{address[1]}")
        assert "immutable" in kept.headers["cache-control"]
