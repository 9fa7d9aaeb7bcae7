"""Sending a signal: a form with a field for each part of the type that the body waits for, or for JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.codec import faults, jsontext
from holdfast.codec.typed import codec_for
from holdfast.commands.execution import Status
from holdfast.commands.right import Right
from holdfast.dashboard.rendering import render
from holdfast.dashboard.schema_fields import PREFIX, Field, field_of, filled, value_of
from holdfast.errors import InvalidInput, SerializationError, UnknownName
from holdfast.http.api import plain_json
from holdfast.http.authentication import check_place
from holdfast.workflows.expecting import expected_type
from holdfast.workflows.record import OPEN, check_id, partition_of
from holdfast.workflows.status import status_of
from holdfast.workflows.waits import SIGNAL

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.visit import Visit

ANYTHING: Final = "the body takes any JSON"


class Expected(Struct, frozen=True):
    """What the body reads a signal as. ``why_json`` says why there are no fields for it, if there are none."""

    type: Any = Any
    field: Field | None = None
    why_json: str = ""


async def signal_page(visit: Visit) -> Response:
    """The form for a signal to one execution: the body is replayed for its type, and nothing is changed."""
    query = visit.query("workflow", "id", "name", "json")
    workflow, id, name = query.one("workflow"), query.one("id"), query.one("name") or ""
    if not workflow or id is None:
        raise InvalidInput("say which execution: ?workflow=...&id=...")
    expected = await _expected(visit, workflow, check_id(id), name)
    back = visit.link("execution", workflow=workflow, id=id)
    return await _page(visit, [(workflow, id)], name, expected, back, as_json=query.one("json") is not None)


async def signal_form(visit: Visit, selected: list[tuple[str, ...]], form: Form, back: str) -> Response:
    """The form for one signal to all that are selected: its fields are of the type that the first of them waits for.
    What is sent has to fit each of them.
    """
    (workflow, id), name = selected[0], form.one("name").strip()
    expected = await _expected(visit, workflow, id, name)
    return await _page(visit, selected, name, expected, back, as_json=False, text=form.one("value"))


async def signal_again(visit: Visit, selected: list[tuple[str, ...]], form: Form, back: str, why: str) -> Response:
    """The form once more, with what was typed, and why it was not taken."""
    (workflow, id), name = selected[0], form.one("name").strip()
    expected, typed = await _expected(visit, workflow, id, name), _typed(form)
    text = form.one("value") or (json.dumps(typed, indent=1) if typed and expected.field is None else "")
    if expected.field is not None and typed:
        expected = Expected(expected.type, filled(expected.field, typed))
    as_json = not _is_of_fields(form)
    return await _page(visit, selected, name, expected, back, as_json=as_json, text=text, problem=why)


async def signal_value(visit: Visit, workflow: str, id: str, name: str, form: Form) -> Any:
    """The value that a form gives a signal; ``None`` for an empty one. What the page of one signal sends has to fit the
    type that the body waits for, if that is known. Raises ``InvalidInput``.
    """
    if not form.one("checked"):
        return _json(form)
    expected = await _expected(visit, workflow, id, name)
    if _is_of_fields(form):
        if expected.field is None:
            raise InvalidInput(f"it takes no such fields now: {expected.why_json}")
        value = value_of(expected.field, _typed(form))
    else:
        value = _json(form)
    try:
        codec_for(expected.type).decode(jsontext.encode(value), "the value")
    except SerializationError as unfit:
        told = faults.complaint_of(unfit.__cause__ or unfit)
        raise InvalidInput(f"{told.path.lstrip('.') or 'the value'}: {told.text}") from None
    return value


def _json(form: Form) -> Any:
    text = form.one("value").strip()
    return plain_json(text.encode(), "the value of the signal") if text else None


def _is_of_fields(form: Form) -> bool:
    return form.one("fields") == "yes"


def _typed(form: Form) -> dict[str, str]:
    """What was typed into fields, by their paths."""
    if not _is_of_fields(form):
        return {}
    return {PREFIX + name: text.replace("\r\n", "\n") for name, text in form.beginning(PREFIX).items()}


async def _expected(visit: Visit, workflow: str, id: str, name: str) -> Expected:
    """Nothing is looked into before it is known that the caller may see it."""
    visit.check_right(Right.READ)
    check_place(visit.caller, id)
    if not name:
        return Expected()
    try:
        type = await expected_type(visit.app.runtime(), partition_of(workflow, id), name)
    except UnknownName as unknown:
        return Expected(why_json=str(unknown))
    if type is Any:
        return Expected(why_json=ANYTHING)
    codec = codec_for(type)
    field = field_of(codec.shape)
    return Expected(type, field, "" if field else f"the form has no fields for the type {codec.name}")


async def _page(
    visit: Visit,
    selected: list[tuple[str, ...]],
    name: str,
    expected: Expected,
    back: str,
    *,
    as_json: bool,
    text: str = "",
    problem: str = "",
) -> Response:
    status = status_of(await visit.read(Status(selected[0][0], selected[0][1])))
    field = None if as_json else expected.field
    return render(
        visit,
        "signal.html",
        400 if problem else 200,
        status=status,
        selected=selected,
        back=back,
        name=name,
        awaited=sorted({each.name for each in status.waits if each.kind == SIGNAL}),
        field=field,
        has_fields=expected.field is not None,
        lines=max(3, text.count("\n") + 1),
        why_json=expected.why_json,
        text=text,
        problem=problem,
        is_open=status.status in OPEN,
    )
