"""What is shown of a URL: nothing that might be a secret.

A password may stand in its own place, and in any other, when one of its characters was not written as it should be:
what follows an unescaped `/`, `?`, `#`, `@` or `&` then looks like a host, a path or an option. So a URL is shown part
by part where it is written as URLs are, and else not at all.
"""

from __future__ import annotations

import re

HIDDEN = "***"
ESCAPES = "in a login / ? # @ % & are written %2F %3F %23 %40 %25 %26"
_SHOWN = frozenset({
    "schema", "namespace", "history", "timeout", "retry_for", "wait_aof", "wait_replicas", "verify", "sentinel_tls",
    "busy_poll", "pool", "listen", "prepare", "patience", "synchronous", "busy_timeout", "wal_limit", "sslmode",
    "connect_timeout", "target_session_attrs", "user", "client_encoding",
})  # fmt: skip
"""Options whose values are no secrets."""
_HOST = r"(?:\[[0-9A-Fa-f:.]*\]|(?:[\w.~-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
_NETWORK = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[^:@/?#\s]*)(?P<password>:[^@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/[^?#@]*)?(?:\?(?P<query>[^#@]*))?"
)
_FILE = re.compile(r"(?P<scheme>sqlite|memory)://(?P<hosts>[\w.-]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?=://)")
_PATH = re.compile(r"[\w./-]+\.(?:db|sqlite3?)")
_VALUE = re.compile(r"[\w.-]{0,63}")
_NAME = re.compile("[a-z_]{2,24}")


def written(url: str) -> re.Match[str] | None:
    """Return the parts of a URL of a server that is written as URLs are; `None` for another."""
    found = _NETWORK.fullmatch(url)
    login = "" if found is None else (found["user"] or "") + (found["password"] or "")
    return None if re.search("%(?![0-9A-Fa-f]{2})", login) else found


def shown(url: str) -> str:
    """Return a URL without what may be a secret, fit for logs and errors."""
    found = _FILE.fullmatch(url) or written(url)
    if found is None:
        return _little(url)
    options = f"?{'&'.join(_options(found['query']))}" if found["query"] else ""
    return f"{found['scheme']}://{_login(found)}{found['hosts']}{found['path'] or ''}{options}"


def _little(url: str) -> str:
    """Return what can be said of a text that is no URL, or not surely the one that it looks like."""
    if scheme := _SCHEME.match(url):
        return f"{scheme[0]}://{HIDDEN}"
    return url if not url or _PATH.fullmatch(url) else HIDDEN


def _login(found: re.Match[str]) -> str:
    if found.re is _FILE or found["user"] is None:
        return ""
    is_role = found["scheme"].startswith("postgres")  # elsewhere it is a password as often as not
    user = found["user"] if is_role or not found["user"] else HIDDEN
    return f"{user}@" if found["password"] is None else f"{user}:{HIDDEN}@"


def _options(query: str) -> list[str]:
    """Return the options; once one is secret or unknown, whatever is unknown behind it may be the rest of its value."""
    told: list[str] = []
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if name in _SHOWN and _VALUE.fullmatch(value):
            told.append(pair)
        else:
            told.append(f"{name}={HIDDEN}" if equals and "@" not in query and named(name, told) else HIDDEN)
    return told


def named(name: str, before: list[str]) -> bool:
    """Return whether the name of an option can be told: it looks like one, and follows nothing that was hidden."""
    return name in _SHOWN or (_NAME.fullmatch(name) is not None and not any(HIDDEN in each for each in before))


def option(query: str, name: str, value: str) -> str:
    """Return an option that is refused, for a message: value and name only where neither can be a secret."""
    if name in _SHOWN and _VALUE.fullmatch(value):
        return f"{name}={value!r}"
    before = []
    for pair in query.split("&"):
        if pair.partition("=")[0] == name:
            break
        before += _options(pair)
    is_login = "@" in query  # of a password with an unescaped `?`, which only looks like options
    return f"{name}={HIDDEN}" if "=" in query and not is_login and named(name, before) else HIDDEN
