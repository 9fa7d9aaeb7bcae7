"""DescribeMapRun, ListMapRuns and UpdateMapRun.

The iterations of a Map are a part of its execution here, also of a distributed one: no map run stands for itself.
"""

from __future__ import annotations

from holdfast.http.states import asked
from holdfast.http.states.faults import no_resource
from holdfast.http.states.names import execution_arn, map_run_arn
from holdfast.http.states.service import Answer, Service
from holdfast.http.states.standing import standing_of


async def list_all(service: Service, request: asked.ListMapRuns) -> Answer:
    """The map runs of an execution: none."""
    await standing_of(service, execution_arn(request.execution_arn))
    return service.sliced("mapRuns", [], request)


async def describe(_service: Service, request: asked.OfMapRun) -> Answer:
    """A map run. Raises ``Fault``."""
    raise no_resource(map_run_arn(request.map_run_arn).text)


async def update(_service: Service, request: asked.UpdateMapRun) -> Answer:
    """Change a map run. Raises ``Fault``."""
    raise no_resource(map_run_arn(request.map_run_arn).text)
