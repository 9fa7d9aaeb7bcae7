"""The commands about limits of calls: how they stand, and changing their numbers while they work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, UnsetType

from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.numbers import GivenRate, given_rate, told_change
from holdfast.commands.queue import LISTED, app_and_name
from holdfast.commands.right import Right
from holdfast.errors import InvalidInput, NotFound
from holdfast.flow.limits import change, check_limit_key, numbers_of, partition_of
from holdfast.flow.overrides import AS_IT_IS_DECLARED, LimitStatus, override, status_of
from holdfast.keys import check_limit

if TYPE_CHECKING:
    from holdfast.flow.limits import Limit
    from holdfast.messaging.publishing import Publishes

NUMBERS: Final = ("permits", "rate")

MOST_KEYS: Final = 100
"""The most keys that are told of one limit."""


class LimitPage(Struct, frozen=True):
    """Some limits, by name: pass ``after`` to get the next ones."""

    items: tuple[LimitStatus, ...]
    after: str | None


class OnLimit(Command[None], frozen=True):
    """What is about one limit: ``limit`` is its name, or ``app/name`` for one of another app."""

    limit: str

    def __str__(self) -> str:
        return self.limit


class ListLimits(Command[LimitPage], frozen=True, tag="limit-list"):
    """List the limits that the app declares, and how each stands, apart from those of its keys."""

    after: str | None = None
    limit: int = LISTED

    async def perform(self, context: Context) -> LimitPage:
        check_limit(self.limit)
        runtime, declared = context.app.runtime(), context.app.registry.limits
        names = sorted(name for name in declared if name > (self.after or ""))
        some = names[: self.limit]
        stand = (status_of(runtime, declared[name].partition, "", declared[name].numbers) for name in some)
        return LimitPage(tuple(await asyncio.gather(*stand)), some[-1] if len(names) > len(some) else None)


class ShowLimit(Command[LimitStatus], frozen=True, tag="limit-show"):
    """Show a limit, or a key of it: its numbers, which process has how many permits, and when a token comes."""

    limit: str
    key: str = ""

    def __str__(self) -> str:
        return self.limit

    async def perform(self, context: Context) -> LimitStatus:
        check_limit_key(self.key)
        partition, declared = await _found(context.app, self.limit)
        numbers, most = None if declared is None else declared.numbers, 0 if self.key else MOST_KEYS
        return await status_of(context.app.runtime(), partition, self.key, numbers, most_keys=most)


class ChangeLimit(OnLimit, frozen=True, tag="limit-set"):
    """Change numbers, for all processes, until they are changed again or reset. ``None`` is no limit."""

    permits: int | UnsetType | None = UNSET
    rate: GivenRate | UnsetType | None = UNSET

    def __str__(self) -> str:
        return told_change(self.limit, {"permits": self.permits, "rate": self.rate})

    def check(self, context: Context) -> None:  # noqa: ARG002 - the signature of Command
        if self.permits is UNSET and self.rate is UNSET:
            raise InvalidInput("say what to change: permits or rate")

    async def perform(self, context: Context) -> None:
        self.check(context)
        numbers = numbers_of(self.permits, given_rate(self.rate))
        await _change(context, self.limit, numbers)


class ResetLimit(OnLimit, frozen=True, tag="limit-reset"):
    """Have the numbers be those of the code again."""

    async def perform(self, context: Context) -> None:
        await _change(context, self.limit, AS_IT_IS_DECLARED)


async def _change(context: Context, name: str, numbers: Mapping[str, Any]) -> None:
    partition, declared = await _found(context.app, name)
    if declared is None:
        await override(context.app.runtime(), partition, numbers)
    else:
        await change(context.app.runtime(), declared, numbers)


async def _found(app: Publishes, name: str) -> tuple[str, Limit | None]:
    """The limit of this name, as it is declared if its code is here. Raises ``NotFound``."""
    of, limit = app_and_name("limit", name)
    partition = partition_of(of or app.name, limit)
    declared: dict[str, Limit] = {each.partition: each for each in app.registry.limits.values()}
    if partition not in declared and not (await app.runtime().home.store.query(partition, limit=1)).items:
        known = ", ".join(sorted(app.registry.limits))
        raise NotFound(
            f"there is no limit {name!r} of app {of or app.name!r} here; there are: {known or 'none'}. "
            "One of another app is APP/NAME, once it was used"
        )
    return partition, declared.get(partition)


COMMANDS: Final[tuple[Named, ...]] = (
    Named("limit list", ListLimits, Right.READ),
    Named("limit show", ShowLimit, Right.READ),
    Named("limit set", ChangeLimit, Right.CONTROL, audited=True),
    Named("limit reset", ResetLimit, Right.CONTROL, audited=True),
)
