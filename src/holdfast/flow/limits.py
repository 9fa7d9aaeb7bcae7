"""Limits as apps declare them: how many calls run at once, and how often they begin, over all processes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from msgspec import UNSET, Struct, UnsetType

from holdfast.clock import MS_PER_SECOND
from holdfast.codec.parameters import Parameter, arrange
from holdfast.containment import contained_call
from holdfast.duration import milliseconds
from holdfast.errors import DuplicateName, InvalidInput
from holdfast.flow.lending import Numbers
from holdfast.flow.overrides import AS_IT_IS_DECLARED, LimitStatus, override, status_of
from holdfast.flow.permits import Wanted
from holdfast.flow.rates import Rate
from holdfast.flow.settings import stored_rate
from holdfast.flow.together import Need, Together, check_bursts, check_change
from holdfast.kernel.runtime import Connect, Declares, Runtime
from holdfast.keys import LIMITS, check_id, check_name

MOST_PERMITS: Final = 100_000
MOST_WEIGHT: Final = 1_000_000_000
SHORTEST_PER_MS: Final = MS_PER_SECOND // 10
"""Within a shorter time no process can promise to begin."""

KeyOf = Callable[..., str | int] | str
WeightOf = Callable[..., int] | str | int

_PATH_PARTS: Final = "."


def partition_of(app: str, name: str) -> str:
    """Where the items of a limit are."""
    return f"{LIMITS}{app}#{name}"


def numbers_of(permits: int | UnsetType | None, rate: Rate | UnsetType | None) -> dict[str, Any]:
    """Numbers that change, as they are stored. Raises ``InvalidInput``."""
    numbers: dict[str, Any] = {}
    if permits is not UNSET:
        numbers["permits"] = _permits(permits)
    if rate is not UNSET:
        numbers["rate"] = stored_rate(_rate(rate))
    return numbers


class LimitUse(Struct, frozen=True):
    """A limit as a step or a method uses it: under which key, and with which weight."""

    limit: Limit
    key: KeyOf | None = None
    weight: WeightOf | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A limit of an app, as ``app.limit`` returns it. Steps and methods name it: ``@app.step(limit=openai)``."""

    app: str
    name: str
    numbers: Numbers
    connect: Connect
    together: list[Together] = field(default_factory=list[Together])
    """What needs this limit and others in the same moment."""

    @property
    def partition(self) -> str:
        """Where its items are."""
        return partition_of(self.app, self.name)

    def of(self, key: KeyOf | None = None, *, weight: WeightOf | None = None) -> LimitUse:
        """The same limit for each key by itself, and with a weight for each call.

        ``key`` and ``weight`` are functions of the call's arguments, by their names, or paths into them; a weight may
        be a number. A call of weight 3 takes three tokens of the rate, and one permit.

            @app.step(limit=openai.of(lambda order: order.tenant))
            @app.step(limit=tokens.of(weight=lambda prompt: len(prompt) // 4))
        """
        return LimitUse(self, key, weight)

    async def status(self, key: str = "") -> LimitStatus:
        """How it stands, or a key of it: the numbers that hold, and what each process has. Raises ``InvalidInput``."""
        check_limit_key(key)
        return await status_of(self.connect(), self.partition, key, self.numbers)

    async def change(self, *, permits: int | UnsetType | None = UNSET, rate: Rate | UnsetType | None = UNSET) -> None:
        """Change numbers for all processes, durably; ``None`` is no limit. They hold, whatever code is deployed, until
        they are changed again, or ``reset``. Calls that have begun go on; with 0 permits none begins.

            await openai.change(permits=4, rate=hf.Rate(30, per="1m"))

        Raises ``InvalidInput``, also if calls that need tokens of this and another limit could wait for ever.
        """
        await change(self.connect(), self, numbers_of(permits, rate))

    async def reset(self) -> None:
        """Have the numbers be those of the code again. Raises as ``change``."""
        await change(self.connect(), self, AS_IT_IS_DECLARED)


async def change(runtime: Runtime, limit: Limit, numbers: Mapping[str, Any]) -> None:
    """Change numbers of a limit whose code is here. Raises ``InvalidInput`` if calls could wait for ever by them."""
    await check_change(runtime.home.store, limit.partition, numbers, limit.together)
    await override(runtime, limit.partition, numbers)


def check_limit_key(key: str) -> None:
    """Raise ``InvalidInput`` if this is no key of a limit; empty is that of calls without one."""
    if key != "":
        check_id("the key of a limit", key)


def limit(app: Declares, name: str, *, permits: int | None = None, rate: Rate | None = None) -> Limit:
    """Declare a limit of calls: ``openai = app.limit("openai", permits=8, rate=hf.Rate(60, per="1m"))``.

    At most ``permits`` calls of the steps and methods that name it run at once, and at most ``rate`` begin, over all
    processes and machines of the home (G16). A call that may not begin yet waits. Raises ``InvalidInput`` and
    ``DuplicateName``.
    """
    check_name("limit", name)
    numbers = Numbers(_permits(permits), _rate(rate))
    if numbers.permits is None and numbers.rate is None:
        raise InvalidInput(f"limit {name!r} limits nothing: give it permits=8, rate=hf.Rate(60, per='1m'), or both")
    if name in app.registry.limits:
        raise DuplicateName(f"two limits are called {name!r}; give one of them another name")
    declared = app.registry.limits[name] = Limit(app.name, name, numbers, app.runtime)
    return declared


AnyLimit = Limit | LimitUse | Sequence[Limit | LimitUse]


def uses_of(limit: AnyLimit | None, what: str) -> tuple[LimitUse, ...]:
    """The limits that a step or a method names. Raises ``InvalidInput``."""
    if limit is None:
        return ()
    given: Any = limit  # users without a type checker
    several = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given])
    uses = tuple(LimitUse(each) if isinstance(each, Limit) else cast("LimitUse", each) for each in several)
    if not uses or not all(isinstance(cast("Any", each), LimitUse) for each in uses):
        raise InvalidInput(f"the limit of {what} is what app.limit(...) returns, or a list of such, not {limit!r}")
    if len({each.limit.partition for each in uses}) < len(uses):
        raise InvalidInput(f"{what} names one limit twice: it would wait for itself")
    weighted = [(each, each.weight if isinstance(each.weight, int) else 1) for each in uses]
    _check_bursts(weighted, what)
    if len(uses) > 1:
        needs = (Need(use.limit.name, use.limit.partition, use.limit.numbers, weight) for use, weight in weighted)
        together = Together(what, tuple(needs))
        for each in uses:
            each.limit.together.append(together)
    return uses


def _check_bursts(weighted: Iterable[tuple[LimitUse, int]], what: str) -> None:
    check_bursts(((use.limit.name, use.limit.numbers.rate, weight) for use, weight in weighted), what)


def check_uses(uses: Sequence[LimitUse], parameters: Sequence[str], what: str) -> None:
    """Raise ``InvalidInput`` if a key or a weight is not of the parameters of ``what``."""
    for use in uses:
        for kind, source in (("key", use.key), ("weight", use.weight)):
            for name in _asked(source, kind, what):
                if name not in parameters:
                    raise InvalidInput(
                        f"the {kind} of the limit of {what} is of {name!r}, which is no parameter of it; it has: "
                        f"{', '.join(parameters) or 'none'}"
                    )


def _asked(source: KeyOf | WeightOf | None, kind: str, what: str) -> Sequence[str]:
    """The parameters that a key or a weight is a function of."""
    if isinstance(source, str):
        return [source.partition(_PATH_PARTS)[0]]
    if source is None or (kind == "weight" and type(source) is int and _is_weight(source)):
        return []
    if not callable(source):
        raise InvalidInput(
            f"the {kind} of the limit of {what} is a function of its arguments, or a path, not {source!r}"
        )
    return list(inspect.signature(source).parameters)


def wanted_by(
    uses: Sequence[LimitUse],
    parameters: tuple[Parameter, ...],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    what: str,
) -> tuple[Wanted, ...]:
    """The permits that a call with these arguments needs. Raises ``InvalidInput``, and what a key or weight raises."""
    values = arrange(parameters, args, kwargs, what)
    arguments = dict(zip((each.name for each in parameters), values, strict=True))
    return contained_call(_wanted, uses, arguments, what)


def _wanted(uses: Sequence[LimitUse], arguments: Mapping[str, Any], what: str) -> tuple[Wanted, ...]:
    weighted = [(use, _weight(use, arguments, what)) for use in uses]
    _check_bursts(weighted, what)
    return tuple(
        Wanted(use.limit.partition, _key(use, arguments, what), weight, use.limit.numbers) for use, weight in weighted
    )


def _key(use: LimitUse, arguments: Mapping[str, Any], what: str) -> str:
    if use.key is None:
        return ""
    key = _value(use.key, "key", arguments, what)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise InvalidInput(f"the key of the limit of {what} is text or a whole number, not {repr(key)[:60]}")
    return check_id(f"the key of the limit of {what}", str(key))


def _weight(use: LimitUse, arguments: Mapping[str, Any], what: str) -> int:
    if use.weight is None:
        return 1
    weight = use.weight if isinstance(use.weight, int) else _value(use.weight, "weight", arguments, what)
    if not _is_weight(weight):
        raise InvalidInput(f"the weight of a call of {what} is a whole number of at least 1, not {repr(weight)[:60]}")
    return weight


def _is_weight(weight: Any) -> bool:
    return type(weight) is int and 1 <= weight <= MOST_WEIGHT


def _value(source: Callable[..., Any] | str, kind: str, arguments: Mapping[str, Any], what: str) -> Any:
    if not isinstance(source, str):
        names = _asked(source, kind, what)
        return contained_call(source, **{name: arguments[name] for name in names})
    first, *rest = source.split(_PATH_PARTS)
    value = arguments[first]
    for name in rest:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value


def _permits(permits: int | None) -> int | None:
    given: Any = permits  # users without a type checker
    if given is None or (type(given) is int and 0 <= given <= MOST_PERMITS):
        return permits
    raise InvalidInput(f"permits are a whole number from 0 up to {MOST_PERMITS:,}, not {given!r}")


def _rate(rate: Rate | None) -> Rate | None:
    given: Any = rate  # users without a type checker
    if given is not None and not isinstance(given, Rate):
        raise InvalidInput(f"rate is an hf.Rate(...), such as hf.Rate(100, per='1m'), not {given!r}")
    if rate is not None and milliseconds(rate.per) < SHORTEST_PER_MS:
        raise InvalidInput(
            f"the rate of a limit is per 100 ms or longer, not per {rate.per!r}: give a multiple of both"
        )
    return rate
