"""Sessions of an app: the common data of a visitor's requests, under an id that cannot be guessed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

from msgspec import Struct

from holdfast import ids
from holdfast.codec.typed import Codec, codec_for
from holdfast.coordination.session import StoreSessions
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigurationError, InvalidInput, NotFound, PayloadTooLarge
from holdfast.kernel.runtime import Connect
from holdfast.patterns.lease import checked_name
from holdfast.shared import SessionStore

Place = Literal["home", "cache"]

SESSION_LIMIT_BYTES: Final = 64 * 1024
"""The most that one call may store: a session travels with every request, so it should stay small."""

_ID: Final = re.compile(rf"[0-9a-f]{{{2 * ids.SECRET_BYTES}}}")
_PLAIN: Final[Codec[Any]] = codec_for(Any)


class Session(Struct, frozen=True):
    """A session as it was when it was read. Treat ``id`` like a password: put it in a cookie, and in no log."""

    id: str
    values: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Session with {', '.join(self.values) or 'nothing'}>"


class Sessions:
    """The sessions of one kind. One expires ``idle`` after the last ``find``, and ``lifetime`` after its start."""

    def __init__(self, connect: Connect, name: str, idle: Duration, lifetime: Duration, on: Place) -> None:
        self.name = checked_name("session", name)
        self._connect = connect
        self._idle_ms, self._lifetime_ms = milliseconds(idle), milliseconds(lifetime)
        if not 0 < self._idle_ms <= self._lifetime_ms:
            raise InvalidInput(f"idle must be positive and at most lifetime, got {idle!r} and {lifetime!r}")
        if on not in {"home", "cache"}:
            raise InvalidInput(f"on must be 'home' or 'cache', got {on!r}")
        self._on = on

    async def start(self, values: Mapping[str, Any] | None = None) -> Session:
        """Start one, under a new id: 192 random bits."""
        id, fields = ids.new_secret(), self._encoded(values or {})
        await self._store().begin(self._key(id), fields, idle_ms=self._idle_ms, lifetime_ms=self._lifetime_ms)
        return Session(id, dict(values or {}))

    async def find(self, id: str) -> Session | None:
        """The session of this id, ``None`` if it has ended or never existed; it lasts ``idle`` from now on."""
        if not _is_id(id):
            return None
        fields = await self._store().look(self._key(id), self._idle_ms)
        if fields is None:
            return None
        what = f"a value of session {self.name!r}"
        return Session(id, {name: _PLAIN.decode(value, what) for name, value in fields.items()})

    async def update(self, id: str, values: Mapping[str, Any], *, without: Iterable[str] = ()) -> None:
        """Set some values and remove others; the rest, and its expiry, stay as they are. Raises ``NotFound``.

        Two updates of different values at the same time are both kept.
        """
        fields = self._encoded(values)
        if not _is_id(id) or not await self._store().change(self._key(id), fields, tuple(without)):
            raise self._gone()

    async def rotate(self, id: str) -> str:
        """Give it a new id, and return that; the old one is invalid from now on. Raises ``NotFound``.

        Do it whenever a visitor's rights change, at login above all: an id that was planted before is then void.
        """
        new_id = ids.new_secret()
        if not _is_id(id) or not await self._store().move(self._key(id), self._key(new_id)):
            raise self._gone()
        return new_id

    async def end(self, id: str) -> None:
        """End it. Ending it again is no error."""
        if _is_id(id):
            await self._store().end(self._key(id))

    def _store(self) -> SessionStore:
        runtime = self._connect()
        if self._on == "home":
            return StoreSessions(runtime.home.store, runtime.clock)
        if runtime.shared.sessions is None:
            raise ConfigurationError(
                f"session {self.name!r} is on the cache, but this app has none: hf.App(..., cache='redis://...')"
            )
        return runtime.shared.sessions

    def _key(self, id: str) -> str:
        # A digest: the store reveals no id, and ids are never compared, so no timing shows how close a guess is.
        return f"{self.name}#{hashlib.sha256(id.encode()).hexdigest()}"

    def _encoded(self, values: Mapping[str, Any]) -> dict[str, bytes]:
        given: Any = values  # users without a type checker
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) for name in cast("Mapping[Any, Any]", given)
        ):
            raise InvalidInput(f"the values of a session must have names, such as {{'user': 7}}, got {values!r}")
        fields = {
            name: _PLAIN.copy(value, f"value {name!r} of session {self.name!r}", SESSION_LIMIT_BYTES)[0]
            for name, value in values.items()
        }
        if sum(len(name) + len(value) for name, value in fields.items()) > SESSION_LIMIT_BYTES:
            raise PayloadTooLarge(
                f"a session must be at most {SESSION_LIMIT_BYTES // 1024} KB; store the data, and its key here"
            )
        return fields

    def _gone(self) -> NotFound:
        return NotFound(f"there is no such session in {self.name!r}: it has expired, was ended, or never existed")


def _is_id(id: object) -> bool:
    """Whether it can be an id. A browser may send anything."""
    return isinstance(id, str) and _ID.fullmatch(id) is not None
