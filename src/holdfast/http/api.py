"""What every route works with: the app, the request, its parameters, and how long the caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from holdfast.client import CallbackHandle
from holdfast.codec import faults, jsontext
from holdfast.commands import Command, Context, perform_for
from holdfast.commands.right import Right
from holdfast.duration import seconds
from holdfast.errors import InvalidInput
from holdfast.http.authentication import Authenticate, Caller, check_place, check_right
from holdfast.http.limits import HttpLimits
from holdfast.http.messages import Request, Response, header_id
from holdfast.http.problems import Problem
from holdfast.messaging.publishing import Publishes
from holdfast.workflows.record import parse_ref

if TYPE_CHECKING:
    from holdfast.telemetry import Telemetry
    from holdfast.workflows.record import ExecutionRef

T = TypeVar("T")

MOST_QUERY_PARAMETERS: Final = 100
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


class Served(Publishes, Protocol):
    """The app that a route works on."""

    telemetry: Telemetry


class Reader(Protocol):
    """A caller who is shown something, whatever shows it."""

    @property
    def app(self) -> Served: ...

    @property
    def tenant(self) -> str:
        """The prefix that the caller is confined to; empty for none."""
        ...

    def may(self, right: Right) -> bool:
        """Whether the caller has this right."""
        ...


class Options(Struct, frozen=True, kw_only=True):
    """How an API is served. Without ``authenticate`` it serves only requests over the loopback interface. With
    ``asl`` it speaks Step Functions' protocol too. With ``scan`` lists read the whole table of a home on AWS, where
    else each request has to ask for that.
    """

    authenticate: Authenticate | None = None
    limits: HttpLimits = HttpLimits()
    asl: bool = False
    scan: bool = False


class ClientWait:
    """How long work may wait on behalf of a response: until the client leaves, or the server stops."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.client_has_left = False

    def client_leaves(self) -> None:
        """The client has left: it will not read the response."""
        self.client_has_left = True
        self._over.set()

    def server_stops(self) -> None:
        """The server stops: routes that wait answer the current status."""
        self._over.set()

    async def over(self) -> None:
        """Return when the client has left or the server stops."""
        await self._over.wait()


class ClientGone(Exception):
    """The client has left before its response. Never leaves this package."""


class Query:
    """The parameters of a query. Raises ``InvalidInput`` for an unknown parameter or a value of the wrong form."""

    def __init__(self, text: str, known: tuple[str, ...]) -> None:
        try:
            pairs = parse_qsl(
                text,
                keep_blank_values=True,
                strict_parsing=bool(text),
                errors="strict",
                max_num_fields=MOST_QUERY_PARAMETERS,
            )
        except ValueError as error:
            raise InvalidInput(f"the query must be a list of name=value: {error}") from None
        for name, _ in pairs:
            if name not in known:
                told = ", ".join(known) or "none"
                raise InvalidInput(f"there is no parameter {name[:60]!r} here; there are: {told}")
        self._pairs = pairs

    def all(self, name: str) -> list[str]:
        """Every value of a parameter that may be repeated."""
        return [value for each, value in self._pairs if each == name]

    def one(self, name: str) -> str | None:
        """The value of a parameter."""
        values = self.all(name)
        if len(values) > 1:
            raise InvalidInput(f"the parameter {name} must be given once, got it {len(values)} times")
        return values[0] if values else None

    def duration_seconds(self, name: str) -> float | None:
        """A length of time, such as ``10s``."""
        value = self.one(name)
        return None if value is None else seconds(value)

    def moment(self, name: str) -> datetime | None:
        """A moment with its time zone, such as ``2026-11-30T12:00:00Z``."""
        value = self.one(name)
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{name} must be a moment such as 2026-11-30T12:00:00Z; a + in a query is %2B") from None

    def flag(self, name: str) -> bool:
        """Whether something is asked for: ``true`` or ``false``, which is the default."""
        value = self.one(name) or "false"
        if value not in {"true", "false"}:
            raise InvalidInput(f"{name} is true or false, not {value[:60]!r}")
        return value == "true"

    def count(self, name: str, default: int) -> int:
        """A number."""
        value = self.one(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            raise InvalidInput(f"{name} must be a number, such as {default}")
        return int(value)

    def execution(self, name: str) -> ExecutionRef | None:
        """An execution, written ``workflow/id``."""
        value = self.one(name)
        return None if value is None else parse_ref(name, value)

    def tags(self, name: str) -> dict[str, str]:
        """Labels, each written ``key=value``."""
        found: dict[str, str] = {}
        for text in self.all(name):
            key, equals, value = text.partition("=")
            if not (key and equals) or key in found:
                raise InvalidInput(f"write a {name} as {name}=key=value, each key once")
            found[key] = value
        return found


class Call:
    """One request to one route. ``names`` are the decoded variable parts of its path."""

    def __init__(
        self,
        app: Served,
        request: Request,
        names: Mapping[str, str],
        options: Options,
        patience: ClientWait,
        caller: Caller | None = None,
    ) -> None:
        self.app = app
        self.request = request
        self.names = names
        self.scans = options.scan
        """Whether lists may read the whole table, though the request does not ask for that."""
        self._limits = options.limits
        self._patience = patience
        self._caller = caller
        self._callback: CallbackHandle | None = None

    def callback(self) -> CallbackHandle:
        """The callback whose token is in the path: always one handle, which remembers that it was verified."""
        if self._callback is None:
            self._callback = CallbackHandle(self.names["token"], self.app.runtime)
        return self._callback

    def context(self, own_id: str = "") -> Context:
        """The context in which a command of this request is performed."""
        return Context(self.app, own_id=own_id, verified=self._callback)

    async def perform(self, command: Command[T], own_id: str = "") -> T:
        """Perform a command for the caller, and return its answer. Control commands are recorded in the audit."""
        return await perform_for(self.caller_name, command, self.context(own_id))

    @property
    def caller_name(self) -> str:
        """The caller's name; empty for a caller that needs none."""
        return "" if self._caller is None else self._caller.name

    @property
    def may_read(self) -> bool:
        """Whether the caller has the right to read."""
        return self.may(Right.READ)

    def may(self, right: Right) -> bool:
        """Whether the caller has this right."""
        return self._caller is not None and right in self._caller.rights

    def check_right(self, right: Right) -> None:
        """Raise ``Problem`` unless the caller has this right, which a part of the answer needs."""
        if self._caller is not None:
            check_right(self._caller, right)

    @property
    def tenant(self) -> str:
        """The prefix that the caller is confined to; empty for none."""
        return "" if self._caller is None else self._caller.tenant

    def check_whole_home(self) -> None:
        """Raise ``Problem`` if the caller is confined to a tenant: what is asked for is about the whole home."""
        if self._caller is not None and self._caller.tenant:
            confined = f"{self._caller.name} is confined to ids and keys that begin with {self._caller.tenant!r}"
            raise Problem(403, "forbidden", f"{confined}, and this is about the whole home")

    def own_place(self, given: str | None) -> str | None:
        """Return an id that is not in the path. Raises ``Problem`` if the caller may not use it."""
        if given is not None and self._caller is not None:
            check_place(self._caller, given)
        return given

    def query(self, *known: str) -> Query:
        """The parameters of the query. Raises ``InvalidInput`` for any that are not ``known``."""
        return Query(self.request.query, known)

    def wait_seconds(self, query: Query, default: float) -> float:
        """How long the caller waits: the parameter ``wait``, up to the limit."""
        asked = query.duration_seconds("wait")
        return min(default if asked is None else asked, self._limits.wait_seconds)

    @property
    def longest_wait_seconds(self) -> float:
        """The longest wait that a caller may ask for."""
        return self._limits.wait_seconds

    async def within(self, timeout_seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` and return its result. Raises ``TimeoutError`` when the time is up or the server stops, and
        ``ClientGone`` when the client leaves. ``work`` is cancelled then.
        """
        doing = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._patience.over())
        try:
            await asyncio.wait((doing, leaving), timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise ClientGone if self._patience.client_has_left else TimeoutError
        finally:
            leaving.cancel()
            doing.cancel()
            await asyncio.gather(doing, leaving, return_exceptions=True)

    def own_id(self, header: str) -> str | None:
        """The id that the caller gives the request, in this header or in ``Idempotency-Key``; ``None`` without one."""
        for name in (header, IDEMPOTENCY_KEY):
            if values := self.request.header_values(name.lower()):
                return header_id(name, values)
        return None

    def value(self) -> Any:
        """The body as plain JSON. No body is null."""
        return plain_json(self.request.body, "the body") if self.request.body.strip() else None

    def fields(self, kind: type[T]) -> T:
        """The body as a value of a class. No body is an object without fields. Raises ``InvalidInput``."""
        try:
            return msgspec.json.decode(self.request.body.strip() or b"{}", type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            complaint = faults.complaint_of(error)
            raise InvalidInput(f"the body is wrong{_at(complaint)}: {complaint.text}") from None


Handler = Callable[[Call], Awaitable[Response]]
"""What answers the requests to one route."""


def plain_json(data: bytes, what: str) -> Any:
    """The value of plain JSON. Raises ``InvalidInput``."""
    if jsontext.nests_too_deep(data):
        raise faults.too_deep(what)
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON: {faults.complaint_of(error).text}") from None


def _at(complaint: faults.Complaint) -> str:
    return f" at {complaint.path}" if complaint.path else ""
