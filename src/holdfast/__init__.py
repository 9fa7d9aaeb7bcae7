"""Holdfast: stateless Python functions with state that holds.

Everything public is here, and loaded when it is first used: importing the package opens nothing and loads no backend.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.actors.definition import Actor as Actor
    from holdfast.actors.definition import field as field
    from holdfast.actors.definition import read as read
    from holdfast.actors.limited import method as method
    from holdfast.actors.sending import Sent as Sent
    from holdfast.actors.sending import send as send
    from holdfast.actors.timers import timer as timer
    from holdfast.app import App as App
    from holdfast.bulk import Changed as Changed
    from holdfast.bulk import ChangedPage as ChangedPage
    from holdfast.bulk import Chosen as Chosen
    from holdfast.client import CallbackHandle as CallbackHandle
    from holdfast.client import StatusPage as StatusPage
    from holdfast.coordination.document.collection import DocumentPage as DocumentPage
    from holdfast.coordination.document.collection import Documents as Documents
    from holdfast.coordination.document.handle import Document as Document
    from holdfast.coordination.document.record import Versioned as Versioned
    from holdfast.coordination.schedule import Missed as Missed
    from holdfast.coordination.sealing.envelope import SealedOnly as SealedOnly
    from holdfast.coordination.stream.collection import Streams as Streams
    from holdfast.coordination.stream.fold import Fold as Fold
    from holdfast.coordination.stream.handle import Stream as Stream
    from holdfast.coordination.stream.record import Recorded as Recorded
    from holdfast.errors import BatchFailed as BatchFailed
    from holdfast.errors import Busy as Busy
    from holdfast.errors import CallCycle as CallCycle
    from holdfast.errors import CallFailed as CallFailed
    from holdfast.errors import CallTimeout as CallTimeout
    from holdfast.errors import CompensationFailed as CompensationFailed
    from holdfast.errors import ConfigurationError as ConfigurationError
    from holdfast.errors import Conflict as Conflict
    from holdfast.errors import DeterminismError as DeterminismError
    from holdfast.errors import DuplicateName as DuplicateName
    from holdfast.errors import ExecutionCancelled as ExecutionCancelled
    from holdfast.errors import ExecutionError as ExecutionError
    from holdfast.errors import ExecutionFailed as ExecutionFailed
    from holdfast.errors import ExecutionTerminated as ExecutionTerminated
    from holdfast.errors import ExecutionTimedOut as ExecutionTimedOut
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.errors import IdempotencyMismatch as IdempotencyMismatch
    from holdfast.errors import InvalidInput as InvalidInput
    from holdfast.errors import InvalidState as InvalidState
    from holdfast.errors import InvalidToken as InvalidToken
    from holdfast.errors import IOOutsideStep as IOOutsideStep
    from holdfast.errors import KeyParked as KeyParked
    from holdfast.errors import LeaseLost as LeaseLost
    from holdfast.errors import MailboxFull as MailboxFull
    from holdfast.errors import NestedDurableCall as NestedDurableCall
    from holdfast.errors import NondeterminismError as NondeterminismError
    from holdfast.errors import NotFound as NotFound
    from holdfast.errors import PayloadTooLarge as PayloadTooLarge
    from holdfast.errors import ResultNotStored as ResultNotStored
    from holdfast.errors import SerializationError as SerializationError
    from holdfast.errors import StepFailed as StepFailed
    from holdfast.errors import StepInterrupted as StepInterrupted
    from holdfast.errors import StepTimeout as StepTimeout
    from holdfast.errors import StoreError as StoreError
    from holdfast.errors import Terminal as Terminal
    from holdfast.errors import UnknownName as UnknownName
    from holdfast.errors import WaitTimeout as WaitTimeout
    from holdfast.http.api import HttpLimits as HttpLimits
    from holdfast.http.authentication import BearerTokens as BearerTokens
    from holdfast.http.authentication import Caller as Caller
    from holdfast.http.authentication import Right as Right
    from holdfast.http.authentication import iam_caller as iam_caller
    from holdfast.http.messages import Request as Request
    from holdfast.http.messages import Response as Response
    from holdfast.kernel.host import Limits as Limits
    from holdfast.patterns.atomic import Transaction as Transaction
    from holdfast.patterns.batch import SqsBatch as SqsBatch
    from holdfast.patterns.blobs import Blob as Blob
    from holdfast.patterns.held import HeldLease as HeldLease
    from holdfast.patterns.idempotent import IdempotencyRecord as IdempotencyRecord
    from holdfast.patterns.injection import injected as injected
    from holdfast.patterns.projection import Projection as Projection
    from holdfast.patterns.session import Session as Session
    from holdfast.ports import Seal as Seal
    from holdfast.ports import SqlCursor as SqlCursor
    from holdfast.retry import Jitter as Jitter
    from holdfast.retry import Retry as Retry
    from holdfast.runtime.metrics import write_metrics as write_metrics
    from holdfast.secret import Secret as Secret
    from holdfast.workflows.definition import Step as Step
    from holdfast.workflows.definition import Workflow as Workflow
    from holdfast.workflows.handle import Handle as Handle
    from holdfast.workflows.history import Event as Event
    from holdfast.workflows.inline import step as step
    from holdfast.workflows.logging import get_logger as get_logger
    from holdfast.workflows.operations.batch import Batch as Batch
    from holdfast.workflows.operations.batch import Completion as Completion
    from holdfast.workflows.operations.callback import Callback as Callback
    from holdfast.workflows.operations.callback import callback as callback
    from holdfast.workflows.operations.map import map as map  # noqa: A004 - read as hf.map, never imported bare
    from holdfast.workflows.operations.signal import signal as signal
    from holdfast.workflows.operations.wait import continue_as_new as continue_as_new
    from holdfast.workflows.operations.wait import now as now
    from holdfast.workflows.operations.wait import patched as patched
    from holdfast.workflows.operations.wait import poll as poll
    from holdfast.workflows.operations.wait import query as query
    from holdfast.workflows.operations.wait import random as random
    from holdfast.workflows.operations.wait import removed as removed
    from holdfast.workflows.operations.wait import sleep as sleep
    from holdfast.workflows.operations.wait import uuid as uuid
    from holdfast.workflows.operations.wait import wait_for as wait_for
    from holdfast.workflows.record import ExecutionRef as ExecutionRef
    from holdfast.workflows.saga import saga as saga
    from holdfast.workflows.scope import Current as Current
    from holdfast.workflows.scope import HandlerInfo as HandlerInfo
    from holdfast.workflows.scope import StepInfo as StepInfo
    from holdfast.workflows.scope import WorkflowInfo as WorkflowInfo
    from holdfast.workflows.scope import current as current
    from holdfast.workflows.status import Status as Status

_ERRORS = (
    "BatchFailed Busy CallCycle CallFailed CallTimeout CompensationFailed ConfigurationError Conflict DeterminismError "
    "DuplicateName ExecutionCancelled ExecutionError ExecutionFailed "
    "ExecutionTerminated ExecutionTimedOut HoldfastError IdempotencyMismatch InvalidInput InvalidState InvalidToken "
    "IOOutsideStep KeyParked LeaseLost MailboxFull NestedDurableCall NondeterminismError NotFound PayloadTooLarge "
    "ResultNotStored SerializationError StepFailed StepInterrupted StepTimeout StoreError Terminal UnknownName "
    "WaitTimeout"
)
_WAITS = "continue_as_new now patched poll query random removed sleep uuid wait_for"

_HOMES = {
    "App": "app",
    **dict.fromkeys(("Actor", "field", "read"), "actors.definition"),
    "method": "actors.limited",
    **dict.fromkeys(("Sent", "send"), "actors.sending"),
    "timer": "actors.timers",
    **dict.fromkeys(("DocumentPage", "Documents"), "coordination.document.collection"),
    "Document": "coordination.document.handle",
    "Versioned": "coordination.document.record",
    "SealedOnly": "coordination.sealing.envelope",
    "Missed": "coordination.schedule",
    "Transaction": "patterns.atomic",
    "Projection": "patterns.projection",
    "Streams": "coordination.stream.collection",
    "Fold": "coordination.stream.fold",
    "Stream": "coordination.stream.handle",
    "Recorded": "coordination.stream.record",
    **dict.fromkeys(_ERRORS.split(), "errors"),
    "HttpLimits": "http.api",
    **dict.fromkeys(("BearerTokens", "Caller", "Right", "iam_caller"), "http.authentication"),
    **dict.fromkeys(("Request", "Response"), "http.messages"),
    "Limits": "kernel.host",
    "Blob": "patterns.blobs",
    "HeldLease": "patterns.held",
    "injected": "patterns.injection",
    "Session": "patterns.session",
    "SqsBatch": "patterns.batch",
    "IdempotencyRecord": "patterns.idempotent",
    **dict.fromkeys(("Seal", "SqlCursor"), "ports"),
    "Jitter": "retry",
    "Retry": "retry",
    "write_metrics": "runtime.metrics",
    "Secret": "secret",
    "Step": "workflows.definition",
    "Workflow": "workflows.definition",
    "Handle": "workflows.handle",
    "Status": "workflows.status",
    "get_logger": "workflows.logging",
    "Callback": "workflows.operations.callback",
    "callback": "workflows.operations.callback",
    "Batch": "workflows.operations.batch",
    "map": "workflows.operations.map",
    "signal": "workflows.operations.signal",
    "step": "workflows.inline",
    **dict.fromkeys(_WAITS.split(), "workflows.operations.wait"),
    "saga": "workflows.saga",
    "HandlerInfo": "workflows.scope",
    "StepInfo": "workflows.scope",
    "WorkflowInfo": "workflows.scope",
    "current": "workflows.scope",
    "Current": "workflows.scope",
    "Completion": "workflows.operations.batch",
    "Event": "workflows.history",
    "StatusPage": "client",
    "ExecutionRef": "workflows.record",
    "CallbackHandle": "client",
    "Changed": "bulk",
    "ChangedPage": "bulk",
    "Chosen": "bulk",
}

__all__ = [
    "Actor",
    "App",
    "Batch",
    "BatchFailed",
    "BearerTokens",
    "Blob",
    "Busy",
    "CallCycle",
    "CallFailed",
    "CallTimeout",
    "Callback",
    "CallbackHandle",
    "Caller",
    "Changed",
    "ChangedPage",
    "Chosen",
    "CompensationFailed",
    "Completion",
    "ConfigurationError",
    "Conflict",
    "Current",
    "DeterminismError",
    "Document",
    "DocumentPage",
    "Documents",
    "DuplicateName",
    "Event",
    "ExecutionCancelled",
    "ExecutionError",
    "ExecutionFailed",
    "ExecutionRef",
    "ExecutionTerminated",
    "ExecutionTimedOut",
    "Fold",
    "Handle",
    "HandlerInfo",
    "HeldLease",
    "HoldfastError",
    "HttpLimits",
    "IOOutsideStep",
    "IdempotencyMismatch",
    "IdempotencyRecord",
    "InvalidInput",
    "InvalidState",
    "InvalidToken",
    "Jitter",
    "KeyParked",
    "LeaseLost",
    "Limits",
    "MailboxFull",
    "Missed",
    "NestedDurableCall",
    "NondeterminismError",
    "NotFound",
    "PayloadTooLarge",
    "Projection",
    "Recorded",
    "Request",
    "Response",
    "ResultNotStored",
    "Retry",
    "Right",
    "Seal",
    "SealedOnly",
    "Secret",
    "Sent",
    "SerializationError",
    "Session",
    "SqlCursor",
    "SqsBatch",
    "Status",
    "StatusPage",
    "Step",
    "StepFailed",
    "StepInfo",
    "StepInterrupted",
    "StepTimeout",
    "StoreError",
    "Stream",
    "Streams",
    "Terminal",
    "Transaction",
    "UnknownName",
    "Versioned",
    "WaitTimeout",
    "Workflow",
    "WorkflowInfo",
    "callback",
    "continue_as_new",
    "current",
    "field",
    "get_logger",
    "iam_caller",
    "injected",
    "map",
    "method",
    "now",
    "patched",
    "poll",
    "query",
    "random",
    "read",
    "removed",
    "saga",
    "send",
    "signal",
    "sleep",
    "step",
    "timer",
    "uuid",
    "wait_for",
    "write_metrics",
]


def __getattr__(name: str) -> Any:
    try:
        module = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}") from None
    value = getattr(import_module(f"holdfast.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
