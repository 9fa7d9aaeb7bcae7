"""What every action works with: the app, what the home keeps of machines, and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from holdfast.asl.arns import Account
from holdfast.asl.catalogue import Catalogue
from holdfast.errors import InvalidInput
from holdfast.http.cursors import Cursors
from holdfast.http.states.faults import invalid_request, invalid_token, unsatisfied
from holdfast.paging import refuse_scan

if TYPE_CHECKING:
    from holdfast.http.api import Call
    from holdfast.http.states.asked import Listing

T = TypeVar("T")

Answer = dict[str, Any]
"""The fields of a response."""

LARGEST_PAGE: Final = 1_000
USUAL_PAGE: Final = 100
ALL_DATA: Final = "ALL_DATA"
SCAN_HEADER: Final = "x-holdfast-scan"


class Service(Struct, frozen=True):
    """One request, and what it is about."""

    call: Call
    account: Account
    shelf: Catalogue
    cursors: Cursors

    def now_ms(self) -> int:
        """The time of the home."""
        return self.call.app.runtime().clock.now_ms()

    def after(self, asked: Listing) -> str | None:
        """Where a page begins. Raises ``Fault``."""
        try:
            return self.cursors.opened(asked.next_token)
        except InvalidInput:
            raise invalid_token() from None

    async def check_list(self) -> None:
        """Refuse a list that would read the whole table, which is billed, unless a header or the server's options ask
        for that. Raises ``Fault``.
        """
        scan = self.call.scans or list(self.call.request.header_values(SCAN_HEADER)) == ["true"]
        try:
            await refuse_scan(self.call.app.runtime().home, scan=scan)
        except InvalidInput as error:
            raise invalid_request(f"{error}. Or send the header {SCAN_HEADER}: true, or serve with scan") from None

    def page(self, name: str, told: list[Answer], cursor: str | None) -> Answer:
        """A page as it is answered."""
        sealed = self.cursors.sealed(cursor)
        return {name: told} if sealed is None else {name: told, "nextToken": sealed}

    def sliced(self, name: str, told: list[Answer], asked: Listing) -> Answer:
        """A page of what was read whole."""
        first = int(self.after(asked) or 0)
        end = first + limit_of(asked)
        return self.page(name, told[first:end], str(end) if end < len(told) else None)


def limit_of(asked: Listing) -> int:
    """How many a page may have; 0 asks for as many as usual. Raises ``Fault``."""
    return bounded(asked.max_results, LARGEST_PAGE) or USUAL_PAGE


def bounded(results: int, most: int) -> int:
    """What ``maxResults`` asks for. Raises ``Fault``."""
    if results < 0:
        raise unsatisfied(results, "maxResults", "have value greater than or equal to 0")
    if results > most:
        raise unsatisfied(results, "maxResults", f"have value less than or equal to {most}")
    return results


def seconds(ms: int) -> float:
    """A time as the protocol has it: seconds since the epoch."""
    return ms / 1000
