"""Holdfast: stateless Python functions with state that holds.

Everything public is here, and loaded when it is first used: importing the package opens nothing and loads no backend.
Type checkers read ``__init__.pyi``, which ``make stub`` writes from the names below.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PUBLIC_NAMES = {
    "actors.definition": "Actor field read",
    "actors.limited": "method",
    "actors.sending": "Sent send",
    "actors.timers": "timer",
    "app": "App",
    "bulk": "Changed ChangedPage Chosen",
    "client": "CallbackHandle StatusPage",
    "commands.right": "Right",
    "coordination.document.documents": "Document DocumentPage Documents",
    "coordination.document.record": "Versioned",
    "coordination.schedule": "Missed",
    "coordination.sealing.envelope": "SealedOnly",
    "coordination.stream.fold": "Fold",
    "coordination.stream.record": "Recorded StreamDeleted",
    "coordination.stream.streams": "Stream Streams",
    "dashboard.options": "Dashboard",
    "errors": (
        "BatchFailed Busy CallCycle CallFailed CallTimeout CompensationFailed ConfigurationError Conflict "
        "DeterminismError DuplicateName ExecutionCancelled ExecutionError ExecutionFailed ExecutionTerminated "
        "ExecutionTimedOut HoldfastError IOOutsideStep IdempotencyMismatch InvalidInput InvalidState "
        "InvalidToken KeyParked LeaseLost MailboxFull NestedDurableCall NondeterminismError NotFound "
        "PayloadTooLarge ResultNotStored SerializationError StepFailed StepInterrupted StepTimeout StoreError "
        "Terminal UnknownName WaitTimeout"
    ),
    "flow.declarations": "Queue QueueFull Queued",
    "flow.limits": "Limit LimitUse",
    "flow.overrides": "LimitLoan LimitStatus",
    "flow.rates": "Rate",
    "flow.standing": "QueueKey QueueSlot QueueStatus QueueWait QueueWaiter",
    "http.authentication": "BearerTokens Caller iam_caller",
    "http.limits": "HttpLimits",
    "http.messages": "Request Response",
    "json_lines": "JsonLines",
    "kernel.limits": "Limits",
    "patterns.atomic": "Transaction",
    "patterns.batch": "SqsBatch",
    "patterns.blobs": "Blob",
    "patterns.held": "HeldLease",
    "patterns.idempotent": "IdempotencyRecord",
    "patterns.injection": "injected",
    "patterns.projection": "Projection",
    "patterns.session": "Session",
    "patterns.starts.keyed": "KeyedStart Starts",
    "patterns.starts.promised": "Promised",
    "ports": "Seal SqlCursor",
    "retry": "Jitter Retry",
    "runtime.metrics": "write_metrics",
    "secret": "Secret",
    "workflows.definition": "Step Workflow",
    "workflows.handle": "Handle",
    "workflows.history": "Event",
    "workflows.inline": "step",
    "workflows.logging": "get_logger",
    "workflows.operations.batch": "Batch Completion",
    "workflows.operations.callback": "Callback callback",
    "workflows.operations.code_changes": "patched removed",
    "workflows.operations.deterministic": "now random uuid",
    "workflows.operations.live_state": "query",
    "workflows.operations.map": "map",
    "workflows.operations.new_run": "continue_as_new",
    "workflows.operations.signal": "signal",
    "workflows.operations.wait": "poll sleep wait_for",
    "workflows.record": "ExecutionRef",
    "workflows.saga": "saga",
    "workflows.scope": "Current HandlerInfo StepInfo WorkflowInfo current",
    "workflows.status": "Status",
}
"""All that is public, by module. A name leaves only after a deprecation; the stub shows each change."""

_MODULE_OF = {name: module for module, names in PUBLIC_NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  # checkers read the stub


PACKAGES = ("asl",)
"""Packages whose names are public under their own: ``hf.asl.Error``."""


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"holdfast.{name}")
    try:
        module = _MODULE_OF[name]
    except KeyError:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}") from None
    value = getattr(import_module(f"holdfast.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
