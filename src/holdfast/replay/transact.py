"""Effects inside the store: the user's SQL and its record in one transaction, exactly once (G10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.backoff import Pauses
from holdfast.coordination.lease import Fenced
from holdfast.errors import Refused, StoreError, StoreUnavailable
from holdfast.items import Item, Write, one_per_place
from holdfast.kernel.unit import Unit
from holdfast.ports import SqlCursor
from holdfast.replay.entries import Done, decode_entries
from holdfast.replay.program import Arrival, SqlEffect

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.journal import Journal
    from holdfast.replay.work import Work


async def transact(effect: SqlEffect, work: Work, host: Host) -> None:
    """Run the user's SQL and append its record in one transaction. A lost answer shows in the journal's next place."""
    journal, transactions = work.journal, host.home.transactions
    assert transactions is not None

    def run(cursor: SqlCursor) -> tuple[Sequence[Write], tuple[Arrival, Unit]]:
        unit = Unit((), None, host.clock, host.home)
        with unit:
            arrival = effect.work(cursor)
        return (journal.next_segment(arrival.entry), *one_per_place(unit.writes)), (arrival, unit)

    pauses = Pauses()
    while True:
        try:
            arrival, unit = await transactions.transact(run)
            host.wake(unit.to_wake)
        except StoreUnavailable:
            await pauses.wait()
            continue
        except Refused as refused:
            arrival = _own_arrival(refused.item, journal, host)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  the user's SQL may raise anything; it becomes the step's failure
            work.arrive(effect.failed(error))
            return
        journal.appended(arrival.entry)
        if host.telemetry.is_detailed and isinstance(arrival.entry, Done):
            seconds = max(0, arrival.entry.at - arrival.entry.began) / 1000
            host.telemetry.detail("step_ended", step=effect.step, outcome="done", seconds=seconds)
        work.program.deliver(arrival)
        return


def _own_arrival(there: Item | None, journal: Journal, host: Host) -> Arrival:
    if there is None or there.epoch != journal.epoch or there.owner != host.home.owner:
        raise Fenced(f"{journal.partition}: its journal has a newer writer")
    *_, entry = decode_entries(there.body)
    return Arrival(entry)
