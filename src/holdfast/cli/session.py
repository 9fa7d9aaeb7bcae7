"""What every command has in common: its home, how it answers, and the options for both.

One rule for all commands: ``--app MODULE:APP`` (or ``HOLDFAST_APP``) names an app, and with it its home; ``--home URL``
(or ``HOLDFAST_URL``) names a home directly, and wins over the app's. Commands that run no user code need either one.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click
from msgspec import Struct

from holdfast.app import HOME_VARIABLE, App
from holdfast.cli.loading import load_app
from holdfast.cli.output import as_json, echo
from holdfast.commands import IN_HOME, NAMED, Command, Context, perform_for
from holdfast.commands.right import Right
from holdfast.coordination.audit import audited
from holdfast.errors import ConfigurationError, NotFound

P = ParamSpec("P")
T = TypeVar("T")

Explain = Callable[[App], Awaitable[object]]

APP_VARIABLE: Final = "HOLDFAST_APP"

NO_HOME: Final = (
    "Which home? Name an app with --app MODULE:APP (or HOLDFAST_APP), or a home with --home URL (or HOLDFAST_URL), "
    "for example --home sqlite:///.holdfast/shop.db"
)
NO_APP: Final = "This command runs your code: name the app with --app MODULE:APP (or HOLDFAST_APP)."


class Session(Struct, frozen=True, kw_only=True):
    """The options of one command line."""

    app_name: str | None = None
    home: str | None = None
    json: bool = False
    debug: bool = False

    def app(self) -> App:
        """The named app with its code, on the named home. A usage error if none is named."""
        if self.app_name is None:
            raise click.UsageError(NO_APP)
        app = load_app(self.app_name)
        if self.home is not None:
            app.home_url = self.home
        return app

    def any_app(self, *, prefer_code: bool = False) -> App:
        """An app on the chosen home. The user's code is imported only if it alone names the home, or for commands that
        can use it (``prefer_code``).
        """
        if self.app_name is not None and (prefer_code or self.home is None):
            app = self.app()
        else:
            app = App("holdfast", home=self._named_home())
        check_home_is_there(app.home_url)
        return app

    def home_url(self) -> str:
        """The URL of the chosen home, whether it exists or not."""
        return self.app().home_url if self.app_name is not None and self.home is None else self._named_home()

    def _named_home(self) -> str:
        url = self.home or os.environ.get(HOME_VARIABLE)
        if not url:
            raise click.UsageError(NO_HOME)
        return url

    def run(self, work: Callable[[App], Coroutine[Any, Any, T]], app: App | None = None) -> T:
        """Open the app (by default any that is on the home), do ``work`` with it, and close it again."""
        chosen = self.any_app() if app is None else app

        async def opened() -> T:
            async with chosen:
                return await work(chosen)

        return asyncio.run(opened())

    def change(
        self, action: str, what: str, work: Callable[[App], Coroutine[Any, Any, T]], app: App | None = None
    ) -> T:
        """As ``run``, with a row in the audit that says who did it."""

        async def with_row(opened: App) -> T:
            runtime = opened.runtime()
            async with audited(runtime.home.store, runtime.clock, current_user(), action, what):
                return await work(opened)

        return self.run(with_row, app)

    def perform(
        self,
        command: Command[T],
        *,
        action: str = "",
        with_code: bool = False,
        explain: Explain | None = None,
    ) -> T:
        """Perform a command on the chosen home; what changes something there leaves a row in the audit, as ``action``.

        ``explain`` may raise a better error where what the command names is not there.
        """
        app = self.app_for(command, with_code=with_code)
        return self.run(partial(performed, command, explain, action=action), app)

    def app_for(self, command: Command[Any], *, with_code: bool = False) -> App:
        """The app on the chosen home, with its code if the command needs it. Raises what the code refuses."""
        named = NAMED[type(command)]
        if not (named.needs_code or with_code):
            return self.any_app()
        app = self.app()
        command.check(Context(app, IN_HOME))
        if named.right is not Right.WRITE:
            check_home_is_there(app.home_url)
        return app

    def answer(self, data: Any, text: str, *, exact: bool = False) -> None:
        """Print the answer: ``data`` with ``--json``, else ``text``."""
        echo(as_json(data, exact=exact) if self.json else text)


async def performed(command: Command[T], explain: Explain | None, app: App, *, action: str = "") -> T:
    """What a command answers in an open app. Where it finds nothing, ``explain`` may raise a better error."""
    try:
        return await perform_for(current_user(), command, Context(app, IN_HOME), action=action)
    except NotFound:
        if explain is not None:
            await explain(app)
        raise


def current_user() -> str:
    """The user that runs this command, for the audit: as the operating system says, not the environment."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return f"cli:{name}@{socket.gethostname()}"


def check_home_is_there(url: str) -> None:
    """Reading a home must not create it. Raises ``ConfigurationError``."""
    if url.startswith("memory:"):
        raise ConfigurationError(
            f"{url} lives in the memory of one process, so no command can read it. Use a SQLite home"
        )
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).exists():
        raise ConfigurationError(
            f"there is no database {Path(path).absolute()}. Correct the URL or the folder, or start a worker or an "
            "execution, which creates it"
        )


# ── Options ─────────────────────────────────────────────────────────────────────────────────────────────────────────

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, errors too.")
debug_option: Final = click.option("--debug", is_flag=True, help="Show the traceback of errors.")
app_option: Final = click.option(
    "-a", "--app", metavar="MODULE:APP", envvar=APP_VARIABLE, help=f"The app, by default ${APP_VARIABLE}."
)
home_option: Final = click.option(
    "--home", metavar="URL", help=f"The home, for example sqlite:///shop.db; by default the app's, or ${HOME_VARIABLE}."
)


def on_home(command: Callable[Concatenate[Session, P], T]) -> Callable[..., T]:
    """Give a command the options that name a home, and a ``Session`` made of them."""

    @app_option
    @home_option
    @json_option
    @debug_option
    @wraps(command)
    def with_session(*args: Any, app: str | None, home: str | None, as_json: bool, debug: bool, **options: Any) -> T:
        session = Session(app_name=app, home=home, json=as_json, debug=debug)
        return command(session, *args, **options)

    return with_session


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
