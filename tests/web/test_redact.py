"""What nobody sees through the server."""

from __future__ import annotations

from typing import Any

import pytest
from support import burst
from web_case import serving

from holdfast import ConfigError, Holdfast
from holdfast.web.redact import HIDDEN, Redaction, Redactor, pruned, redaction_of


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "userPassword", "api_key", "apiKey", "API-KEY", "x-api-key", "Authorization", "tokens",
     "access_token", "clientSecret", "secrets", "db.passwd", "set-cookie", "privateKey"],
)  # fmt: skip
def test_usual_names_are_hidden(name: str) -> None:
    assert Redactor(Redaction()).value({"a": [{name: "x"}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", ["user", "tokenizer", "secretary", "passwordless", "key", "author", "keys", "pass"])
def test_other_names_are_shown(name: str) -> None:
    assert Redactor(Redaction()).value({name: "x"}) == {name: "x"}


def test_fields_are_hidden_by_task_and_path() -> None:
    rules = redaction_of(["pin", "charge:card.number", "charge:cvv2", "vault:*"])
    redactor = Redactor(rules)
    payload = {"card": {"number": 1, "name": "a"}, "number": 2, "items": [{"cvv2": 3}], "pin": 4}
    assert redactor.value(payload, "charge") == {
        "card": {"number": HIDDEN, "name": "a"}, "number": 2, "items": [{"cvv2": HIDDEN}], "pin": HIDDEN,
    }  # fmt: skip
    assert redactor.value(payload, "other")["card"]["number"] == 1
    assert redactor.value(payload, "vault") == HIDDEN
    assert redactor.value({"base64": "eA=="}, "charge") == HIDDEN
    assert redactor.value({"base64": "eA=="}, "other") == {"base64": "eA=="}


def test_rules_that_are_none_are_refused() -> None:
    for word in ("", ":x", "task:"):
        with pytest.raises(ConfigError, match="redact"):
            redaction_of([word])
    with pytest.raises(ConfigError, match="give a list of names"):
        Redaction(names="password")  # type: ignore[arg-type]


def test_deep_values_end_somewhere() -> None:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    assert HIDDEN in str(Redactor(Redaction()).value(value))


def test_a_value_is_cut_to_a_budget() -> None:
    value = {"a": "x" * 100, "b": list(range(1000)), "c": {"d": "y" * 100}}
    small = pruned(value, 60)
    assert len(str(small)) < 120
    assert pruned({"a": [1, None, True]}, 100) == {"a": [1, None, True]}


async def test_nothing_hidden_leaves_the_server(url: str) -> None:
    app = Holdfast(url)
    queue = app.queue("q", history="payloads")

    class Odd(Exception):
        def __init__(self) -> None:
            super().__init__("went wrong")
            self.password = "hunter2"

    @app.task(queue="q")
    async def work(user: str, password: str) -> dict[str, str]:
        if user == "bad":
            raise Odd
        return {"user": user, "token": password}

    async with serving(app) as client:
        options = {"headers": {"authorization": "hunter2", "x-trace": "1"}, "retry": {"failures": 1}}
        for user in ("ann", "bad"):
            kwargs = {"user": user, "password": "hunter2"}
            await client.post("/jobs", json={"task": "work", "kwargs": kwargs, "id": user, **options})
        await burst(app, "q")
        spec = {"type": "every", "seconds": 60}
        call = {"task": "work", "kwargs": {"user": "x", "password": "hunter2"}}
        await client.post("/schedules", json={"name": "s", "spec": spec, "call": call})
        ann, bad = {"queue": "q", "id": "ann"}, {"queue": "q", "id": "bad"}
        pages = [
            await client.get(path, params=params)
            for path, params in (
                ("/job", ann), ("/job", bad), ("/job/result", ann), ("/job/result", bad), ("/job/data", ann),
                ("/job/data", {**ann, "part": "result"}), ("/chain", ann), ("/events", {}), ("/jobs", {}),
                ("/schedules", {}),
            )
        ]  # fmt: skip
        assert [page.status_code for page in pages] == [200] * len(pages)
        assert [str(page.url) for page in pages if "hunter2" in page.text] == []
        assert pages[0].json()["headers"] == {"authorization": HIDDEN, "x-trace": "1"}
        assert pages[0].json()["payload"] == {"user": "ann", "password": HIDDEN}
    async with serving(app, redact=None) as client:
        assert "hunter2" in (await client.get("/job", params=ann)).text
    assert queue.name == "q"
