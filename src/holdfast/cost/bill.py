"""A bill: lines of item, count and price."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cost.prices import MILLION, Price


class Line(Struct, frozen=True):
    """One line. ``assumed`` means that the count was not measured: it is a stated assumption."""

    what: str
    count: Decimal
    price: Price
    assumed: bool = False

    @property
    def usd(self) -> Decimal:
        """The amount of the line, unrounded."""
        return self.price.of(self.count)


class Bill(Struct, frozen=True):
    """The cost of one execution. ``over`` names the limits of the service that it would exceed: it could not run there.

    >>> from holdfast.cost.prices import US_EAST_1
    >>> bill = Bill("a write", (line("checkpoint", 1, US_EAST_1.write_unit),))
    >>> float(bill.usd_per_million)
    0.625
    """

    what: str
    lines: tuple[Line, ...]
    over: tuple[str, ...] = ()

    @property
    def usd(self) -> Decimal:
        """The sum."""
        return sum((each.usd for each in self.lines), Decimal())

    @property
    def usd_per_million(self) -> Decimal:
        """The sum of a million of them."""
        return self.usd * MILLION

    def measured(self) -> Bill:
        """The same without what was only assumed."""
        return replace(self, lines=tuple(each for each in self.lines if not each.assumed))


def line(what: str, count: Decimal | float, price: Price, *, assumed: bool = False) -> Line:
    """A line; fractions of a count are used as they print."""
    return Line(what, Decimal(str(count)), price, assumed)


class Compute(Struct, frozen=True):
    """Time in functions, which every way to do the same work needs: invocations, their length and their memory."""

    invocations: int = 0
    milliseconds: int = 200
    memory_mb: int = 512

    @property
    def gb_seconds(self) -> Decimal:
        """The billed part of it."""
        return Decimal(self.invocations * self.milliseconds * self.memory_mb) / (1000 * 1024)


NO_COMPUTE = Compute()
