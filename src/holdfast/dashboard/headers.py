"""The headers of every response of the dashboard: no page can run foreign code, be framed, or be kept.

``Referrer-Policy`` is ``same-origin``: with ``no-referrer`` a browser sends ``Origin: null`` with forms (Fetch
standard, "append a request Origin header"), and the origin of a form is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.responses import Response

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

NO_STORE: Final = "no-store"


def guarded(response: Response) -> Response:
    """The response with the headers of all responses."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("cache-control", NO_STORE)
    return response
