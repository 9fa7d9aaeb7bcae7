"""``holdfast serve``: an app's HTTP API, by uvicorn."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from holdfast.cli.ask import token_file_of
from holdfast.cli.listening import callers_of, listening, tokens_option, url_of
from holdfast.cli.logs import begin_log, log_format_option, log_level_option
from holdfast.cli.output import as_json, echo
from holdfast.cli.run import look_whether_it_opens
from holdfast.cli.session import Session, examples, on_home
from holdfast.cli.values import duration
from holdfast.errors import ConfigurationError
from holdfast.http.connections import MOST_CONNECTIONS, MOST_CONNECTIONS_OF_ADDRESS, ConnectionLimits
from holdfast.texts import told_url


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
@tokens_option
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
    authenticate = callers_of(host, tokens)
    begin_log(log_level, log_format)
    served_by_uvicorn = _uvicorn_server()
    session.run(look_whether_it_opens, app)
    with listening(host, port) as listener:
        url = url_of(listener)

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
