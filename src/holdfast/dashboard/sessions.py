"""Sessions: signed cookies that hold a sealed credential, so that a session ends with its token.

Each request is authenticated again, by the credential in its cookie: rights and tenants are always the present
ones. The keys are derived from the home's salt, so every process on the home reads the same cookies, and a dashboard
keeps nothing but a small item for each session that was ended by its user. That item expires with the session.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final

from itsdangerous import BadData, URLSafeSerializer
from msgspec import Struct

from holdfast import ids
from holdfast.errors import InvalidInput
from holdfast.http.cursors import Cursors
from holdfast.items import Item, Put
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.ports import Store

SESSION_SECONDS: Final = 12 * 3600
CODE_SECONDS: Final = 3600
NOTE_SECONDS: Final = 60
ENDED_PREFIX: Final = "dashboard#"
"""The partitions of sessions that were ended, each named by a digest of the session's id."""

SEALED_FOR: Final = "~dashboard"
"""No tenant: the name of one cannot begin so."""


class Session(Struct, frozen=True):
    """A session: its unguessable id, the credential of its user, and its end in milliseconds.

    The credential is empty if requests are authenticated without one, for example by a proxy.
    """

    id: str
    credential: str
    until: int

    @property
    def ended_partition(self) -> str:
        """Where it is noted that the session was ended."""
        return ENDED_PREFIX + ids.derive("session", self.id)


class Sessions:
    """Makes and reads the cookies of one home."""

    def __init__(self, salt: str, clock: Clock) -> None:
        secret = hashlib.sha256(salt.encode()).digest()
        self._key = hashlib.blake2b(b"sessions", key=secret, person=b"hf dashboard").digest()
        self._serializer = URLSafeSerializer(
            self._key, "holdfast.session", signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        )
        self._seal = Cursors(salt, SEALED_FOR)
        self._clock = clock
        self.cookie_name = f"holdfast-{hashlib.blake2b(self._key, digest_size=4).hexdigest()}"
        """Cookies are shared by all ports of a host, so the name differs from home to home."""

    def begin(self, credential: str) -> Session:
        """A new session."""
        return Session(ids.new_id(), credential, self._clock.now_ms() + SESSION_SECONDS * 1_000)

    def cookie(self, session: Session) -> str:
        """The value of a session's cookie."""
        return self._signed([session.id, self._seal.seal(session.credential), session.until])

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie; ``None`` if it is over, or the cookie was not made here."""
        match self._read(cookie):
            case [str(id), str(sealed), int(until)] if until > self._clock.now_ms():
                try:
                    return Session(id, self._seal.open(sealed), until)
                except InvalidInput:
                    return None
            case _:
                return None

    def note(self, session: Session, text: str) -> str:
        """A text for the next page of a session, signed."""
        return self._signed(["note", session.id, text, self._clock.now_ms() + NOTE_SECONDS * 1_000])

    def noted(self, session: Session, cookie: str) -> str:
        """The text in a cookie that ``note`` made for this session; empty if there is none."""
        match self._read(cookie):
            case ["note", session.id, str(text), int(until)] if until > self._clock.now_ms():
                return text
            case _:
                return ""

    def form_token(self, session: Session) -> str:
        """What every form of a session carries, and no other site can know."""
        return hmac.new(self._key, b"form " + session.id.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: Session, form_token: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode())

    def _signed(self, value: list[Any]) -> str:
        return self._serializer.dumps(value)

    def _read(self, cookie: str) -> Any:
        try:
            return self._serializer.loads(cookie)
        except BadData:
            return None


async def end_session(store: Store, session: Session) -> None:
    """End a session for every process. Raises ``StoreError`` if the store does not note it."""
    item = Item(session.ended_partition, status="ENDED", expires_at=session.until)
    await write_for_caller(store, Put(item), ours=lambda there: there == item)


async def was_ended(store: Store, session: Session) -> bool:
    """Whether a session was ended by its user: one read."""
    return await store.get(session.ended_partition) is not None


class LoginCodes:
    """Codes that let a person in once, each for an hour. They live in one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, int] = {}

    def new(self) -> str:
        """A code that was never used."""
        code = ids.new_id()
        self._until[code] = self._clock.now_ms() + CODE_SECONDS * 1_000
        return code

    def use(self, given: str) -> bool:
        """Whether this is an unused code. It is used then."""
        known = next((code for code in self._until if hmac.compare_digest(code.encode(), given.encode())), None)
        return known is not None and self._until.pop(known) > self._clock.now_ms()
