"""Cached functions of an app: their earlier results are returned again, for a while."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from holdfast import ids
from holdfast.bounded import Bounded
from holdfast.codec.jsontext import with_one_form_of_numbers
from holdfast.codec.signature import Signature, signature_of
from holdfast.containment import contained, contained_call
from holdfast.coordination.cache import Loaded, ReadThrough, Rules
from holdfast.duration import Duration, seconds
from holdfast.errors import ConfigurationError, InvalidInput, SerializationError
from holdfast.kernel.runtime import Connect

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_KEY_CHARACTERS: Final = 200
"""Arguments whose JSON is longer are replaced by their digest."""

PLAIN: Final = frozenset((str, int))
"""The types of an only argument whose key is remembered."""

HIGHEST_VERSION: Final = 2**53
"""The highest version: whole numbers up to here are exact everywhere, in Redis too."""


def rules_of(
    *,
    ttl: Duration,
    missing_ttl: Duration | None,
    stale: Duration,
    stale_if_error: Duration,
    memory_ttl: Duration,
    fill_timeout: Duration,
    jitter: float,
    max_entries: int,
) -> Rules:
    """The rules of a cache, checked. Raises ``InvalidInput``."""
    share, most = cast("tuple[Any, Any]", (jitter, max_entries))  # users without a type checker
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise InvalidInput(f"jitter must be a share of the ttl, from 0 to 1, got {jitter!r}")
    if type(most) is not int or most < 1:
        raise InvalidInput(f"max_entries must be at least 1, got {max_entries!r}")
    rules = Rules(
        ttl=seconds(ttl),
        missing_ttl=seconds(ttl if missing_ttl is None else missing_ttl),
        stale=seconds(stale),
        stale_if_error=seconds(stale_if_error),
        memory_ttl=seconds(memory_ttl),
        fill_seconds=seconds(fill_timeout),
        jitter=share,
        max_entries=most,
    )
    if rules.ttl <= 0 or rules.fill_seconds <= 0:
        raise InvalidInput("the ttl and the fill_timeout of a cache must be positive")
    return rules


class Cached(Generic[P, R]):
    """A function behind a cache. Call it as before; ``invalidate`` it with the same arguments when the source changes.

    Every caller gets its own value, decoded from JSON: changing it changes no other caller's.
    """

    def __init__(
        self,
        connect: Connect,
        function: Callable[P, Coroutine[Any, Any, R]],
        name: str,
        rules: Rules,
        version: Callable[[R], int] | None,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"a cached function must be an async def, and {function!r} is not")
        functools.update_wrapper(self, function)
        self.name = name
        self._connect = connect
        self._function: Callable[P, Coroutine[Any, Any, R]] = function
        self._rules = rules
        self._version = version
        self._signature: Signature = signature_of(function, f"cached function {name!r}")
        self._decode: Callable[[bytes], R] = self._signature.result.decode
        self._keys = Bounded[str | int, str](rules.max_entries)

    def __repr__(self) -> str:
        return f"<Cached {self.name!r}>"

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, or a recent one. Raises what the function raises."""
        tiers, key = self._connect().kept.get(self, self._open), self._key(args, kwargs)
        value = tiers.peek(key)
        if value is None:
            value = await tiers.get(key, lambda: self._load(args, kwargs))
        try:
            return self._decode(value)
        except SerializationError:  # written by code with another type of result
            await tiers.forget(key)
        value = await tiers.get(key, lambda: self._load(args, kwargs))
        return self._decode(value)

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Read these arguments from the source next time, and let no call under way store an older answer.

        Call it after the source has changed. Raises ``StoreError`` if the shared cache does not answer: then other
        processes may use the old value until it expires; this one does not.
        """
        await self._tiers().forget(self._key(args, kwargs))

    async def invalidate_below(self, version: int, *args: P.args, **kwargs: P.kwargs) -> None:
        """``invalidate`` values of lower versions, and store none: for sources whose copies lag behind."""
        number: Any = version  # users without a type checker
        if self._version is None:
            raise ConfigurationError(
                f"{self.name!r} has no versions; declare it with version=, a function of its result"
            )
        if type(number) is not int or not 0 <= number <= HIGHEST_VERSION:
            raise InvalidInput(f"version must be a whole number from 0 to 2**53, got {version!r}")
        await self._tiers().forget(self._key(args, kwargs), below=version)

    async def invalidate_all(self) -> None:
        """``invalidate`` all arguments at once."""
        await self._tiers().forget_all()

    def _tiers(self) -> ReadThrough:
        return self._connect().kept.get(self, self._open)

    def _open(self) -> ReadThrough:
        runtime = self._connect()
        return ReadThrough(self.name, self._rules, runtime.shared.cache, Random(ids.new_seed()), runtime.emit)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """``1`` and ``1.0`` are one key: an ``int`` that is passed for a ``float`` is found, and voided, as that."""
        if len(args) == 1 and not kwargs and type(args[0]) in PLAIN:  # neither equals anything else, such as 1.0
            return self._keys.get(args[0]) or self._new_key(args, kwargs, remembered_as=args[0])
        return self._new_key(args, kwargs)

    def _new_key(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, remembered_as: str | int | None = None) -> str:
        data = with_one_form_of_numbers(self._signature.fingerprint_bytes(args, kwargs))
        if len(data) > LONGEST_KEY_CHARACTERS:
            return hashlib.sha256(data).hexdigest()
        key = data.decode()
        if remembered_as is not None:
            self._keys[remembered_as] = key
        return key

    async def _load(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Loaded:
        function: Callable[..., Coroutine[Any, Any, R]] = self._function
        answer = await contained(function(*args, **kwargs))
        what = f"the result of cached function {self.name!r}"
        value, _ = self._signature.result.copy(answer, what, self._connect().limit_bytes)
        version = None if self._version is None or answer is None else contained_call(self._version, answer)
        return Loaded(value, missing=answer is None, version=version)
