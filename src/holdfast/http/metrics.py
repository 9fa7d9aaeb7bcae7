"""The metrics of the process that answers, for Prometheus."""

from __future__ import annotations

from holdfast.http.api import Call
from holdfast.http.messages import ALWAYS, Response
from holdfast.http.problems import Problem
from holdfast.runtime.prometheus import CONTENT_TYPE, prometheus


async def metrics(call: Call) -> Response:
    """The metrics of this process, which are about the whole home: not for a caller that is confined to a tenant."""
    call.query()
    if call.tenant:
        raise Problem(403, "forbidden", "metrics are about the whole home, and this caller is confined to a tenant")
    body = prometheus(call.app).encode()
    return Response(200, (("content-type", CONTENT_TYPE), ("content-length", str(len(body))), *ALWAYS), body)
