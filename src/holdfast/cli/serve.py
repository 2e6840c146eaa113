"""`holdfast serve`: the HTTP API and the dashboard on a port."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError
from ..store import shown
from .command import Command, OptionValue, Source, must_exist
from .output import json_line, say, say_note
from .parse import as_bytes, as_seconds

if TYPE_CHECKING:
    from starlette.applications import Starlette


@dataclass(frozen=True)
class ServeCommand:
    """What the command line asks for."""

    target: str | None
    url: str | None
    host: str
    port: int
    token: tuple[str, ...]
    token_file: str | None
    users: str | None
    secret_file: str | None
    lake: str | None
    read_only: bool
    insecure: bool
    allowed_host: tuple[str, ...]
    root_path: str
    tls_cert: str | None
    tls_key: str | None
    redact: tuple[str, ...]
    no_redact: bool
    session: float
    max_body: int
    as_json: bool


@click.command(cls=Command)
@click.argument("target", required=False, metavar="[MODULE:APP]")
@click.option("--url", metavar="URL", help="The store, without an app. [env: HOLDFAST_URL]")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 is any that is free.")
@click.option(
    "--token", multiple=True, metavar="TOKEN",
    help="Programs that send it are operators; may be given again. [env: HOLDFAST_TOKEN]",
)  # fmt: skip
@click.option("--token-file", metavar="FILE", help="Tokens, one on each line: TOKEN [viewer|operator [NAME]].")
@click.option("--users", metavar="FILE", help="People who may log in, one on each line: NAME:ROLE:HASH.")
@click.option("--hash-password", is_flag=True, help="Ask for a password, print its HASH for --users, and end.")
@click.option(
    "--secret-file", metavar="FILE",
    help="What signs logins, so that they outlive the server and hold for several. [env: HOLDFAST_WEB_SECRET]",
)  # fmt: skip
@click.option(
    "--session", callback=as_seconds, default="12h", show_default=True, metavar="S", help="How long a login is good."
)
@click.option("--lake", metavar="FOLDER", help="A lake (holdfast lake run), whose report the dashboard shows.")
@click.option("--read-only", is_flag=True, help="Nobody can change anything through it.")
@click.option("--insecure", is_flag=True, help="On other addresses than loopback: anyone may do anything.")
@click.option(
    "--allowed-host", multiple=True, metavar="NAME",
    help="A name by which browsers reach it, beside localhost, this machine's and numbers; may be given again.",
)  # fmt: skip
@click.option("--root-path", default="", metavar="PATH", help="Below which a proxy shows it, and takes away.")
@click.option("--tls-cert", metavar="FILE", help="Serve https, with this certificate and its chain.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--redact", multiple=True, metavar="[TASK:]NAME",
    help="Hide a field of payloads and results, too: pin, charge:card.number, vault:*; may be given again.",
)  # fmt: skip
@click.option("--no-redact", is_flag=True, help="Hide only what --redact names: not password, token, secret, …")
@click.option("--max-body", callback=as_bytes, default="16M", show_default=True, metavar="SIZE", help="Of one request.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as a line of JSON.")
def serve(hash_password: bool, **given: OptionValue) -> None:
    """Serve the HTTP API and the dashboard.

    On loopback everyone is an operator. Any other address needs --token, --token-file or --users, or --insecure.

    \b
    Examples:
      holdfast serve shop:app
      holdfast serve --url sqlite:///jobs.db --port 9000 --read-only
      holdfast serve --hash-password
      holdfast serve shop:app --host 0.0.0.0 --users users.txt --tls-cert tls.pem --tls-key tls.key
      HOLDFAST_TOKEN=$(openssl rand -hex 24) holdfast serve shop:app --host 0.0.0.0 --allowed-host jobs.example.com
    """
    if hash_password:
        _print_hash()
        return
    asyncio.run(_serve(ServeCommand(**given)))


def _print_hash() -> None:
    from ..web import hash_password

    asked = sys.stdin.isatty()
    password = (
        click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        if asked
        else sys.stdin.readline().rstrip("\n")
    )
    click.echo(hash_password(password))


async def _serve(given: ServeCommand) -> None:
    from ..web.server import Place, serve

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    web = await _application(given)
    root = given.root_path.rstrip("/")
    if root and not root.startswith("/"):
        raise ConfigError(f"--root-path={given.root_path!r}: it begins with /, such as /jobs")
    place = Place(host=given.host, port=given.port, root_path=root, tls_cert=given.tls_cert, tls_key=given.tls_key)
    await serve(web, place, lambda address: _say_started(given, web, address))


async def _application(given: ServeCommand) -> Starlette:
    from ..web import WebSettings, create_app
    from ..web.auth.tokens import access_token, read_tokens
    from ..web.redact import redaction_of

    app = Source(given.target, given.url).app()
    if given.url is not None:
        await must_exist(app)
    app.count_calls()
    words = given.token or tuple(filter(None, [os.environ.get("HOLDFAST_TOKEN")]))
    tokens = [access_token(word) for word in words]
    if given.token_file is not None:
        tokens += read_tokens(Path(given.token_file))
    settings = WebSettings(
        lake=given.lake, read_only=given.read_only, insecure=given.insecure, allowed_hosts=given.allowed_host,
        session_seconds=given.session, max_body=given.max_body,
    )  # fmt: skip
    redact = redaction_of(given.redact, defaults=not given.no_redact)
    return create_app(app, tokens=tokens, users=given.users, secret=_secret(given), redact=redact, settings=settings)


def _secret(given: ServeCommand) -> str | bytes | None:
    if given.secret_file is None:
        return os.environ.get("HOLDFAST_WEB_SECRET") or None
    try:
        secret = Path(given.secret_file).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"--secret-file {given.secret_file}: it cannot be read ({error.strerror})") from None
    if len(secret) < 16:
        raise ConfigError(f"--secret-file {given.secret_file}: a secret has at least 16 bytes: `openssl rand -hex 32`")
    return secret


def _say_started(given: ServeCommand, web: Starlette, address: str) -> None:
    site = web.state.site
    if given.insecure and site.callers.open:
        say_note(f"--insecure: anyone who reaches {address} may change anything")
    store = shown(site.app.store.url)
    if given.as_json:
        json_line({"event": "serving", "address": address, "store": store})
    else:
        say(f"serving {store} at {address}" + (" (read-only)" if given.read_only else ""))
    sys.stdout.flush()
