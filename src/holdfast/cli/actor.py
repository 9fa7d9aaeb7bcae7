"""``holdfast actor``: call, send, delete, and repair what has halted at a message. What only reads is in
``actor_show``.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import click
from msgspec import Raw

from holdfast.actors.admin.handle import DELETE_TIMEOUT
from holdfast.actors.record import HIDDEN_MARK
from holdfast.app import App
from holdfast.cli.actor_show import ls, request, show
from holdfast.cli.declaring import on_actor
from holdfast.cli.known import check_parked, status_of
from holdfast.cli.output import as_json
from holdfast.cli.session import Session, on_home
from holdfast.cli.values import duration, json_text
from holdfast.commands import IN_HOME, perform
from holdfast.commands.actor import Call, DeleteActor, Discard, Park, ResumeActor, Send, Unpark
from holdfast.commands.arguments import LEFT_OUT
from holdfast.errors import CallFailed, HoldfastError

place_argument: Final = click.argument("place")
input_argument: Final = click.argument("input", metavar="[JSON]", type=json_text, default="[]")
request_option: Final = click.option("--request-id", help="A repeat with the same id is applied once.")
args_option: Final = click.option(
    "--args", metavar="JSON", type=json_text, help="Other arguments, checked by the app's code: by name or in order."
)


@click.group("actor")
def actor() -> None:
    """Inspect actors, call them, and repair those that have halted at a message. NAME is the actor's class."""


def _done(session: Session, name: str, key: str, action: str, told: str, **more: str) -> None:
    session.answer({"actor": name, "key": key, "action": action, **more}, f"{name} {key}: {told}")


# ── Calling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@on_actor(
    "call",
    'holdfast actor call -a shop:app Cart u1 add \'{"sku": "lamp", "n": 2}\'',
    "holdfast actor call -a shop:app Cart u1 add '[\"lamp\"]' --request-id order-17 --timeout 30s",
)
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
    command = Call(name, key, method, Raw(input.encode()), request_id, timeout)

    async def ask(app: App) -> Any:
        try:
            return json.loads(bytes(await perform(command, app, names=IN_HOME)))
        except HoldfastError:
            raise
        except Exception as error:
            raise CallFailed(type(error).__name__, str(error)) from error

    result = session.run(ask, session.app_for(command))
    session.answer({"actor": name, "key": key, "result": result}, as_json(result, exact=True), exact=True)


@on_actor(
    "send",
    'holdfast actor send -a shop:app Cart u1 add \'{"sku": "lamp"}\'',
    "holdfast actor send -a shop:app Cart u1 clear --delay 5m",
)
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
    sent = session.perform(Send(name, key, method, Raw(input.encode()), request_id, delay))
    _done(session, name, key, "send", f"{method} sent, with id {sent.id}", method=method, id=sent.id, place=sent.place)


@on_actor("delete", "holdfast actor delete -a shop:app Cart u1 --timeout 30s")
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
    session.perform(DeleteActor(name, key, timeout), explain=partial(status_of, actor=name, key=key))
    _done(session, name, key, "delete", "deleted")


# ── Repairing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@on_actor(
    "unpark",
    "holdfast actor unpark --home sqlite:///shop.db Cart u1 'p#i#01763705200000000#4c3f0a91d2b7'",
    "holdfast actor unpark -a shop:app Cart u1 'p#i#01763705200000000#4c3f0a91d2b7' --args '{\"sku\": \"lamp\"}'",
)
@place_argument
@args_option
@on_home
def unpark(session: Session, *, name: str, key: str, place: str, args: str | None) -> None:
    """Put a parked message back into the actor's inbox, behind those that wait.

    PLACE is the place that actor show prints. With --args the message gets other arguments, and the app's code is
    needed to check them.
    """
    given = LEFT_OUT if args is None else Raw(args.encode())
    explain = partial(check_parked, actor=name, key=key, place=place)
    session.perform(Unpark(name, key, place, given), with_code=args is not None, explain=explain)
    _done(session, name, key, "unpark", "the message is in the inbox again", place=place)


@on_actor("discard", "holdfast actor discard --home sqlite:///shop.db Cart u1 'p#i#01763705200000000#4c3f0a91d2b7'")
@place_argument
@on_home
def discard(session: Session, *, name: str, key: str, place: str) -> None:
    """Drop a parked message, for good. PLACE is the place that actor show prints."""
    explain = partial(check_parked, actor=name, key=key, place=place)
    session.perform(Discard(name, key, place), explain=explain)
    _done(session, name, key, "discard", "the message is dropped", place=place)


@on_actor("resume", "holdfast actor resume --home sqlite:///shop.db Cart u1")
@on_home
def resume(session: Session, *, name: str, key: str) -> None:
    """Let an actor that has halted try its message again."""
    session.perform(ResumeActor(name, key), explain=partial(status_of, actor=name, key=key))
    _done(session, name, key, "resume", "tries its message again")


@on_actor("park", "holdfast actor park --home sqlite:///shop.db Cart u1")
@on_home
def park(session: Session, *, name: str, key: str) -> None:
    """Park the message that an actor has halted at. The actor continues with the next one.

    For the hidden actor of a consumer it needs the app's code.
    """
    explain = partial(status_of, actor=name, key=key)
    session.perform(Park(name, key), with_code=name.startswith(HIDDEN_MARK), explain=explain)
    _done(session, name, key, "park", "has parked its message and continues")


for each in (call, delete, discard, ls, park, request, resume, send, show, unpark):
    actor.add_command(each)
