"""The commands about one execution that is there, and what each of them does."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.workflows.handle import Handle


class Control(Struct, frozen=True, tag_field="holdfast", forbid_unknown_fields=True):
    """Something to do with an execution."""

    workflow: str
    id: str


class StatusOf(Control, frozen=True, tag="status"):
    """Look at an execution."""


class SendSignal(Control, frozen=True, tag="signal"):
    """Send a value to an execution."""

    name: str
    value: Any = None
    signal_id: str | None = None


class Cancel(Control, frozen=True, tag="cancel"):
    """Ask an execution to stop."""

    reason: str = ""


class Terminate(Control, frozen=True, tag="terminate"):
    """End an execution at once."""

    reason: str = "terminated"


class Pause(Control, frozen=True, tag="pause"):
    """Let an execution start nothing new."""


class Resume(Control, frozen=True, tag="resume"):
    """Let a paused execution go on."""


class Delete(Control, frozen=True, tag="delete"):
    """Delete an execution that has ended."""


class Move(Control, frozen=True, tag="move"):
    """Pin an execution to the code that runs this."""


class Retry(Control, frozen=True, tag="retry"):
    """Go on with an execution that ended badly."""


class RetryNow(Control, frozen=True, tag="retry-now"):
    """Let steps that wait for their next attempts make them now."""


class Fork(Control, frozen=True, tag="fork"):
    """Start a new execution from the history of another one."""

    new_id: str | None = None
    before: str | None = None


AnyControl = StatusOf | SendSignal | Cancel | Terminate | Pause | Resume | Delete | Move | Retry | RetryNow | Fork


async def control(command: Control, handle: Handle[Any], own_id: str) -> Any:
    """Do it, and answer what the caller is told. ``own_id`` is that of the message or invocation."""
    match command:
        case SendSignal(name=name, value=value, signal_id=signal_id):
            await handle.signal(name, value, id=signal_id or own_id)
        case Cancel(reason=reason):
            await handle.cancel(reason)
        case Terminate(reason=reason):
            await handle.terminate(reason)
        case Pause():
            await handle.pause()
        case Resume():
            await handle.resume()
        case Delete():
            await handle.delete()
        case Move():
            await handle.move()
        case Retry():
            await handle.retry()
        case RetryNow():
            await handle.retry_now()
        case Fork(new_id=new_id, before=before):
            fork = await handle.fork(new_id or own_id, before=before)
            return {"workflow": fork.workflow, "id": fork.id}
        case _:
            pass  # what there is to tell of an execution is told when all is quiet
    return None
