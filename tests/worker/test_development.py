"""Development: the code that was started last is right, under whatever version; elsewhere a conflict is refused."""

from __future__ import annotations

import pytest
from support import burst

from holdfast import ConfigError, Every, Holdfast, PolicyConflict, Retry
from holdfast.testing import drain


def edited(url: str, failures: int, development: bool | None = None) -> Holdfast:
    """Return the app as its code says after an edit."""
    app = Holdfast(url, development=development)

    @app.task(retry=Retry(failures=failures))
    async def send(to: str) -> None: ...

    app.queue("default", concurrency=failures)
    app.schedule("often", Every(60 * failures), send.args("ann"))
    return app


async def in_force(app: Holdfast) -> tuple[int | None, int | None, object]:
    async with app:
        (queue,) = await app.queues()
        return (
            (await app.queue("default").policies())["send"].retry.failures,
            queue.settings.concurrency,
            (await app.schedules.get("often")).spec,
        )


async def test_an_edit_is_refused_where_it_is_no_development(url: str) -> None:
    await burst(edited(url, 3))
    with pytest.raises(
        PolicyConflict, match=r"concurrency is 3 in the store, and 5 here\).*holdfast declare MODULE:APP"
    ):
        await burst(edited(url, 5))
    assert await in_force(edited(url, 3)) == (3, 3, Every(180))


@pytest.mark.parametrize("how", ["app", "worker", "environment"])
async def test_an_edit_holds_in_development(url: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await burst(edited(url, 3))
    if how == "environment":
        monkeypatch.setenv("HOLDFAST_DEVELOPMENT", "1")
    app = edited(url, 5, development=True if how == "app" else None)
    await burst(app, **({"development": True} if how == "worker" else {}))
    assert await in_force(app) == (5, 5, Every(300))


async def test_the_nearest_word_decides(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEVELOPMENT", "yes")
    await burst(edited(url, 3))
    with pytest.raises(PolicyConflict):
        await burst(edited(url, 5, development=False))
    with pytest.raises(PolicyConflict):
        await burst(edited(url, 5, development=True), development=False)


async def test_a_drain_in_development_declares_too(url: str) -> None:
    await drain(edited(url, 3))
    with pytest.raises(PolicyConflict):
        await drain(edited(url, 5))
    await drain(edited(url, 5, development=True))
    assert await in_force(edited(url, 5)) == (5, 5, Every(300))


def test_a_wrong_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="development=1: True, False, or None for what HOLDFAST_DEVELOPMENT says"):
        Holdfast("memory://", development=1)  # type: ignore[arg-type]
    monkeypatch.setenv("HOLDFAST_DEVELOPMENT", "maybe")
    with pytest.raises(ConfigError, match="HOLDFAST_DEVELOPMENT='maybe': 1 or 0"):
        Holdfast("memory://")
