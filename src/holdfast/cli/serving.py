"""Serving over HTTP from the command line: the options of the commands that do, and the server itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from holdfast.cli.ask import token_file_of
from holdfast.cli.listening import callers_of, listening, tokens_option, url_of
from holdfast.cli.logs import begin_log, log_format_option, log_level_option
from holdfast.cli.output import as_json, echo
from holdfast.cli.run import look_whether_it_opens
from holdfast.cli.values import duration
from holdfast.errors import ConfigurationError
from holdfast.http.connections import MOST_CONNECTIONS, MOST_CONNECTIONS_OF_ADDRESS, ConnectionLimits
from holdfast.texts import told_url

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.cli.session import Session
    from holdfast.dashboard.options import Dashboard


class Serving(Struct, frozen=True, kw_only=True):
    """Where and how to serve, as the options say."""

    host: str
    port: int
    tokens: Path | None
    grace: float
    connections: int
    per_address: int
    log_level: str
    log_format: str
    asl: bool = False
    scan: bool = False


def serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of ``Serving``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS: Final = (
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
    click.option(
        "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any free one."
    ),
    tokens_option,
    click.option(
        "--grace",
        metavar="DURATION",
        type=duration,
        default="10s",
        show_default=True,
        help="How long requests may take to finish when it is stopped.",
    ),
    click.option(
        "--connections",
        metavar="N",
        type=click.IntRange(1),
        default=MOST_CONNECTIONS,
        show_default=True,
        help="The most connections at once.",
    ),
    click.option(
        "--per-address",
        metavar="N",
        type=click.IntRange(1),
        default=MOST_CONNECTIONS_OF_ADDRESS,
        show_default=True,
        help="The most connections from one address; behind a proxy all come from the proxy's.",
    ),
    log_level_option,
    log_format_option,
)


def serve_app(session: Session, app: App, serving: Serving, *, work: bool, dashboard: Dashboard | None) -> None:
    """Serve an app until SIGTERM or Ctrl-C. Raises ``ConfigurationError`` for what cannot be served."""
    authenticate = callers_of(serving.host, serving.tokens, signatures=serving.asl)
    begin_log(serving.log_level, serving.log_format)
    served_by_uvicorn = _uvicorn_server()
    api = app.asgi(authenticate=authenticate, worker=work, dashboard=dashboard, asl=serving.asl, scan=serving.scan)
    session.run(look_whether_it_opens, app)
    with listening(serving.host, serving.port) as listener:
        url = url_of(listener)

        def announce() -> None:
            told = {"event": "serving", "url": url, "home": app.home_url, "pid": os.getpid()}
            text = f"holdfast: serving {url} on {told_url(app.home_url)}; Ctrl-C or SIGTERM stops it"
            if authenticate is None and (token := token_file_of(app.home_url)) is not None:
                told["token_file"] = str(token)
                if dashboard is None or dashboard.path != "/":
                    text += f"\nholdfast: callers send the token in {token}: curl -H @{token} {url}/v1/workflows"
            if serving.asl:
                text += (
                    f"\nholdfast: clients of Step Functions: aws stepfunctions --endpoint-url {url} list-state-machines"
                    " with the token as AWS_SECRET_ACCESS_KEY and the caller's name as AWS_ACCESS_KEY_ID"
                )
            if dashboard is not None and api.site is not None:
                told["dashboard"] = url + dashboard.path.rstrip("/") + (api.site.login_path() or "/")
                text += f"\nholdfast: the dashboard: {told['dashboard']}"
            echo(as_json(told) if session.json else text, err=not session.json)

        limits = ConnectionLimits(total=serving.connections, per_address=serving.per_address)
        if not served_by_uvicorn(api, listener, grace_seconds=serving.grace, limits=limits, announce=announce):
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
