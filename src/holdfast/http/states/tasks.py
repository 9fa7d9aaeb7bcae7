"""SendTaskSuccess, SendTaskFailure, SendTaskHeartbeat and GetActivityTask: tasks that are done outside.

A caller needs the right to write, and the token. AWS tells late answers from tokens that never were, and so does this:
only who has a genuine token learns that it is late.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Raw

from holdfast.asl.errors import LONGEST_CAUSE_CHARACTERS, LONGEST_ERROR_CHARACTERS, Error
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.stored.queue import Waiting, take
from holdfast.client import CallbackHandle
from holdfast.errors import InvalidToken
from holdfast.http.states import asked
from holdfast.http.states.faults import Fault, invalid_request, invalid_token, no_activity
from holdfast.http.states.names import activity_arn
from holdfast.http.states.service import Answer, Service
from holdfast.workflows.callback_tokens import token_scope
from holdfast.workflows.record import OPEN, answered_sort, decode_record

POLL_SECONDS: Final = 60.0
"""How long GetActivityTask waits for a task (API Reference, "GetActivityTask")."""

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
PAUSE_GROWTH: Final = 1.5

LARGEST_OUTPUT_BYTES: Final = 262_144


async def succeed(service: Service, request: asked.SendTaskSuccess) -> Answer:
    """End a task well, once. A repeat of the answer that was taken is taken too (G11)."""
    if len(request.output.encode()) > LARGEST_OUTPUT_BYTES:
        raise Fault("InvalidOutput", f"Invalid Output: 'it is over {LARGEST_OUTPUT_BYTES} bytes'")
    try:
        read(request.output)
    except NotJson as error:
        raise Fault("InvalidOutput", f"Invalid Output: '{error}'") from None
    handle = await _handle(service, request.task_token)
    try:
        await handle.answer(value=Raw(request.output.encode()))
    except InvalidToken:
        raise _timed_out() from None
    return {}


async def fail(service: Service, request: asked.SendTaskFailure) -> Answer:
    """End a task badly, once."""
    if len(request.error) > LONGEST_ERROR_CHARACTERS or len(request.cause) > LONGEST_CAUSE_CHARACTERS:
        raise invalid_request("the error has at most 256 characters, and the cause 32,768")
    handle = await _handle(service, request.task_token)
    try:
        await handle.answer(error=Error(request.error, request.cause))
    except InvalidToken:
        raise _timed_out() from None
    return {}


async def beat(service: Service, request: asked.SendTaskHeartbeat) -> Answer:
    """Say that a task is worked on."""
    handle = await _handle(service, request.task_token)
    if not await _waits(service, request.task_token):
        raise _timed_out()
    try:
        await handle.heartbeat()
    except InvalidToken:
        raise _timed_out() from None
    return {}


async def poll(service: Service, request: asked.GetActivityTask) -> Answer:
    """The next task of an activity, for this worker alone; nothing, if none comes within a minute."""
    arn = activity_arn(request.activity_arn)
    if await service.shelf.activity(arn.name) is None:
        raise no_activity(arn.text)
    try:
        waiting = await service.call.within(POLL_SECONDS, _next(service, arn.name))
    except TimeoutError:
        return {}
    return {"taskToken": waiting.token, "input": waiting.input}


async def _next(service: Service, activity: str) -> Waiting:
    pause = FIRST_PAUSE_SECONDS
    store = service.call.app.runtime().home.store
    while True:
        found = await take(store, activity, service.now_ms())
        if found is None:
            await asyncio.sleep(pause)
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)
        elif await _begun(service, found.token):  # else its time is over, or its execution
            return found


async def _begun(service: Service, token: str) -> bool:
    """Tell the execution that a worker has its task, if it still waits for that."""
    if not await _waits(service, token):
        return False
    try:
        await CallbackHandle(token, service.call.app.runtime).heartbeat()
    except InvalidToken:  # it ended just now
        return False
    return True


async def _handle(service: Service, token: str) -> CallbackHandle:
    """The callback of a genuine token. Raises ``Fault``."""
    handle = CallbackHandle(token, service.call.app.runtime)
    try:
        await handle.verify()
    except InvalidToken:
        raise invalid_token() from None
    return handle


async def _waits(service: Service, token: str) -> bool:
    """Whether a genuine token has not been answered, and its task is not over."""
    scope, store = token_scope(token), service.call.app.runtime().home.store
    head = await store.get(scope.partition)
    if head is None or head.status not in OPEN or decode_record(head.body).run != scope.run:
        return False
    return await store.get(scope.partition, answered_sort(scope.run, scope.op)) is None


def _timed_out() -> Fault:
    return Fault("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
