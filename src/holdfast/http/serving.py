"""What an app offers to servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.http.asgi import AsgiApi, Servable
    from holdfast.http.authentication import Authenticate
    from holdfast.http.limits import HttpLimits
    from holdfast.runtime.lambda_ import Called, LambdaHandler


def asgi(
    app: Servable,
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
    from holdfast.http.api import Options  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.asgi import AsgiApi  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.limits import HttpLimits  # noqa: PLC0415 - see above, it is loaded when it is used

    return AsgiApi(app, Options(authenticate=authenticate, limits=limits or HttpLimits()), works=worker)


def lambda_handler(app: Called, *, http: Authenticate | None = None, limits: HttpLimits | None = None) -> LambdaHandler:
    """What AWS Lambda calls: ``handler = app.lambda_handler()`` in the module that the function's settings name.

    It takes rings and messages from SQS, sweeps, and does what it is asked to directly: see the page "On AWS
    Lambda". Nothing is opened before the first invocation.

    With ``http`` it also answers the requests of a function URL, API Gateway or a load balancer, with the routes of
    ``asgi``, within ``limits``. ``http`` is who may call, as ``authenticate`` is there: ``hf.BearerTokens``,
    ``hf.iam_caller``, or a function of yours. Callbacks and health are open to everybody then. Without it such
    requests are refused with ``ConfigurationError``.
    """
    # Whoever has no function, or no HTTP, loads nothing of it.
    from holdfast.runtime.lambda_ import (  # noqa: PLC0415 - see above, it is loaded when it is used
        LambdaHandler,
        published_version,
    )

    app.published = published_version(os.environ)
    if http is None:
        return LambdaHandler(app)
    from holdfast.http.api import Options  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.lambda_front import HttpFront  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.limits import HttpLimits  # noqa: PLC0415 - see above, it is loaded when it is used

    return LambdaHandler(app, HttpFront(app, Options(authenticate=http, limits=limits or HttpLimits())))
