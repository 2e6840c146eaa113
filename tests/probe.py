"""Asking a worker's port, and reading what it says: what the tests of metrics and health share."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Reply(NamedTuple):
    """What a port answered."""

    code: int
    body: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(url: str, method: str = "GET", **headers: str) -> Reply:
    """Return what is answered at an address."""
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return Reply(reply.status, reply.read().decode(), dict(reply.headers))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read().decode(), dict(error.headers))


async def ask(url: str, method: str = "GET", **headers: str) -> Reply:
    """Return what is answered at an address, while this loop goes on."""
    return await asyncio.to_thread(get, url, method, **headers)


class Scrape:
    """The samples of a text for Prometheus."""

    def __init__(self, text: str) -> None:
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.names: set[str] = set()
        """Of samples, without the suffixes of histograms."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = family.name if family.type == "histogram" else sample.name
                self.names.add(name)
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self._values, f"twice: {key}"
                self._values[key] = sample.value

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sum of the samples with this name and at least these labels; `None` when there is none."""
        wanted = labels.items()
        found = [value for (each, has), value in self._values.items() if each == name and wanted <= dict(has).items()]
        return sum(found) if found else None


async def scrape(url: str) -> Scrape:
    """Return the samples at an address."""
    reply = await ask(url)
    assert reply.code == 200, reply.body
    return Scrape(reply.body)
