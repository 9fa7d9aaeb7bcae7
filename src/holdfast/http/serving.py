"""What an app offers to servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.http.api import HttpLimits
    from holdfast.http.asgi import AsgiApi, Servable
    from holdfast.http.authentication import Authenticate


class Serving:
    """The ways in which an app is served."""

    def asgi(
        self: Servable,
        *,
        authenticate: Authenticate | None = None,
        worker: bool = False,
        limits: HttpLimits | None = None,
    ) -> AsgiApi:
        """The app's HTTP API as an ASGI 3 application: ``api = app.asgi(authenticate=...)``, ``uvicorn shop:api``.

        While the server lives the app is open; with ``worker`` it also works. Where a server, or the application that
        this one is mounted in, tells of no lifespan, open the app yourself.

        ``authenticate`` answers who sends a request: a name, an ``hf.Caller`` with the rights he has, or ``None``; an
        ``hf.BearerTokens`` does. Without it all but callbacks and health is refused to whoever does not come over the
        loopback interface.
        """
        # Whoever serves nothing loads nothing of it.
        from holdfast.http.api import HttpLimits, Options  # noqa: PLC0415 - see above, it is loaded when it is used
        from holdfast.http.asgi import AsgiApi  # noqa: PLC0415 - see above, it is loaded when it is used

        return AsgiApi(self, Options(authenticate=authenticate, limits=limits or HttpLimits()), works=worker)
