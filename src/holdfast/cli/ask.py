"""``holdfast ask``: one request to an app that is served on this machine, with the token of its database."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from holdfast.cli.entry import EXIT_ERROR
from holdfast.cli.listener import check_listener
from holdfast.cli.output import as_json, plain, plain_json
from holdfast.cli.session import Session, examples, on_home
from holdfast.codec.jsontext import UNREADABLE
from holdfast.errors import ConfigurationError
from holdfast.http.network import is_loopback_host
from holdfast.token_file import token_file, token_of_database

SERVED_AT: Final = "http://127.0.0.1:8080"
ANSWER_SECONDS: Final = 60.0
FIRST_ERROR_STATUS: Final = 400


@click.command(
    "ask",
    epilog=examples(
        "holdfast ask -a shop:app /v1/workflows",
        "holdfast ask -a shop:app /v1/workflows/checkout/order-17?wait=10s --data '[\"tok\"]'",
        "holdfast ask --home sqlite:///shop.db --method DELETE /v1/workflows/checkout/order-17",
    ),
)
@click.argument("path")
@click.option("--at", "url", metavar="URL", default=SERVED_AT, show_default=True, help="Where the app is served.")
@click.option("--method", metavar="METHOD", help="By default GET, or POST with --data.")
@click.option("--data", metavar="JSON", help="The body.")
@on_home
def ask(session: Session, *, path: str, url: str, method: str | None, data: str | None) -> None:
    """Send a request to `holdfast serve` on this machine, and print the answer.

    The token of the database is found automatically. It is sent only to this machine's own addresses, and only to a
    server of the same user. The exit status is 1 if the answer is an error.
    """
    where = urlsplit(url)
    if where.scheme != "http" or where.hostname is None or not is_loopback_host(where.netloc):
        raise ConfigurationError(f"{url} is not on this machine: write {SERVED_AT}")
    file = token_file_of(session.home_url())
    headers = (
        {}
        if file is None or not file.exists()
        else {"Authorization": f"Bearer {token_of_database(str(file).removesuffix('-token'))}"}
    )
    connection = HTTPConnection(where.hostname, where.port, timeout=ANSWER_SECONDS)
    try:
        connection.connect()
        if headers:
            check_listener(connection.sock, url)
        connection.request(method or ("GET" if data is None else "POST"), path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise ConfigurationError(f"no server answers at {url} ({error}): start one with holdfast serve") from error
    finally:
        connection.close()
    if text:
        click.echo(_told(text, in_json=session.json))
    if answer.status >= FIRST_ERROR_STATUS:
        raise click.exceptions.Exit(EXIT_ERROR)


def token_file_of(home_url: str) -> Path | None:
    """The path of the token of a home, if the home is a file."""
    path = home_url.removeprefix("sqlite:///")
    return None if path == home_url else token_file(str(Path(path).resolve()))


def _told(text: str, *, in_json: bool) -> str:
    """An answer as it is printed. JSON stays as it is; any other text becomes a JSON string if JSON is wanted."""
    try:
        msgspec.json.decode(text)
    except UNREADABLE:
        return as_json(text) if in_json else plain(text)
    return plain_json(text)
