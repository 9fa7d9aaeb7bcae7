"""What an app offers to servers."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.http.asgi import AsgiApi, Mounted, Servable
    from holdfast.http.authentication import Authenticate
    from holdfast.http.limits import HttpLimits
    from holdfast.runtime.lambda_ import Called, LambdaHandler

    class ServedFunction(Called, Servable, Protocol):
        """An app that runs as a function and is served."""


def asgi(
    app: Servable,
    *,
    authenticate: Authenticate | None = None,
    worker: bool = False,
    limits: HttpLimits | None = None,
    dashboard: Mounted | None = None,
    asl: bool = False,
    scan: bool = False,
) -> AsgiApi:
    """The app's HTTP API as an ASGI 3 application: ``api = app.asgi(authenticate=...)``, ``uvicorn shop:api``.

    The app is open during the server's lifespan; with ``worker`` it also runs a worker. If the server, or the
    application that this one is mounted in, has no lifespan events, open the app yourself.

    ``authenticate`` identifies the caller of a request: it returns a name, an ``hf.Caller`` with rights, or ``None``
    for an unknown caller. An ``hf.BearerTokens`` is one. Without it, only callbacks and health are open to requests
    that do not come over the loopback interface. ``dashboard`` is an ``hf.Dashboard``: pages for people below its path,
    for the same callers. With ``asl`` it speaks Step Functions' protocol too, at the path ``/``. With ``scan`` lists
    read the whole table of a home on AWS without an index for them, which is billed; else a request has to ask for
    that.
    """
    # An app that serves nothing loads nothing of this.
    from holdfast.http.api import Options  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.asgi import AsgiApi  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.limits import HttpLimits  # noqa: PLC0415 - see above, it is loaded when it is used

    options = Options(authenticate=authenticate, limits=limits or HttpLimits(), asl=asl, scan=scan)
    return AsgiApi(app, options, works=worker, mounted=dashboard)


def lambda_handler(
    app: ServedFunction,
    *,
    http: Authenticate | None = None,
    limits: HttpLimits | None = None,
    dashboard: Mounted | None = None,
    asl: bool = False,
    scan: bool = False,
) -> LambdaHandler:
    """What AWS Lambda calls: ``handler = app.lambda_handler()`` in the module that the function's settings name.

    It handles wake-ups and messages from SQS, sweeps, and direct invocations: see the page "On AWS Lambda". The app is
    opened by the first invocation.

    With ``http`` it also answers the requests of a function URL, API Gateway or a load balancer, with the routes of
    ``asgi``, within ``limits``. ``http`` identifies callers, as ``authenticate`` does there: ``hf.BearerTokens``,
    ``hf.iam_caller``, or a function of your own. Callbacks and health are then open to all callers. Without ``http``
    such requests raise ``ConfigurationError``. ``dashboard`` is an ``hf.Dashboard``, for the same callers; with ``asl``
    it speaks Step Functions' protocol to them too; ``scan`` is that of ``asgi``.
    """
    # An app without a function, or without HTTP, loads nothing of this.
    from holdfast.runtime.lambda_ import (  # noqa: PLC0415 - see above, it is loaded when it is used
        LambdaHandler,
        published_version,
    )
    from holdfast.workflows import bodies  # noqa: PLC0415 - the same: loaded when it is used

    import_module("holdfast.opening")  # the first invocation opens the app, and loads nothing for it but the backend
    bodies.load()
    app.published = published_version(os.environ)
    if http is None:
        if dashboard is not None or asl:
            told = "Step Functions' protocol" if asl else "a dashboard"
            raise ConfigurationError(f"{told} behind Lambda needs callers that are known: give http= too")
        return LambdaHandler(app)
    from holdfast.http.api import Options  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.lambda_front import HttpFront  # noqa: PLC0415 - see above, it is loaded when it is used
    from holdfast.http.limits import HttpLimits  # noqa: PLC0415 - see above, it is loaded when it is used

    options = Options(authenticate=http, limits=limits or HttpLimits(), asl=asl, scan=scan)
    return LambdaHandler(app, HttpFront(app, options, dashboard))
