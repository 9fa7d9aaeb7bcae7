"""``holdfast serve`` and ``holdfast dashboard``: an app's HTTP API, and its pages for people, by uvicorn."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.serving import Serving, serve_app, serving_options
from holdfast.cli.session import Session, examples, on_home
from holdfast.dashboard.options import Dashboard
from holdfast.registrations import SERVED


@click.command(
    "serve",
    epilog=examples(
        "holdfast serve -a shop:app --work",
        "holdfast serve -a shop:app --work --dashboard",
        "holdfast serve -a shop:app --work --asl",
        "holdfast serve -a shop:app --host 0.0.0.0 --port 8080 --tokens tokens.txt",
    ),
)
@click.option("--work", is_flag=True, help="Run a worker too, in the same process.")
@click.option("--dashboard", is_flag=True, help="Serve the dashboard too, at /dashboard.")
@click.option("--asl", is_flag=True, help="Speak Step Functions' protocol too: its SDKs can use this server.")
@click.option("--scan", is_flag=True, help="On AWS, let every list read the whole table, which is billed.")
@serving_options
@on_home
def serve(session: Session, /, *, work: bool, dashboard: bool, asl: bool, **options: Any) -> None:
    """Serve the app over HTTP until SIGTERM or Ctrl-C.

    On the loopback address it serves this machine's user, by a token that is stored next to the database; on any other
    address it needs tokens. There is no TLS: put a proxy or a load balancer in front.
    """
    mounted = Dashboard() if dashboard else None
    app = session.app()
    if asl and not app.registry.machines.get(SERVED):
        app.state_machines()
    serve_app(session, app, Serving(**options, asl=asl), work=work, dashboard=mounted)


@click.command(
    "dashboard",
    epilog=examples(
        "holdfast dashboard -a shop:app",
        "holdfast dashboard --home sqlite:///.holdfast/shop.db --port 8081",
    ),
)
@serving_options
@on_home
def dashboard(session: Session, /, **options: Any) -> None:
    """Serve the dashboard alone, until SIGTERM or Ctrl-C. It runs no worker.

    It prints the address to open: on the loopback address a code in it lets one browser in, once. With --home instead
    of --app it shows any home; what runs your code, such as a retry, needs --app. Callers and tokens are those of
    `holdfast serve`.
    """
    app = session.any_app() if session.app_name is None else session.app()
    serve_app(session, app, Serving(**options), work=False, dashboard=Dashboard(path="/"))
