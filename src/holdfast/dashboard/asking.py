"""What is asked before an action: what its form does not say, and whether it is meant.

A list has only a button for each action. What else an action needs, such as the operation that is forked before, is
asked for on a page of its own, once for all that is selected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.commands.callback import AnswerCallback
from holdfast.commands.execution import Fork, Show, Signal, Status
from holdfast.commands.right import Right
from holdfast.dashboard.rendering import render
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.http.authentication import check_place
from holdfast.texts import masked
from holdfast.workflows.status import status_of
from holdfast.workflows.waits import CALLBACK, SIGNAL

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.actions import Action, On
    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.visit import Visit

Names = Callable[["Visit", "On"], Awaitable[list[str]]]

MOST_LOOKED_AT: Final = 10
"""How many of a selection are looked at for names to offer. Others can be typed."""

MOST_LINES: Final = 500


def is_asked(action: Action, form: Form) -> bool:
    """Whether something is asked before the action of a form is performed."""
    is_left_out = bool(action.asks_for) and not form.has(action.asks_for)
    return (bool(action.asks) or is_left_out) and form.one("sure") != "yes"


async def question(visit: Visit, action: Action, selected: list[On], form: Form, back: str) -> Response:
    """The page that asks. Its form says all that the one before has said: it is the same request."""
    is_left_out = not form.has(action.asks_for)
    return render(
        visit,
        "sure.html",
        action=action,
        fields=form.pairs(),
        names=[name_of(on) for on in selected],
        asks_for=action.asks_for if is_left_out else "",
        offered=await _offered(visit, action, selected) if is_left_out else [],
        back=back,
    )


def name_of(on: On) -> str:
    """What an action is on, for people."""
    return " ".join(on)


async def _offered(visit: Visit, action: Action, selected: list[On]) -> list[str]:
    """Names that the page offers for what it asks, of those of a selection that the caller may read."""
    names = NAMES.get(action.command)
    if names is None or not visit.may(Right.READ):
        return []
    found: list[str] = []
    for on in selected[:MOST_LOOKED_AT]:
        check_place(visit.caller, on[1])
        try:
            found += await names(visit, on)
        except StoreUnavailable:
            raise
        except HoldfastError:
            continue  # one that is gone or damaged is told by the action itself
    return [each for each in dict.fromkeys(found) if masked(each) == each]


async def _signals(visit: Visit, on: On) -> list[str]:
    return [each.name for each in status_of(await visit.read(Status(on[0], on[1]))).waits if each.kind == SIGNAL]


async def _callbacks(visit: Visit, on: On) -> list[str]:
    waits = status_of(await visit.read(Status(on[0], on[1]))).waits
    return [each.operation for each in waits if each.kind == CALLBACK and each.operation]


async def _operations(visit: Visit, on: On) -> list[str]:
    shown = await visit.read(Show(on[0], on[1], most_lines=MOST_LINES))
    return [line.name for line in shown.timeline if line.kind == "step"]


NAMES: Final[dict[type[Command[Any]], Names]] = {Signal: _signals, AnswerCallback: _callbacks, Fork: _operations}
"""What names there are for what an action asks."""
