"""Errors as responses: ``application/problem+json`` (RFC 9457), with the stable ``code`` of the error.

| status | when |
|---|---|
| 400 | the input is wrong: an argument, an option, the JSON |
| 401, 403 | the caller is unknown; or may not do this |
| 404 | no such route, workflow, actor, method, event, execution; or the callback token is not valid |
| 405 | the route has other methods: ``Allow`` lists them |
| 408 | the request did not arrive in time |
| 409 | the current status does not allow it; or another process is working on it: ``Retry-After`` |
| 413, 414, 415, 431 | body, path or headers over the limit; a compressed body |
| 422 | the id belongs to another input; or an actor refused with an error that it declares (``raises=``) |
| 429 | the mailbox is full; ``Retry-After`` |
| 500 | user code raised an error that it does not declare; or the server has a fault |
| 503 | the store does not answer; or the server is overloaded; ``Retry-After`` |
| 504 | the wait is over; the work continues |
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from typing import Any, Final

from holdfast import errors, ids
from holdfast.errors import (
    BatchFailed,
    Busy,
    CallTimeout,
    ConfigurationError,
    ExecutionError,
    ExecutionTerminated,
    HoldfastError,
    IdempotencyMismatch,
    InvalidInput,
    InvalidState,
    InvalidToken,
    KeyParked,
    LeaseLost,
    MailboxFull,
    NotFound,
    PayloadTooLarge,
    Refused,
    StepFailed,
    StoreError,
    StoreUnusable,
    Terminal,
    UnknownName,
    WaitTimeout,
)
from holdfast.failure import ErrorRegistry
from holdfast.flow.declarations import QueueFull
from holdfast.http.messages import Response, json_response
from holdfast.texts import frames_of, masked

PROBLEM_JSON: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 1

STATUS_OF: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (UnknownName, 404),
    (NotFound, 404),
    (InvalidToken, 404),
    (PayloadTooLarge, 413),
    (InvalidInput, 400),
    (IdempotencyMismatch, 422),
    (InvalidState, 409),
    (Busy, 409),
    (LeaseLost, 409),
    (KeyParked, 409),
    (MailboxFull, 429),
    (QueueFull, 429),
    (WaitTimeout, 504),
    (CallTimeout, 504),
    (Refused, 500),
    (StoreUnusable, 500),
    (StoreError, 503),
)
"""The first class that matches decides. An error that matches none is 500."""

HIDDEN: Final[tuple[tuple[type[HoldfastError], str], ...]] = (
    (UnknownName, ""),
    (Refused, "the store cannot be used; the log of the server says more"),
    (StoreUnusable, "the store cannot be used; the log of the server says more"),
    (StoreError, "the store does not answer; send it again, under the same id if it has one"),
    (ConfigurationError, "the server is not set up right; its log says more"),
)
"""What callers are told instead of messages that name files and tables. An empty text means the message itself."""


QUOTING: Final = (StepFailed, ExecutionError, BatchFailed, Terminal)
"""Holdfast's errors that quote user code, which may mention a password or a path."""

OWN_WORDS: Final = frozenset(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and not issubclass(kind, QUOTING)
) | {f"{kind.__module__}.{kind.__qualname__}" for kind in (Terminal, ExecutionTerminated, CancelledError)}
"""The error types of executions whose text callers may see: it is Holdfast's own, or meant for callers."""

_logger = logging.getLogger("holdfast")


class Problem(Exception):
    """An error response. Never leaves this package."""

    def __init__(self, status: int, code: str, detail: str, *headers: tuple[str, str], **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
        self.more = more

    def response(self) -> Response:
        """The problem as a response, with callback tokens masked."""
        told = {"title": self.code.replace("_", " "), "status": self.status, "detail": masked(self.detail)}
        return json_response(self.status, {**told, "code": self.code, **self.more}, *self.headers, kind=PROBLEM_JSON)


def overloaded(detail: str) -> Problem:
    """The problem of a server that is overloaded."""
    return Problem(503, "overloaded", detail, ("retry-after", str(RETRY_AFTER_SECONDS)))


def fault(error: Exception, what: object, code: str = "internal", error_type: str = "") -> Problem:
    """The problem of an undeclared error: its type and an id. Its text may quote the request, so it is neither answered
    nor logged. The log has its stack, under the id.
    """
    name, id = error_type.rpartition(".")[2] or type(error).__name__, ids.new_id()[:16]
    _logger.error("%s failed with %s, error %s:\n%s", what, name, id, frames_of(error))
    told = f"an error that is not declared: {name}; the log of the server says where, under {id}"
    return Problem(500, code, told, error_type=name, error_id=id)


def problem_of(error: HoldfastError, what: object = "a request") -> Problem:
    """The problem of one of Holdfast's errors, without stack traces, files, tables and quotes of user code."""
    if isinstance(error, QUOTING):
        return fault(error, what, error.code, error.error_type if isinstance(error, StepFailed) else "")
    status = next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)
    hidden = next((text for kind, text in HIDDEN if isinstance(error, kind)), "")
    after = error.retry_after_seconds if isinstance(error, Busy) else RETRY_AFTER_SECONDS
    again = status == 503 or isinstance(error, Busy | LeaseLost | MailboxFull | QueueFull)
    headers = (("retry-after", str(after)),) if again else ()
    return Problem(status, error.code, hidden or str(error), *headers)


def told_error(type: str, text: str, declared: ErrorRegistry) -> str:
    """A recorded error of user code, as an outside caller may see it: its text only if the app declares its type."""
    name = type.rpartition(".")[2]
    return masked(f"{name}: {text}") if type in OWN_WORDS or declared.declares(type) else name


def type_of_error(told: str) -> str:
    """The type of an error that is told in one line."""
    return told.partition(":")[0]
