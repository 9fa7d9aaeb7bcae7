"""Routes of actors: call, send, read, and what became of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from holdfast.actors.address import check_request_id
from holdfast.actors.kind import Kind, shown_kind_named
from holdfast.actors.reference import BoundMethod, method_named
from holdfast.actors.sending import send as send_message
from holdfast.errors import CallFailed, HoldfastError, SerializationError, WaitTimeout
from holdfast.http.api import Call, Served, arguments
from holdfast.http.authentication import Right
from holdfast.http.messages import Response, json_response
from holdfast.http.problems import Problem, fault
from holdfast.secret import redacted_json

REQUEST_ID: Final = "Request-Id"
GRACE_SECONDS: Final = 1.0


async def call_method(call: Call) -> Response:
    """Call a method and answer its result: once for each ``Request-Id``, and a repeat gets the stored reply (G5)."""
    query = call.query("wait")
    return await _called(call, call.request.body, call.wait_seconds(query, call.longest_wait_seconds))


async def read(call: Call) -> Response:
    """Call a method that only reads; its arguments are the parameter ``args``."""
    query = call.query("args", "wait")
    if not _method(call).method.reads:
        told = f"{call.names['actor']}.{call.names['method']} changes the actor: call it by POST"
        raise Problem(405, "method_not_allowed", told, ("allow", "POST"))
    args = (query.one("args") or "").encode()
    return await _called(call, args, call.wait_seconds(query, call.longest_wait_seconds))


async def _called(call: Call, given: bytes, wait_seconds: float) -> Response:
    bound = _method(call, call.own_id(REQUEST_ID), wait_seconds)
    args, kwargs = _arguments(call, bound, given)
    try:
        # A call has a timeout of its own, which says more; a method that only reads has none.
        result = await call.within(wait_seconds + GRACE_SECONDS, _performed(bound, args, kwargs))
    except TimeoutError as error:
        if isinstance(error, HoldfastError):
            raise
        raise WaitTimeout(f"{bound!r} did not answer within {wait_seconds} s") from None
    return json_response(200, {"result": Raw(redacted_json(bound.method.signature.result.encode(result)))})


async def _performed(bound: BoundMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call. What the method raises becomes a ``Problem``, unless it is one of Holdfast's errors."""
    declared = bound.reference.kind.policy.raises
    try:
        return await bound(*args, **kwargs)
    except declared as error:
        name = type(error).__name__
        raise Problem(422, CallFailed.code, f"{name}: {error}", error_type=name) from error
    except SerializationError as error:  # of what the actor has or answers: the arguments were checked before
        raise Problem(500, error.code, str(error)) from error
    except HoldfastError:
        raise
    except Exception as error:
        raise fault(error, bound, CallFailed.code) from error


async def send(call: Call) -> Response:
    """Send a message to an actor, durably, without waiting for it."""
    query = call.query("delay")
    delay = query.one("delay")
    bound = _method(call)
    args, kwargs = _arguments(call, bound, call.request.body)
    sent = await send_message(bound, *args, delay=delay, request_id=call.own_id(REQUEST_ID), **kwargs)
    assert sent is not None, "only a workflow body gets no answer"
    names = {name: call.names[name] for name in ("actor", "key", "method")}
    return json_response(202, {**names, "id": sent.id})


async def request_status(call: Call) -> Response:
    """What became of a request: ``completed``, ``failed``, ``waiting``, ``parked`` or ``unknown``."""
    call.query()
    kind, id = _kind(call), call.names["id"]
    check_request_id(id)
    status = await call.app.actor(kind.name, call.names["key"]).request_status(id)
    return json_response(200, {"id": id, "status": status})


def _kind(call: Call) -> Kind:
    return shown_kind_named(call.app.registry.actors, call.names["actor"])


def right_of(app: Served, names: Mapping[str, str]) -> Right:
    """What a caller needs to call a method by POST: one that only reads is read, however it is called."""
    kind = app.registry.actors.get(names["actor"])
    method = None if kind is None else kind.methods.get(names["method"])
    return Right.READ if method is not None and method.reads else Right.WRITE


def _method(call: Call, request_id: str | None = None, timeout: float | None = None) -> BoundMethod:
    kind = _kind(call)
    return method_named(kind, call.names["key"], call.names["method"], request_id=request_id, timeout=timeout)


def _arguments(call: Call, bound: BoundMethod, given: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = bound.method.signature
    return signature.unbind(arguments(signature, given, call.app.runtime().limit_bytes))
