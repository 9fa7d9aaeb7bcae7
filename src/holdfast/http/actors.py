"""Routes of actors: call a method, send a message, read, and look up a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from holdfast.actors.kind import shown_kind_named
from holdfast.actors.reference import method_named
from holdfast.commands import actor as commands
from holdfast.commands.actor import Prepared, RequestStatus
from holdfast.commands.arguments import given
from holdfast.commands.right import Right
from holdfast.errors import CallFailed, HoldfastError, SerializationError, WaitTimeout
from holdfast.http.api import Call, Served
from holdfast.http.messages import Request, Response, json_response
from holdfast.http.problems import Problem, fault
from holdfast.secret import redacted_json

REQUEST_ID: Final = "Request-Id"
GRACE_SECONDS: Final = 1.0


async def call_method(call: Call) -> Response:
    """Call a method and answer its result: once per ``Request-Id``. A repeat gets the stored reply (G5)."""
    query = call.query("wait")
    return await _called(call, call.request.body, call.wait_seconds(query, call.longest_wait_seconds))


async def read(call: Call) -> Response:
    """Call a method that only reads. Its arguments are in the parameter ``args``."""
    query = call.query("args", "wait")
    actor, key, method = _method(call)
    if not method_named(shown_kind_named(call.app.registry.actors, actor), key, method).method.reads:
        raise Problem(
            405, "method_not_allowed", f"{actor}.{method} changes the actor: call it by POST", ("allow", "POST")
        )
    args = (query.one("args") or "").encode()
    return await _called(call, args, call.wait_seconds(query, call.longest_wait_seconds))


async def _called(call: Call, args: bytes, wait_seconds: float) -> Response:
    command = commands.Call(*_method(call), given(args), call.own_id(REQUEST_ID), wait_seconds)
    prepared = command.prepared(call.context())
    try:
        # A call has a timeout of its own, whose error says more. A method that only reads has none.
        result = await call.within(wait_seconds + GRACE_SECONDS, _replied(prepared))
    except TimeoutError as error:
        if isinstance(error, HoldfastError):
            raise
        raise WaitTimeout(f"{prepared.bound!r} did not answer within {wait_seconds} s") from None
    return json_response(200, {"result": Raw(redacted_json(bytes(result)))})


async def _replied(prepared: Prepared) -> Raw:
    """The result of a call. What the method raises becomes a ``Problem``, unless it is one of Holdfast's errors."""
    declared = prepared.bound.reference.kind.policy.raises
    try:
        return await prepared.reply()
    except declared as error:
        name = type(error).__name__
        raise Problem(422, CallFailed.code, f"{name}: {error}", error_type=name) from error
    except SerializationError as error:  # in the actor's state or its answer: the arguments were checked before
        raise Problem(500, error.code, str(error)) from error
    except HoldfastError:
        raise
    except Exception as error:
        raise fault(error, prepared.bound, CallFailed.code) from error


async def send(call: Call) -> Response:
    """Send a message to an actor, durably, without waiting for it."""
    delay = call.query("delay").one("delay")
    actor, key, method = _method(call)
    command = commands.Send(actor, key, method, given(call.request.body), call.own_id(REQUEST_ID), delay)
    sent = await call.perform(command)
    return json_response(202, {"actor": actor, "key": key, "method": method, "id": sent.id})


async def request_status(call: Call) -> Response:
    """The status of a request: ``completed``, ``failed``, ``waiting``, ``parked`` or ``unknown``."""
    call.query()
    found = await call.perform(RequestStatus(call.names["actor"], call.names["key"], call.names["id"]))
    return json_response(200, {"id": found.id, "status": found.status})


def right_of(app: Served, names: Mapping[str, str], _request: Request) -> Right:
    """The right needed to call a method by POST. A method that only reads needs only the right to read."""
    kind = app.registry.actors.get(names["actor"])
    method = None if kind is None else kind.methods.get(names["method"])
    return Right.READ if method is not None and method.reads else Right.WRITE


def _method(call: Call) -> tuple[str, str, str]:
    """The actor, the key and the method in the path."""
    return call.names["actor"], call.names["key"], call.names["method"]
