"""The work of tasks whose resource says more than what to call: task tokens, activities, other machines."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.asl import activities, nested
from holdfast.asl.amazon import Amazon
from holdfast.asl.binding import Tasks
from holdfast.asl.connections import Connection, invoker
from holdfast.asl.definition import Task
from holdfast.asl.doing import Doing
from holdfast.asl.resources import WAIT_FOR_TASK_TOKEN, Limits, is_activity, resource_of
from holdfast.asl.targets import Mock
from holdfast.asl.tokens import answer_to, open_token

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run
    from holdfast.asl.visit import Visit
    from holdfast.kernel.runtime import Declares

INVOKE: Final = "http:invoke"


class Services(Tasks):
    """Does the work of tasks by what is mapped for them, and by what Step Functions itself offers; ``by_name`` also by
    the steps of the app.
    """

    def __init__(
        self,
        app: Declares,
        targets: Mapping[str, Any],
        http: Mapping[str, Connection] | None = None,
        *,
        aws: bool = False,
        by_name: bool = False,
    ) -> None:
        super().__init__({**({INVOKE: invoker(http)} if http else {}), **targets})
        self._app = app
        self._amazon = Amazon() if aws else None
        self._by_name = by_name

    def offers(self, resource: str) -> bool:
        """Whether a resource needs nothing that is mapped for it."""
        return is_activity(resource) or resource_of(resource).call == nested.START_EXECUTION

    def _mapped(self, keys: tuple[str, ...], text: str) -> Any:
        found = super()._mapped(keys, text)
        if found is None and self._by_name:
            steps = (self._app.registry.steps.get(key) for key in keys)
            found = next((each for each in steps if each is not None and not each.policy.transactional), None)
        if found is not None or self._amazon is None or self.offers(text):
            return found
        return self._amazon.target(text)

    def token(self, run: Run, frame: Frame, visit: Visit, /) -> str:
        """See ``Work``."""
        state = cast("Task", visit.state)
        if isinstance(self._target(state), Mock) or resource_of(state.resource).pattern != WAIT_FOR_TASK_TOKEN:
            return super().token(run, frame, visit)
        return open_token(run.activation)

    async def perform(self, run: Run, frame: Frame, visit: Visit, given: Any, limits: Limits, /) -> Any:
        """See ``Work``."""
        state = cast("Task", visit.state)
        target, resource = self._target(state), resource_of(state.resource)
        if isinstance(target, Mock):
            return await super().perform(run, frame, visit, given, limits)
        doing = Doing(run, frame, resource, given, limits, self._performer)
        if target is None and is_activity(resource.text):
            return await activities.performed(doing, self._app)
        if target is None and resource.call == nested.START_EXECUTION:
            token = visit.context["Task"]["Token"] if resource.pattern == WAIT_FOR_TASK_TOKEN else ""
            return await nested.performed(doing, self._app, visit.randomness, token)
        if resource.pattern == WAIT_FOR_TASK_TOKEN:
            if target is None:
                raise self.lacking(run, resource.text, state.name)
            return await _called_back(doing, target, visit.context["Task"]["Token"])
        return await super().perform(run, frame, visit, given, limits)


class DeclaredServices(Services):
    """The tasks of a machine that the app declares. All of them are mapped when it is declared, so one that is lacking
    was dropped since the execution began: that blocks it, until code is deployed that has the task (G13).
    """

    def lacking(self, run: Run, resource: str, state: str = "", /) -> BaseException:
        """See ``Tasks``."""
        who = f"state {state!r}" if state else "a Map"
        name = resource_of(resource).name
        return run.activation.break_off(
            f"{who} of the definition that this execution began with needs a task for {resource!r}, and the code here "
            f"maps none. Deploy code that does: tasks={{{name!r}: …}}; the execution goes on by itself then"
        )


async def _called_back(doing: Doing, target: Any, token: str) -> Any:
    """Call what hands the token out, and wait for the answer."""
    doing.schedule()

    async def work() -> Any:
        doing.submit(await doing.call(target))
        return await answer_to(doing.run.activation, token, doing.limits)

    answer: Awaitable[Any] = work()
    return await doing.ended(answer)
