"""The site of a dashboard: its addresses, who is let in, and what is answered when something goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.commands.right import Right
from holdfast.dashboard.acting import Done, act
from holdfast.dashboard.cookies import root_of
from holdfast.dashboard.door import Door, LoginNeeded
from holdfast.dashboard.headers import guarded
from holdfast.dashboard.links import link
from holdfast.dashboard.live import Streams
from holdfast.dashboard.navigation import ADDRESSES, Address
from holdfast.dashboard.pages import PAGES
from holdfast.dashboard.pages.login import log_in, log_out, login_page
from holdfast.dashboard.pages.trouble import trouble
from holdfast.dashboard.rendering import STATIC_KINDS, static_file
from holdfast.dashboard.visit import Visit
from holdfast.errors import HoldfastError
from holdfast.http.problems import Problem, fault, problem_of

if TYPE_CHECKING:
    from holdfast.dashboard.settings import Settings
    from holdfast.http.api import Options
    from holdfast.http.asgi import Servable
    from holdfast.http.exchange import Receive, Scope, Send

Page = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]

KEPT: Final = "public, max-age=31536000, immutable"


class DashboardSite:
    """The pages of one app, as an ASGI application without a lifespan: the app is opened by the server around it."""

    def __init__(self, app: Servable, options: Options, settings: Settings) -> None:
        self._app = app
        self._door = Door(app, options, settings)
        self._settings = settings
        self._streams = Streams(app)
        routes = [Route(f"/{each.page}", self._page(PAGES[each.page], each)) for each in ADDRESSES]
        routes += [
            Route("/", self._first),
            Route("/events", self._page(self._events, Address("events", "", Right.READ))),
            Route("/act", self._action(act), methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/login", self._open(self._login), methods=["GET", "POST"]),
            Route("/static/{name}", self._open(_static)),
        ]
        self._starlette = Starlette(
            routes=routes, exception_handlers={404: self._nothing_here, 405: self._nothing_here}
        )
        self._starlette.router.redirect_slashes = False  # it would lead to whatever host the request names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._starlette(scope, receive, send)

    def end_waits(self) -> None:
        """End what waits for news: the server stops."""
        self._streams.end()

    def login_path(self) -> str | None:
        """The path, below the dashboard, by which this machine's user can log in once; ``None`` if no code is needed.

        The app must be open.
        """
        return f"/login?code={self._door.codes.new()}" if self._door.takes_codes else None

    # ── Kinds of addresses ──────────────────────────────────────────────────────────────────────────────────────────

    def _page(self, page: Page, address: Address) -> Endpoint:
        """An address that shows something to a known caller who has the right."""

        async def shown(visit: Visit) -> Response:
            visit.check_right(address.right)
            if address.is_of_home:
                visit.check_whole_home()
            return await page(visit)

        async def endpoint(request: Request) -> Response:
            return await self._told(request, shown, takes_form=False)

        return endpoint

    def _action(self, page: Page) -> Endpoint:
        """An address that changes something for a known caller, by a form of its session."""

        async def endpoint(request: Request) -> Response:
            return await self._told(request, page, takes_form=True)

        return endpoint

    def _open(self, answer: Endpoint) -> Endpoint:
        """An address that is open to all callers."""

        async def endpoint(request: Request) -> Response:
            try:
                return guarded(await answer(request))
            except Exception as error:  # noqa: BLE001 - the caller gets a response to any error
                problem = self._problem(error, request)
                return guarded(PlainTextResponse(problem.detail, problem.status))

        return endpoint

    async def _told(self, request: Request, page: Page, *, takes_form: bool) -> Response:
        visit: Visit | None = None
        try:
            head = self._door.head(request)
            visit = await self._door.admit(request, head)
            if takes_form:
                visit = await self._door.with_form(request, visit)
            response = await page(visit)
        except LoginNeeded:
            response = self._to_login(request)
        except Exception as error:  # noqa: BLE001 - the caller gets a response to any error
            response = trouble(visit, self._problem(error, request), root_of(request), self._title)
        await self._keep_session(request, visit, response)
        self._emit(request, visit, response)
        return guarded(response)

    async def _keep_session(self, request: Request, visit: Visit | None, response: Response) -> None:
        """Set the cookie of a session that begins, and drop a note that was shown."""
        if visit is None:
            return
        jar = await self._door.jar(request)
        if visit.begins_session:
            jar.keep(response, (await self._door.sessions()).cookie(visit.session))
        if isinstance(response, Done):
            jar.note(response, (await self._door.sessions()).note(visit.session, response.note))
        elif visit.note and not visit.is_fragment:
            jar.drop(response, jar.note_name)

    def _emit(self, request: Request, visit: Visit | None, response: Response) -> None:
        """Count the request, as those of the API are: with its caller, without payloads and tokens."""
        page = request.scope["path"].removeprefix(root_of(request))
        told = f"{request.method} {self._settings.path.rstrip('/')}{page}"
        caller = "" if visit is None else visit.caller.name
        self._app.telemetry.emit("http_answered", route=told, status=response.status_code, caller=caller, target="")

    # ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _title(self) -> str:
        return self._settings.title or self._app.registry.app

    def _to_login(self, request: Request) -> Response:
        root = root_of(request)
        over = "your session is over: log in again"
        if "holdfast-fragment" in request.headers:
            return PlainTextResponse(over, HTTPStatus.UNAUTHORIZED)
        if request.method not in {"GET", "HEAD"}:
            problem = Problem(401, "unauthenticated", f"{over}, and repeat what you did, since nothing was changed")
            return trouble(None, problem, root, self._title)
        back = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(link(root, "login", back=back), HTTPStatus.SEE_OTHER)

    async def _login(self, request: Request) -> Response:
        head = self._door.head(request)
        if request.method != "POST":
            return login_page(request, self._title, takes_codes=self._door.takes_codes)
        return await log_in(request, head, self._door, self._title)

    async def _events(self, visit: Visit) -> Response:
        return self._streams.respond(visit)

    async def _first(self, request: Request) -> Response:
        """Lead to the first page."""

        async def first(visit: Visit) -> Response:
            page = next((each.page for each in ADDRESSES if visit.may_open(each)), "executions")
            return RedirectResponse(visit.link(page), HTTPStatus.SEE_OTHER)

        return await self._told(request, first, takes_form=False)

    async def _log_out(self, request: Request) -> Response:
        async def ended(visit: Visit) -> Response:
            response = await log_out(visit, request, self._door)
            self._streams.end_session(visit.session.id)
            return response

        return await self._told(request, ended, takes_form=True)

    async def _nothing_here(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", HTTPStatus.NOT_FOUND)
        told = "there is no such page" if status == HTTPStatus.NOT_FOUND else "this address takes other methods"
        problem = Problem(status, "no_route", told)
        return guarded(trouble(None, problem, root_of(request), self._title))

    def _problem(self, error: Exception, request: Request) -> Problem:
        match error:
            case Problem():
                return error
            case HoldfastError():
                return problem_of(error, f"page {request.scope['path']}")
            case _:
                return fault(error, f"page {request.scope['path']}")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = static_file(name)
    if content is None:
        return PlainTextResponse("there is no such file", HTTPStatus.NOT_FOUND)
    return Response(content, headers={"content-type": STATIC_KINDS[name], "cache-control": KEPT})
