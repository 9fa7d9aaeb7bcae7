"""Time and chance, the same on every replay."""

from __future__ import annotations

from datetime import datetime
from random import Random
from uuid import UUID

from holdfast.clock import moment
from holdfast.errors import InvalidInput
from holdfast.kernel.unit import current_unit
from holdfast.workflows.scope import activation_for, current_activation, refuse_in_step


def now() -> datetime:
    """The time, in UTC: in a workflow body that of the last thing it waited for, the same on every replay; in a
    handler, such as an actor's method, that of the app's clock.
    """
    if (activation := current_activation()) is not None:
        return moment(activation.now_ms)
    if (unit := current_unit.get()) is not None:
        return moment(unit.now_ms())
    refuse_in_step("hf.now")
    raise InvalidInput("hf.now works inside a workflow body, an actor's method or a consumer only")


def uuid() -> UUID:
    """A random UUID that is the same on every replay."""
    return UUID(int=activation_for("hf.uuid").random.getrandbits(128), version=4)


def random() -> Random:
    """A generator of random numbers that repeats itself on every replay. Not for secrets."""
    return activation_for("hf.random").random
