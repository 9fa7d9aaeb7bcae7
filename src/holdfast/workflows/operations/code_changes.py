"""What new code says of old executions that it goes on with (G13)."""

from __future__ import annotations

from holdfast.workflows.scope import activation_for


def patched(id: str) -> bool:
    """Fork old and new code: true on executions that have not passed here under the old code.

    Write ``if hf.patched("fraud-check"): new() else: old()``. When no old execution is left, drop the old branch.
    """
    return activation_for("hf.patched").patched(id)


def removed(*names: str) -> None:
    """Declare that this code does without steps, children or other operations of these names.

    An execution in which earlier code has finished one of them, or has it under way, goes on all the same; without the
    declaration it is blocked (G13). A name is that of a step (``"charge"``) or the whole identity of an operation, as
    the history shows it (``"ship#0/charge#0"``). Call it first thing in the body; drop it when no old execution is
    left.
    """
    activation = activation_for("hf.removed")
    activation.past.remove(names, activation.requested)
