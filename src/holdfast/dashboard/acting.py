"""Acting: one form, one action, on one thing or on a selection. Each is a write with an outcome of its own."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from holdfast.commands.execution import Fork, Forked, Signal, Status
from holdfast.dashboard.actions import ACTION_NAMED, Action, On, offered, offered_on_many
from holdfast.dashboard.asking import is_asked, name_of, question
from holdfast.dashboard.links import safe_way_back
from holdfast.dashboard.performing import perform
from holdfast.dashboard.rendering import render
from holdfast.dashboard.signals import signal_again, signal_form
from holdfast.errors import HoldfastError, InvalidInput, InvalidState, NotFound
from holdfast.http.problems import Problem, fault, problem_of

if TYPE_CHECKING:
    from holdfast.commands import Command
    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.visit import Visit

__all__ = ["Outcome", "act", "offered", "offered_on_many"]

MOST_SELECTED: Final = 100
PARTS: Final = {"execution": 2, "actor": 2, "parked": 3, "letter": 1, "queue": 1, "limit": 1}


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of one thing: where it is shown, and what is told of it. ``status`` is that of HTTP."""

    what: str
    href: str
    status: int
    text: str
    stands: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the action was performed."""
        return self.status < HTTPStatus.BAD_REQUEST


async def act(visit: Visit) -> Response:
    """Perform the action of a form. What it does not say is asked for first, on a page of its own, and so is whether
    it is meant, if it cannot be taken back.
    """
    form = visit.form
    assert form is not None, "an action has a form"
    action = ACTION_NAMED.get(form.one("action"))
    if action is None:
        raise Problem(404, "no_route", "there is no such action")
    assert action.right is not None, "every action has a right"
    visit.check_right(action.right)
    selected = _selected(form, action)
    back = safe_way_back(visit.root, form.one("back"))
    if action.command is Signal and form.one("sure") == "fields":
        return await signal_form(visit, selected, form, back)
    if is_asked(action, form):
        return await question(visit, action, selected, form, back)
    outcomes = await _outcomes(visit, action, selected, form)
    if len(outcomes) == 1 and outcomes[0].is_done:
        return Done(f"{outcomes[0].what} {outcomes[0].text}", outcomes[0].href if action.command is Fork else back)
    is_unfit = all(each.status == HTTPStatus.BAD_REQUEST for each in outcomes)
    if action.command is Signal and form.one("checked") and is_unfit:
        return await signal_again(visit, selected, form, back, outcomes[0].text)
    worst = max(each.status for each in outcomes)
    status = worst if len(outcomes) == 1 else HTTPStatus.OK
    return render(visit, "outcomes.html", status, action=action, outcomes=outcomes, back=back)


class Done(RedirectResponse):
    """The answer to an action that was performed: the page before, with a note."""

    def __init__(self, note: str, back: str) -> None:
        super().__init__(back, HTTPStatus.SEE_OTHER)
        self.note = note


def _selected(form: Form, action: Action) -> list[On]:
    """What the form is about, each once. Raises ``InvalidInput``."""
    texts = list(dict.fromkeys(form.all("on")))
    if not texts:
        raise InvalidInput("nothing is selected: tick the boxes of the rows that you mean")
    if len(texts) > MOST_SELECTED:
        raise InvalidInput(f"select at most {MOST_SELECTED} at once, got {len(texts)}")
    found: list[On] = []
    for text in texts:
        try:
            on = msgspec.json.decode(text, type=tuple[str, ...])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            on = ()
        if len(on) != PARTS[action.of]:
            raise InvalidInput("the form does not say what it is about: open the page again")
        found.append(on)
    return found


async def _outcomes(visit: Visit, action: Action, selected: list[On], form: Form) -> list[Outcome]:
    """What became of each. If the store does not answer, the others are not tried: each would be waited for."""
    found: list[Outcome] = []
    for on in selected:
        if found and found[-1].status == HTTPStatus.SERVICE_UNAVAILABLE:
            found.append(
                Outcome(
                    what=name_of(on),
                    href=_href(visit, action, on),
                    status=HTTPStatus.SERVICE_UNAVAILABLE,
                    text="was not tried",
                )
            )
        else:
            found.append(await _outcome(visit, action, on, form))
    return found


async def _outcome(visit: Visit, action: Action, on: On, form: Form) -> Outcome:
    what, href = name_of(on), _href(visit, action, on)
    try:
        command = await action.make(visit, on, form)
        made = await _performed(visit, command, form)
    except Problem as problem:
        return Outcome(what=what, href=href, status=problem.status, text=problem.detail)
    except HoldfastError as error:
        told = problem_of(error, action.label)
        stands = "" if isinstance(error, NotFound) else await _stands(visit, action, on)
        return Outcome(what=what, href=href, status=told.status, text=told.detail, stands=stands)
    except Exception as error:  # noqa: BLE001 - the other things of a selection have outcomes too
        told = fault(error, action.label)
        return Outcome(what=what, href=href, status=told.status, text=told.detail)
    if isinstance(command, Fork):
        return Outcome(
            what=what, href=visit.link("execution", workflow=made.workflow, id=made.id), status=200,
            text=f"is forked as {made.id}",
        )  # fmt: skip
    return Outcome(what=what, href=href, status=200, text=action.done)


async def _performed(visit: Visit, command: Command[Any], form: Form) -> Any:
    """What a command answers. A fork that this form has made before is answered once more: its id says so."""
    try:
        return await perform(visit, command)
    except (InvalidInput, InvalidState, NotFound):
        if not isinstance(command, Fork) or form.one("new_id").strip() or command.new_id is None:
            raise
        if not await _stands_as(visit, command.workflow, command.new_id):
            raise
        return Forked(command.workflow, command.new_id)


async def _stands(visit: Visit, action: Action, on: On) -> str:
    """How an execution is now, after an action that could not be performed."""
    return await _stands_as(visit, *on) if action.of == "execution" else ""


async def _stands_as(visit: Visit, workflow: str, id: str) -> str:
    """The status of an execution; empty if there is none."""
    try:
        return (await visit.read(Status(workflow, id))).status
    except HoldfastError:
        return ""


def _href(visit: Visit, action: Action, on: On) -> str:
    match action.of:
        case "execution":
            return visit.link("execution", workflow=on[0], id=on[1])
        case "actor" | "parked":
            return visit.link("actor", actor=on[0], key=on[1])
        case "queue":
            return visit.link("queue", queue=on[0])
        case "limit":
            return visit.link("limit", limit=on[0])
        case _:
            return visit.link("letter", id=on[0])
