"""Step Functions' JSON protocol, as its SDKs speak it: ``boto3.client("stepfunctions", endpoint_url=...)``.

An API that does not serve it loads nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.commands.right import Right
    from holdfast.http.api import Call, Served
    from holdfast.http.messages import Request, Response
    from holdfast.http.problems import Problem


def right_of(app: Served, names: Mapping[str, str], request: Request) -> Right:
    """The right that the action of a request needs. Raises ``Fault`` for an action that is not known."""
    from holdfast.http.states import answering  # noqa: PLC0415 - see above, it is loaded when it is used

    return answering.right_of(app, names, request)


def waits_for(request: Request) -> bool:
    """Whether the answer to a request waits for work."""
    from holdfast.http.states import answering  # noqa: PLC0415 - see above, it is loaded when it is used

    return answering.waits_for(request)


async def answer(call: Call) -> Response:
    """Perform the action that a request names."""
    from holdfast.http.states import answering  # noqa: PLC0415 - see above, it is loaded when it is used

    return await answering.answer(call)


def refused(problem: Problem) -> Response:
    """A problem in the words of the protocol."""
    from holdfast.http.states import answering  # noqa: PLC0415 - see above, it is loaded when it is used

    return answering.refused(problem)
