"""`holdfast metrics`: the measures of a store for Prometheus, and the files for its dashboards and alerts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ...app.app import Holdfast
from ...errors import ConfigError
from ...telemetry import files
from ...telemetry.health.http import JSON, HttpRequest, HttpResponse, Route
from ...telemetry.health.port import LOOPBACK, Address, Port
from ...telemetry.health.routes import LIVE, METRICS, READY, STORE_METRICS, metrics_route
from ...telemetry.metrics.exposition import exposition
from ...telemetry.metrics.otel import observe_store
from ...telemetry.metrics.store import KEPT, TwinMeter
from ...telemetry.metrics.table import STORE_UP
from ...worker.signals import heard
from ..command import Command, Source, must_exist, source_options
from ..output import say
from ..parse import as_port

FILES = {"grafana": "grafana.json", "alerts": "alerts.yaml"}


@click.command(cls=Command)
@source_options
@click.option("--port", callback=as_port, metavar="PORT", help="Serve /metrics, /live and /ready until told to stop.")
@click.option("--host", default=LOOPBACK, show_default=True, metavar="HOST", help="Where the port is; 0.0.0.0: all.")
@click.option("--open-metrics", is_flag=True, help="Print OpenMetrics, rather than Prometheus's own text.")
@click.option("--grafana", "wanted", flag_value="grafana", help="Print a dashboard for Grafana, as JSON.")
@click.option("--alerts", "wanted", flag_value="alerts", help="Print alert rules for Prometheus, as YAML.")
def metrics(source: Source, port: int | str | None, host: str, open_metrics: bool, wanted: str | None) -> None:
    """Print or serve the measures of a store, for Prometheus.

    Depth of each queue, age of its oldest job, lags, the event log: once for the store, whatever workers run. What
    workers themselves count is on their own ports (holdfast worker --metrics-port).

    \b
    Examples:
      holdfast metrics --url sqlite:///jobs.db
      holdfast metrics --app shop:app --port 9102
      holdfast metrics --grafana > holdfast-dashboard.json
      holdfast metrics --alerts > holdfast-alerts.yaml
    """
    if wanted is not None:
        click.echo((Path(files.__file__).parent / FILES[wanted]).read_text(), nl=False)
    elif port is None:
        say_metrics(source, open_metrics)
    elif open_metrics:
        raise ConfigError("--open-metrics: with --port, the Accept header of whoever asks decides; leave it out")
    else:
        given = Address("--port", port, host) if isinstance(port, int) else Address("--port", path=port)
        asyncio.run(_serve(source.app(), given))


def say_metrics(source: Source, open_metrics: bool) -> None:
    """Print the measures of a store once."""

    async def work(app: Holdfast) -> str:
        meter = TwinMeter(app.store)
        try:
            return exposition(await meter.samples(), open=open_metrics)
        finally:
            await meter.close()

    click.echo(source.run(work), nl=False)


async def _serve(app: Holdfast, address: Address) -> None:
    await must_exist(app)
    meter, loop, over = TwinMeter(app.store), asyncio.get_running_loop(), asyncio.Event()
    measures = metrics_route(meter.samples)

    def stop(number: int) -> None:
        loop.call_soon_threadsafe(over.set)

    routes: dict[str, Route] = {METRICS: measures, STORE_METRICS: measures, LIVE: _live, READY: _ready_by(meter)}
    async with app:
        with Port([(address, routes)], [meter.close]) as port:
            say(f"the metrics of the store are at {port.urls[0]}/metrics")
            with heard(stop):
                showing = asyncio.create_task(_show_to_otel(app))
                await over.wait()
                showing.cancel()


async def _show_to_otel(app: Holdfast) -> None:
    """Keep fresh measures for OpenTelemetry's readers, if there are any."""
    meter = TwinMeter(app.store)
    if not observe_store(lambda: meter.latest):
        return
    try:
        while True:
            await meter.samples()
            await asyncio.sleep(KEPT)
    finally:
        await meter.close()


async def _live(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"status":"ok","reasons":[]}\n', JSON)


def _ready_by(meter: TwinMeter) -> Route:
    async def ready(request: HttpRequest) -> HttpResponse:
        is_up = any(sample.metric is STORE_UP and sample.value == 1 for sample in await meter.samples())
        if is_up:
            return await _live(request)
        return HttpResponse(b'{"status":"unavailable","reasons":["the store does not answer"]}\n', JSON, 503)

    return ready
