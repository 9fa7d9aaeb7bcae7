"""What was finished before a retry, for the body that asks for it again: it is not done twice (G2)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.replay.entries import Renewed
from holdfast.replay.program import Arrival, Effect

if TYPE_CHECKING:
    from holdfast.replay.entries import Done, Failed
    from holdfast.replay.requests import Request
    from holdfast.workflows.live import Live


def renewals(asked: Iterable[Request], live: Live) -> list[Renewed]:
    """The notes that operations differ from those that a retry kept under their names: their arguments differ. They
    are performed, with keys of their own.
    """
    others = [Renewed(each.id, live.now_ms()) for each in asked if _is_another(each, live.notes_on(each.id).aside)]
    for each in others:
        live.renew(each.op)
    return others


def _is_another(asked: Request, aside: Done | Failed | None) -> bool:
    if aside is None:
        return False
    return aside.kind != asked.kind or not asked.fits(aside.fingerprint)


def in_order(asked: Iterable[Request], live: Live) -> list[Request]:
    """The operations that are requested. Those whose outcomes were kept come in the order in which they finished."""

    def ended_at(request: Request) -> int:
        aside = live.notes_on(request.id).aside
        return 0 if aside is None else aside.at

    return sorted(asked, key=ended_at)


def given_back(outcome: Done | Failed, live: Live) -> Effect:
    """The effect that answers an operation with the outcome that was kept for it."""
    return Effect(outcome.op, partial(_answer, outcome, live))


async def _answer(outcome: Done | Failed, live: Live) -> Arrival:
    return Arrival(replace(outcome, at=live.now_ms()))
