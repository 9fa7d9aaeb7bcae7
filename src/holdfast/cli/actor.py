"""``holdfast actor``: call, send, delete, and repair what has halted at a message. What only reads is in
``actor_show``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import click
from msgspec import Raw

from holdfast.actors.admin.handle import DELETE_TIMEOUT
from holdfast.actors.record import HIDDEN_MARK
from holdfast.actors.sending import send as send_message
from holdfast.app import App
from holdfast.cli.actor_show import ls, show
from holdfast.cli.known import check_parked, kind_of, method_of, status_of
from holdfast.cli.output import as_json
from holdfast.cli.session import Session, check_home_is_there, examples, on_home
from holdfast.cli.values import duration, json_text
from holdfast.errors import CallFailed, HoldfastError

name_argument: Final = click.argument("name")
key_argument: Final = click.argument("key")
input_argument: Final = click.argument("input", metavar="[JSON]", type=json_text, default="[]")
request_option: Final = click.option("--request-id", help="A repeat with the same id is applied once.")
args_option: Final = click.option(
    "--args", metavar="JSON", type=json_text, help="Other arguments, checked by the app's code: by name or in order."
)


@click.group("actor")
def actor() -> None:
    """Inspect actors, call them, and repair those that have halted at a message. NAME is the actor's class."""


actor.add_command(ls)
actor.add_command(show)


def _done(session: Session, name: str, key: str, action: str, told: str, **more: str) -> None:
    session.answer({"actor": name, "key": key, "action": action, **more}, f"{name} {key}: {told}")


# ── Calling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@actor.command(
    "call",
    epilog=examples(
        'holdfast actor call -a shop:app Cart u1 add \'{"sku": "lamp", "n": 2}\'',
        "holdfast actor call -a shop:app Cart u1 add '[\"lamp\"]' --request-id order-17 --timeout 30s",
    ),
)
@name_argument
@key_argument
@click.argument("method")
@input_argument
@request_option
@click.option("--timeout", metavar="DURATION", type=duration, help="Wait no longer than this, for example 30s.")
@on_home
def call(
    session: Session,
    *,
    name: str,
    key: str,
    method: str,
    input: str,
    request_id: str | None,
    timeout: float | None,
) -> None:
    """Call a method of an actor, and print what it returned as JSON.

    JSON holds the arguments: an object by name, an array in order, or the one argument itself; @file reads it from a
    file, - from standard input. Needs the app's code, and a worker somewhere to run the call; methods that only read,
    and those of optimistic actors, run here.
    """
    app = session.app()
    bound = method_of(app, name, key, method, request_id=request_id, timeout=timeout)
    signature = bound.method.signature
    args, kwargs = signature.unbind(signature.parse(input))

    async def ask(_app: App) -> Any:
        try:
            result = await bound(*args, **kwargs)
        except HoldfastError:
            raise
        except Exception as error:
            raise CallFailed(type(error).__name__, str(error)) from error
        return json.loads(signature.result.encode(result))

    result = session.run(ask, app)
    session.answer({"actor": name, "key": key, "result": result}, as_json(result, exact=True), exact=True)


@actor.command(
    "send",
    epilog=examples(
        'holdfast actor send -a shop:app Cart u1 add \'{"sku": "lamp"}\'',
        "holdfast actor send -a shop:app Cart u1 clear --delay 5m",
    ),
)
@name_argument
@key_argument
@click.argument("method")
@input_argument
@request_option
@click.option("--delay", metavar="DURATION", type=duration, help="Let it arrive later, for example after 5m.")
@on_home
def send(
    session: Session,
    *,
    name: str,
    key: str,
    method: str,
    input: str,
    request_id: str | None,
    delay: float | None,
) -> None:
    """Send a message to an actor, durably, and do not wait for it. Needs the app's code."""
    app = session.app()
    bound = method_of(app, name, key, method)
    args, kwargs = bound.method.signature.unbind(bound.method.signature.parse(input))
    sent = session.run(lambda _app: send_message(bound, *args, delay=delay, request_id=request_id, **kwargs), app)
    assert sent is not None, "only a workflow body gets no answer"
    _done(session, name, key, "send", f"{method} sent, with id {sent.id}", method=method, id=sent.id, place=sent.sort)


@actor.command(
    "delete",
    epilog=examples(
        "holdfast actor delete -a shop:app Cart u1 --timeout 30s",
    ),
)
@name_argument
@key_argument
@click.option(
    "--timeout",
    metavar="DURATION",
    type=duration,
    default=DELETE_TIMEOUT,
    show_default=True,
    help="Wait no longer than this, for example 30s.",
)
@on_home
def delete(session: Session, *, name: str, key: str, timeout: float) -> None:
    """End an actor: its state and timers go. A later call creates it again.

    It is a call like any other: it needs the app's code, and a worker somewhere to run it. Parked messages stay.
    """
    app = session.app()
    kind_of(app, name)
    check_home_is_there(app.home_url)

    async def end(app: App) -> None:
        await status_of(app, name, key)
        await app.actor(name, key).delete(timeout=timeout)

    session.change("actor delete", f"{name} {key}", end, app)
    _done(session, name, key, "delete", "deleted")


# ── Repairing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@actor.command(
    "unpark",
    epilog=examples(
        "holdfast actor unpark --home sqlite:///shop.db Cart u1 'p#i#01763705200000000#4c3f0a91d2b7'",
        "holdfast actor unpark -a shop:app Cart u1 'p#i#01763705200000000#4c3f0a91d2b7' --args '{\"sku\": \"lamp\"}'",
    ),
)
@name_argument
@key_argument
@click.argument("place")
@args_option
@on_home
def unpark(session: Session, *, name: str, key: str, place: str, args: str | None) -> None:
    """Put a parked message back into the actor's inbox, behind those that wait.

    PLACE is the place that actor show prints. With --args the message gets other arguments, and the app's code is
    needed to check them.
    """
    app = mending_app(session, with_code=args is not None)

    async def mend(app: App) -> None:
        await check_parked(app, name, key, place)
        await app.actor(name, key).unpark(place, args=None if args is None else Raw(args.encode()))

    session.change("actor unpark", f"{name} {key}", mend, app)
    _done(session, name, key, "unpark", "the message is in the inbox again", place=place)


@actor.command(
    "discard",
    epilog=examples(
        "holdfast actor discard --home sqlite:///shop.db Cart u1 'p#i#01763705200000000#4c3f0a91d2b7'",
    ),
)
@name_argument
@key_argument
@click.argument("place")
@on_home
def discard(session: Session, *, name: str, key: str, place: str) -> None:
    """Drop a parked message, for good. PLACE is the place that actor show prints."""

    async def mend(app: App) -> None:
        await check_parked(app, name, key, place)
        await app.actor(name, key).discard(place)

    session.change("actor discard", f"{name} {key}", mend)
    _done(session, name, key, "discard", "the message is dropped", place=place)


@actor.command(
    "resume",
    epilog=examples(
        "holdfast actor resume --home sqlite:///shop.db Cart u1",
    ),
)
@name_argument
@key_argument
@on_home
def resume(session: Session, *, name: str, key: str) -> None:
    """Let an actor that has halted try its message again."""
    session.change("actor resume", f"{name} {key}", _on_halted(name, key, lambda app: app.actor(name, key).resume()))
    _done(session, name, key, "resume", "tries its message again")


@actor.command(
    "park",
    epilog=examples(
        "holdfast actor park --home sqlite:///shop.db Cart u1",
    ),
)
@name_argument
@key_argument
@on_home
def park(session: Session, *, name: str, key: str) -> None:
    """Park the message that an actor has halted at. The actor continues with the next one.

    For the hidden actor of a consumer it needs the app's code.
    """
    app = mending_app(session, with_code=name.startswith(HIDDEN_MARK))
    session.change("actor park", f"{name} {key}", _on_halted(name, key, lambda app: app.actor(name, key).park()), app)
    _done(session, name, key, "park", "has parked its message and continues")


def _on_halted(name: str, key: str, mend: Callable[[App], Any]) -> Callable[[App], Any]:
    async def found(app: App) -> None:
        await status_of(app, name, key)
        await mend(app)

    return found


def mending_app(session: Session, *, with_code: bool) -> App:
    """The app on the chosen home, with its code if that is needed."""
    if not with_code:
        return session.any_app()
    app = session.app()
    check_home_is_there(app.home_url)
    return app
