"""``holdfast serve``: an app's HTTP API, by uvicorn."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from holdfast.cli.ask import token_file_of
from holdfast.cli.logs import begin_log, log_format_option, log_level_option
from holdfast.cli.output import as_json, echo
from holdfast.cli.run import look_whether_it_opens
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import duration, usable
from holdfast.errors import ConfigurationError
from holdfast.file_owner import complaint_of, complaint_of_links
from holdfast.files import open_file
from holdfast.http.authentication import BearerTokens
from holdfast.http.connections import MOST_CONNECTIONS, MOST_CONNECTIONS_OF_ADDRESS, ConnectionLimits
from holdfast.http.network import is_loopback_host
from holdfast.texts import told_url

TOKENS_VARIABLE: Final = "HOLDFAST_TOKENS"
BACKLOG: Final = 2048


@click.command(
    "serve",
    epilog=examples(
        "holdfast serve -a shop:app --work",
        "holdfast serve -a shop:app --host 0.0.0.0 --port 8080 --tokens tokens.txt",
    ),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any free one.")
@click.option("--work", is_flag=True, help="Run a worker too, in the same process.")
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The allowed callers, one per line: name token [read,write,control,inspect] [tenant=PREFIX]; "
    f"or in ${TOKENS_VARIABLE}.",
)
@click.option(
    "--grace",
    metavar="DURATION",
    type=duration,
    default="10s",
    show_default=True,
    help="How long requests may take to finish when it is stopped.",
)
@click.option(
    "--connections",
    metavar="N",
    type=click.IntRange(1),
    default=MOST_CONNECTIONS,
    show_default=True,
    help="The most connections at once.",
)
@click.option(
    "--per-address",
    metavar="N",
    type=click.IntRange(1),
    default=MOST_CONNECTIONS_OF_ADDRESS,
    show_default=True,
    help="The most connections from one address; behind a proxy all come from the proxy's.",
)
@log_level_option
@log_format_option
@on_home
def serve(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    *,
    host: str,
    port: int,
    work: bool,
    tokens: Path | None,
    grace: float,
    connections: int,
    per_address: int,
    log_level: str,
    log_format: str,
) -> None:
    """Serve the app over HTTP until SIGTERM or Ctrl-C.

    On the loopback address it serves this machine's user, by a token that is stored next to the database; on any other
    address it needs tokens. There is no TLS: put a proxy or a load balancer in front.
    """
    app = session.app()
    text = os.environ.get(TOKENS_VARIABLE, "")
    if tokens is not None:
        text = _read_tokens(tokens)
    authenticate = BearerTokens.read(text) if text.strip() or tokens is not None else None
    if authenticate is None and not is_loopback_host(f"[{host}]" if ":" in host else host):
        raise ConfigurationError(
            f"{host} can be reached from other machines, so callers must be known: give --tokens FILE or "
            f"${TOKENS_VARIABLE}, with a line for each caller: name token (make one with: openssl rand -hex 32)"
        )
    begin_log(log_level, log_format)
    served_by_uvicorn = _uvicorn_server()
    session.run(look_whether_it_opens, app)
    with _listening(host, port) as listener:
        url = _url(listener)

        def announce() -> None:
            told = {"event": "serving", "url": url, "home": app.home_url, "pid": os.getpid()}
            text = f"holdfast: serving {url} on {told_url(app.home_url)}; Ctrl-C or SIGTERM stops it"
            if authenticate is None and (token := token_file_of(app.home_url)) is not None:
                told["token_file"] = str(token)
                text += f"\nholdfast: callers send the token in {token}: curl -H @{token} {url}/v1/workflows"
            echo(as_json(told) if session.json else text, err=not session.json)

        api = app.asgi(authenticate=authenticate, worker=work)
        limits = ConnectionLimits(total=connections, per_address=per_address)
        if not served_by_uvicorn(api, listener, grace_seconds=grace, limits=limits, announce=announce):
            raise ConfigurationError("the server did not start: the lines above say why")


def _uvicorn_server() -> Callable[..., bool]:
    try:
        from holdfast.http.uvicorn_server import serve as served  # noqa: PLC0415 - only this command needs the extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "holdfast serve needs uvicorn: pip install '.[server]' in a checkout of Holdfast. Or serve "
            "app.asgi() by another ASGI server"
        ) from error
    return served


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _read_tokens(path: Path) -> str:
    place = path.resolve()
    if complaint := complaint_of_links(path) or complaint_of(place):
        raise ConfigurationError(complaint)
    with usable(path, "read"), open_file(place) as file:
        if complaint := complaint_of(place, os.fstat(file.fileno())):
            raise ConfigurationError(complaint)
        return file.read().decode("utf-8")
