"""The door: who sends a request, whether its session goes on, and whether a form comes from one of our own pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from holdfast.containment import contained
from holdfast.coordination.salt import HomeSalt
from holdfast.dashboard.cookies import Jar, root_of
from holdfast.dashboard.forms import TOKEN_FIELD, URLENCODED, Form, check_form_size
from holdfast.dashboard.sessions import LoginCodes, Session, Sessions, was_ended
from holdfast.dashboard.visit import Visit
from holdfast.http.asgi import request_of
from holdfast.http.authentication import Caller, caller_of
from holdfast.http.exchange import read_whole
from holdfast.http.lambda_site import ONE_PIECE, REQUEST
from holdfast.http.limits import check_size
from holdfast.http.local import LocalCallers
from holdfast.http.messages import Loopback, Request
from holdfast.http.problems import Problem
from holdfast.http.room import Room, Share

if TYPE_CHECKING:
    from starlette.requests import Request as StarletteRequest

    from holdfast.dashboard.settings import Settings
    from holdfast.http.api import Options, Served

FRAGMENT_HEADER: Final = "holdfast-fragment"


class LoginNeeded(Exception):
    """The caller is not known, and may log in. Never leaves this package."""


class Door:
    """Admits requests. ``codes`` let a person on this machine in, if the home is private and no callers are named."""

    def __init__(self, app: Served, options: Options, settings: Settings) -> None:
        self._app = app
        self._options = options
        self._settings = settings
        self._authenticate = options.authenticate or LocalCallers(app)
        self._salt = HomeSalt()
        self._room = Room(options.limits.bodies_bytes)
        self.codes = LoginCodes(app.clock)

    @property
    def takes_codes(self) -> bool:
        """Whether a person logs in by a code: the server is for its machine's user, whose home has a token."""
        return self._options.authenticate is None and self._app.runtime().home.token is not None

    async def sessions(self) -> Sessions:
        """The sessions of the home."""
        runtime = self._app.runtime()
        return Sessions(await self._salt.of(runtime.home), runtime.clock)

    def head(self, request: StarletteRequest) -> Request:
        """The request without its body. Raises ``Problem`` if it is too large, or for another host."""
        head: Request = request.scope.get(REQUEST) or request_of(request.scope)
        check_size(head, self._options.limits)
        hosts = head.header_values("host")
        if self._settings.hosts and (len(hosts) != 1 or hosts[0].lower() not in self._settings.hosts):
            raise Problem(403, "forbidden", "this dashboard is not served under this host name")
        return head

    async def jar(self, request: StarletteRequest) -> Jar:
        """How the cookies of this request are set."""
        return Jar.of(request, (await self.sessions()).cookie_name)

    async def admit(self, request: StarletteRequest, head: Request) -> Visit:
        """The visit of a known caller whose session goes on. Raises ``LoginNeeded`` and ``Problem``."""
        sessions, jar = await self.sessions(), await self.jar(request)
        session = sessions.read(request.cookies.get(jar.name, ""))
        if session is not None and await was_ended(self._app.runtime().home.store, session):
            session = None
        caller = await self._caller(head, session)
        if caller is None and session is not None:
            session, caller = None, await self._caller(head, None)
        if caller is None:
            raise LoginNeeded
        going_on = session or sessions.begin("")
        note = request.cookies.get(jar.note_name, "")
        return Visit(
            app=self._app,
            request=head,
            caller=caller,
            session=going_on,
            begins_session=session is None,
            form_token=sessions.form_token(going_on),
            root=root_of(request),
            title=self._settings.title or self._app.registry.app,
            note=sessions.noted(going_on, note) if note else "",
            polls=ONE_PIECE in request.scope,
            is_fragment=FRAGMENT_HEADER in request.headers,
        )

    async def with_form(self, request: StarletteRequest, visit: Visit) -> Visit:
        """The visit with the form that it sends. Raises ``Problem`` unless the form is from a page of this session."""
        check_origin(visit.request)
        form = await self.form(request)
        if not (await self.sessions()).fits(visit.session, form.one(TOKEN_FIELD)):
            raise Problem(403, "forbidden", "this form is not from a page of your session: open the page again")
        return replace(visit, form=form)

    async def form(self, request: StarletteRequest) -> Form:
        """The form of a request. Raises ``Problem``."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != URLENCODED:
            raise Problem(415, "invalid_input", f"a form is sent as {URLENCODED}")
        share = Share(self._room)

        def grown_to(size_bytes: int) -> None:
            check_form_size(size_bytes)
            share.grow_to(size_bytes)

        try:
            body = await read_whole(request.receive, grown_to, self._options.limits.body_seconds)
            return Form(body or b"")
        finally:
            share.give_back()

    async def log_in(self, head: Request, *, token: str, code: str) -> Session | None:
        """The session of a person who gives a token or a code; ``None`` if it is not known."""
        credential = token.strip()
        if code:
            if not self.takes_codes or not isinstance(head.source, Loopback) or not self.codes.use(code):
                return None
            home_token = self._app.runtime().home.token
            assert home_token is not None
            credential = home_token()
        if not credential:
            return None
        session = (await self.sessions()).begin(credential)
        return None if await self._caller(head, session) is None else session

    async def _caller(self, head: Request, session: Session | None) -> Caller | None:
        """Who sends a request, by the credential of its session, or by what the request itself shows."""
        sent = replace(head, body=b"")
        if session is not None and session.credential:
            headers = tuple(pair for pair in head.headers if pair[0] != "authorization")
            sent = replace(sent, headers=(*headers, ("authorization", f"Bearer {session.credential}")))
        try:
            return await contained(caller_of(sent, self._authenticate))
        except Problem as problem:
            if problem.status == 401 and _may_log_in(self._options, head):
                return None
            raise


def _may_log_in(options: Options, head: Request) -> bool:
    """Whether a login may help. A server for its own machine lets no others in, whatever they send."""
    return options.authenticate is not None or isinstance(head.source, Loopback)


def check_origin(head: Request) -> None:
    """Raise ``Problem`` unless a form was sent by a page of this host: browsers send its origin with every form."""
    origins, hosts = head.header_values("origin"), head.header_values("host")
    if len(origins) != 1 or len(hosts) != 1 or urlsplit(origins[0]).netloc.lower() != hosts[0].lower():
        raise Problem(403, "forbidden", "a form must come from a page of this dashboard")
