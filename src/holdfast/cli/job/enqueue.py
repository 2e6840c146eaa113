"""`holdfast enqueue`: one job, by task or as a plain payload."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeAlias

import click
import msgspec

from ...app.app import Holdfast
from ...app.queue import AnyQueue
from ...app.task import AnyTask
from ...client import Handle
from ...errors import ConfigError
from ...json import form as json_form
from ...json.call import typed_arguments, typed_payload
from ...json.decode import decode_json
from ...json.form import JsonObject
from ..command import Command, OptionValue, Source, json_option, source_options
from ..complete import complete_queues, complete_tasks
from ..output import json_out, json_text, say, say_note
from ..parse import as_bytes, as_seconds, json_or_text, pairs
from .row_calls import PlainRowCalls, RowCalls, TaskRowCalls

OPTIONS = ("job_id", "delay", "priority", "key", "tags", "on_conflict")

OF_A_FILE = ("from_file", "format", "skip_bad", "from_line", "id_prefix")
JsonValue: TypeAlias = Any


@dataclass(frozen=True)
class EnqueueRequest:
    """What the command line asks for."""

    words: tuple[str, ...]
    queue: str | None
    args: str | None
    max_payload: int | None
    options: JsonObject
    wait: float | None
    as_json: bool


def _as_wait(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse --wait. Alone, it takes the next word for its seconds: the error says so."""
    try:
        return as_seconds(ctx, param, value)
    except ConfigError as error:
        raise ConfigError(f"{error}; put --wait last, or write --wait=30") from None


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="TASK [NAME=VALUE | JSON]...", shell_complete=complete_tasks)
@source_options
@click.option(
    "--queue",
    metavar="NAME",
    shell_complete=complete_queues,
    help="A plain payload for this queue, in place of a task.",
)
@click.option("--args", metavar="JSON", help="Positional arguments, as a JSON array.")
@click.option("--id", "job_id", help="The job's id; default: a new one.")
@click.option("--delay", callback=as_seconds, metavar="S", help="Not before so long from now (30, 10m, 2h).")
@click.option("--priority", type=int, help="From -1000 to 1000, higher first.")
@click.option("--key", help="Its concurrency key.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="A tag; may be given again.")
@click.option("--on-conflict", type=click.Choice(["keep", "update"]), help="What happens to an id that exists.")
@click.option("--max-payload", callback=as_bytes, metavar="SIZE", help="Of a plain payload: 1048576, 512k, 4M.")
@click.option(
    "--wait", callback=_as_wait, is_flag=False, flag_value="30", metavar="[S]",
    help="Wait for the result, at most so long (30). Put it last, or write --wait=S.",
)  # fmt: skip
@click.option("--from", "from_file", metavar="FILE", help="A job for each line of this file; - is stdin.")
@click.option("--format", "format", type=click.Choice(["jsonl", "csv"]), help="Of --from; default: by its ending.")
@click.option("--skip-bad", is_flag=True, help="With --from: leave wrong lines out; else they stop it at the start.")
@click.option("--from-line", type=click.IntRange(1), default=1, help="With --from: begin with this line.")
@click.option("--id-prefix", metavar="TEXT", help="With --from: ids are this and the line, so that it can be repeated.")
@json_option
def enqueue(source: Source, **given: OptionValue) -> None:
    """Enqueue one job, or one for each line of a file.

    Arguments are NAME=VALUE words or one JSON object. A value that is JSON is taken as JSON (n=3, ok=true,
    tags='["a"]'), anything else as text; a parameter that is annotated as str takes any value as text.

    \b
    Examples:
      holdfast enqueue --app shop:app send to=ann@example.com n=3
      holdfast enqueue --app shop:app send '{"to": "ann@example.com"}' --id mail-1 --delay 10m
      holdfast enqueue --app shop:app send to=ann@example.com --tag vip --tag spring
      holdfast enqueue --app shop:app send --args '["ann@example.com"]' --wait
      holdfast enqueue --url sqlite:///jobs.db --queue mail to=ann@example.com
      holdfast enqueue --app shop:app send --from customers.csv --id-prefix spring-
      zcat orders.jsonl.gz | holdfast enqueue --app shop:app buy --from -
    """
    options = {name: given.pop(name) for name in OPTIONS}
    chosen = {name: value for name, value in options.items() if value not in (None, ())}
    of_file = {name: given.pop(name) for name in OF_A_FILE}
    if of_file["from_file"] is not None:
        _enqueue_file(source, chosen, of_file, given)
        return
    if wrong := [name for name in ("format", "skip_bad", "id_prefix") if of_file[name]]:
        raise ConfigError(f"--{wrong[0].replace('_', '-')} is for --from FILE: give it, too")
    request = EnqueueRequest(options=chosen, **given)

    async def work(app: Holdfast) -> JsonObject:
        handle = await (_plain(app, request) if request.queue else _task(app, request))
        return await _answer(app, handle, request)

    answer = source.run(work, create=True)
    json_out(answer) if request.as_json else _print(answer)


def _enqueue_file(source: Source, options: JsonObject, of_file: JsonObject, given: JsonObject) -> None:
    """Enqueue a job for each line of a file."""
    from .enqueue_file import FileRequest, enqueue_from

    words, queue = given["words"], given["queue"]
    if "job_id" in options or given["wait"] is not None or given["args"] is not None:
        raise ConfigError("--id, --args and --wait are for one job, and --from makes many: leave them out")
    if len(words) != (0 if queue else 1):
        raise ConfigError(f"--from: give {'no word beside --queue' if queue else 'the name of the task alone'}")

    def calls_of(app: Holdfast) -> RowCalls:
        if queue:
            return PlainRowCalls(app.queue(queue, max_payload=given["max_payload"]))
        return TaskRowCalls(_find(app, words)[0], _fitting)

    name = of_file.pop("from_file")
    enqueue_from(source, FileRequest(name, options=options, as_json=given["as_json"], **of_file), calls_of)


async def _answer(app: Holdfast, handle: Handle[object], request: EnqueueRequest) -> JsonObject:
    """Return the answer of the enqueue; with --wait, the result as well."""
    answer = {
        "status": handle.status,
        "queue": handle.queue,
        "id": handle.id,
        "run": handle.run,
        "state": handle.state,
    }
    if request.wait is not None:
        try:
            await handle.result(request.wait)
        except asyncio.CancelledError:  # Ctrl-C ends the wait alone, and nobody else knows the id
            say_note(f"{handle.queue}/{handle.id} run {handle.run} is enqueued, and goes on")
            raise
        record = await handle.job()
        answer |= {"state": record.state, "result": json_form.decoded(app, record, "result_codec", record.result)}
    return answer


def _print(answer: JsonObject) -> None:
    say(f"{answer['status']}: {answer['queue']}/{answer['id']} run {answer['run']} ({answer['state']})")
    if "result" in answer:
        click.echo(json_text(answer["result"]))


async def _plain(app: Holdfast, request: EnqueueRequest) -> Handle[object]:
    queue = app.queue(request.queue or "", max_payload=request.max_payload)
    info = await queue.info() if "key" not in request.options else None
    if info is not None and info.settings.key_required:  # which the workers' app says, and this one may not know
        raise ConfigError(f"queue {queue.name!r}: its jobs must have a key (key_required): give --key")
    return await queue.enqueue(fitting_payload(queue, request.words, request.args), **request.options)


def fitting_payload(queue: AnyQueue, words: tuple[str, ...], args: str | None) -> object:
    """Return the words as a payload of the queue's type."""
    return typed_payload(queue, payload_of(words, args))


def payload_of(words: tuple[str, ...], args: str | None) -> object:
    """Return the words as a payload: one JSON value, or an object of NAME=VALUE."""
    if args is not None:
        raise ConfigError("--args are a task's positional arguments, and --queue takes a plain payload: give one")
    if len(words) == 1 and ("=" not in words[0] or words[0][:1] in '{["'):
        return _json(words[0], "the payload")
    return {name: json_or_text(value) for name, value in pairs(words).items()}


async def _task(app: Holdfast, request: EnqueueRequest) -> Handle[object]:
    if request.max_payload is not None:
        raise ConfigError("--max-payload is for a plain payload (--queue): a task's limit is its app's to say")
    task, args, kwargs = bind_task(app, request.words, request.args)
    return await task.options(**request.options).enqueue(*args, **kwargs)


def bind_task(
    app: Holdfast, words: tuple[str, ...], args: str | None
) -> tuple[AnyTask, tuple[object, ...], JsonObject]:
    """Return the task that the words name, and its arguments."""
    task, rest = _find(app, words)
    positional = _json(args, "--args") if args is not None else []
    if type(positional) is not list:
        raise ConfigError(f"--args={args!r}: a JSON array")
    return task, *typed_arguments(task, positional, _named(task, rest))


def _find(app: Holdfast, words: tuple[str, ...]) -> tuple[AnyTask, list[str]]:
    """Return the task that the first word names, and the words for its arguments."""
    named = next((word for word in words if not word.startswith("{")), None)
    known = ", ".join(app.registry.tasks) or "none"
    if named is None:
        raise ConfigError(f"which task? Known are {known}; or give --queue NAME for a plain payload")
    if not app.registry.tasks:
        raise ConfigError(
            f"{named!r}: a task is known by its app: give --app module:app, or --queue NAME for a payload"
        )
    if named not in app.registry.tasks:
        raise ConfigError(f"there is no task {named!r}; known are {known}")
    rest = list(words)
    rest.remove(named)
    return app.registry.tasks[named], rest


def _named(task: AnyTask, words: list[str]) -> JsonObject:
    """Return the arguments by name: one JSON object, NAME=VALUE words, or both."""
    found: JsonObject = {}
    for word in words:
        if word.startswith("{"):
            found |= _json(word, "the arguments")
    for name, text in pairs(word for word in words if not word.startswith("{")).items():
        found[name] = _fitting(task.signature.type.__annotations__.get(name, Any), text)
    return found


def _fitting(annotation: type, text: str) -> object:
    """Return a word as JSON, or as text where the parameter wants text and JSON made something else of it."""
    value = json_or_text(text)
    if isinstance(value, str):
        return text if annotation is str else value
    try:
        msgspec.convert(value, annotation)
    except Exception:  # not as JSON; an annotation's own checks may raise anything
        try:
            return msgspec.convert(text, annotation)
        except Exception:
            return value  # the error is raised where the whole call is read
    return value


def _json(text: str, what: str) -> JsonValue:
    try:
        return decode_json(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{what}: {text!r} is not JSON ({error})") from None
