"""Logging in and out."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from holdfast.dashboard.cookies import root_of
from holdfast.dashboard.door import check_origin
from holdfast.dashboard.links import safe_way_back
from holdfast.dashboard.rendering import render_bare
from holdfast.dashboard.sessions import end_session

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.dashboard.door import Door
    from holdfast.dashboard.visit import Visit
    from holdfast.http.messages import Request as Head

UNKNOWN = (
    "That is not known here. A code can be used once, within an hour; a token must be one of those that are served."
)


def login_page(
    request: Request, title: str, *, takes_codes: bool, back: str = "", complaint: str = "", code: str = ""
) -> Response:
    """The page that asks for a token, or has a code to confirm. Looking at it uses no code."""
    root = root_of(request)
    params = request.query_params
    return render_bare(
        root,
        title,
        "login.html",
        HTTPStatus.FORBIDDEN if complaint else HTTPStatus.OK,
        code=code or params.get("code", ""),
        back=safe_way_back(root, back or params.get("back", "")),
        complaint=complaint,
        takes_codes=takes_codes,
    )


async def log_in(request: Request, head: Head, door: Door, title: str) -> Response:
    """Begin a session for a token or a code that is known."""
    check_origin(head)
    form = await door.form(request)
    session = await door.log_in(head, token=form.one("token"), code=form.one("code"))
    back = safe_way_back(root_of(request), form.one("back"))
    if session is None:
        return login_page(request, title, takes_codes=door.takes_codes, back=back, complaint=UNKNOWN)
    response = RedirectResponse(back, HTTPStatus.SEE_OTHER)
    jar = await door.jar(request)
    jar.keep(response, (await door.sessions()).cookie(session))
    return response


async def log_out(visit: Visit, request: Request, door: Door) -> Response:
    """End the session, for every process. Raises ``StoreError`` if that could not be noted."""
    await end_session(visit.app.runtime().home.store, visit.session)
    response = RedirectResponse(visit.link("login"), HTTPStatus.SEE_OTHER)
    jar = await door.jar(request)
    jar.drop(response, jar.name)
    return response
