"""Activities: tasks that wait in a list until a worker asks for one, and are answered by its token."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact
from holdfast.asl.stored.queue import Waiting, put
from holdfast.asl.stored.shelf import Shelf
from holdfast.asl.tokens import answer_to, open_token
from holdfast.persist import sit_out
from holdfast.workflows.definition import Step
from holdfast.workflows.operations.step import call_step

if TYPE_CHECKING:
    from holdfast.asl.doing import Doing
    from holdfast.kernel.runtime import Declares


async def performed(doing: Doing, app: Declares) -> Any:
    """Put a task into the list of its activity, and wait for the answer. Raises ``StatesError``."""
    run, resource, limits = doing.run, doing.resource, doing.limits
    token = open_token(run.activation)

    async def schedule(name: str, waiting: Waiting) -> bool:
        if await Shelf(app.runtime).activity(name) is None:
            return False
        await put(app.runtime().home.store, name, waiting)
        return True

    async def scheduled(name: str, waiting: Waiting) -> bool:
        return await sit_out(partial(schedule, name, waiting), lambda _error: None)  # no failure of the machine

    step: Step[..., bool] = Step(scheduled, name="activity")
    run.pace.operations += 1
    waiting = Waiting(token=token, input=compact(doing.given), since_ms=run.now_ms())
    if not await call_step(run.activation, step, (resource.name, waiting), {}):
        raise EvaluationError(RUNTIME, f"The activity {resource.text} does not exist.")
    trail = doing.frame.trail
    trail.note("ActivityScheduled", resource=resource.text, parameters=doing.given)
    answer = answer_to(run.activation, token, limits, begun=lambda: trail.note("ActivityStarted"))
    return await doing.ended(answer, "Activity")
