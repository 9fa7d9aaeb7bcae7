"""Building an execution's activation from what is recorded: for going on with it, looking into it, or testing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.kernel.activation import Activation
from holdfast.kernel.entries import Entry
from holdfast.workflows.record import seed_of
from holdfast.workflows.scope import WorkflowInfo

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.workflows.definition import Workflow
    from holdfast.workflows.record import ExecutionRecord


def activation_of(
    partition: str,
    record: ExecutionRecord,
    workflow: Workflow[..., Any],
    entries: Sequence[Entry],
    rebuild: Callable[[ErrorRecord], Exception],
    *,
    looking: bool = False,
) -> Activation:
    """The activation of one run, not yet begun. Replay is strict if this very code began the execution (G13).

    ``looking``: it serves a query, and nothing will come of it.
    """

    async def body() -> Any:
        args, kwargs = workflow.signature.unbind(bytes(record.input))
        return await workflow.function(*args, **kwargs)

    activation = Activation(
        body,
        recorded=(*record.carried, *entries),
        started_at=record.run_at,
        seed=seed_of(record),
        strict=record.version == workflow.version,
        rebuild=rebuild,
    )
    activation.repeats = bool(entries)
    activation.looking = looking
    activation.context = WorkflowInfo(
        workflow=record.workflow,
        id=record.id,
        run=record.run,
        version=record.version,
        tags=dict(record.tags),
        activation=activation,
        partition=partition,
        secret=record.secret,
        signature=workflow.signature,
    )
    return activation
