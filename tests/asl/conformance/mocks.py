"""The recorded interactions of tasks: what each attempt of a Task answers."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.asl.conformance.cases import Case
from tests.asl.conformance.matching import same, shown

from holdfast.asl import binding
from holdfast.asl.definition import parse
from holdfast.asl.errors import Error
from holdfast.asl.resources import is_activity
from holdfast.asl.targets import Mock


class Mocks:
    """Answers for tasks in the recorded order; of concurrent ones the first that was recorded with the input."""

    def __init__(self, case: Case) -> None:
        self.differences: list[str] = []
        self.attempts = 0
        self._left: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for mock in case.get("task_mocks", ()):
            self._left[mock["state"]].append(mock)
        self._echoes = bool(case.get("mocks_incomplete"))
        self._deduced = None if "task_mocks" in case or self._echoes else _deduced(case["expected"])

    def tasks(self, definition: dict[str, Any]) -> dict[str, Any]:
        """What to map for the states of a machine."""
        states = binding.tasks_in(parse(definition).processor)
        return {
            state.name: Mock(_of(self._answer, state.name))
            for state in states
            if self._left[state.name] or not is_activity(state.resource)
        }

    def unused(self) -> list[str]:
        return [state for state, left in self._left.items() for _ in left]

    async def _answer(self, state: str, given: Any) -> Any:
        self.attempts += 1
        left = self._left[state]
        if not left and self._echoes:
            return given
        if not left and self._deduced is not None:
            return self._deduced()
        if not left:
            self.differences.append(f"task {state!r} was called once more than recorded, with {shown(given)}")
            raise Error("Conformance.NoMock", state)
        place = next((at for at, mock in enumerate(left) if _fits(mock, given)), None)
        if place is None:
            self.differences.append(
                f"task input of {state!r}: expected {shown(left[0]['task_input'])}, got {shown(given)}"
            )
        mock = left.pop(place or 0)
        if mock["kind"].endswith("TimedOut"):  # where the limit is recorded, ours has to come before the answer
            await asyncio.sleep(2 * (mock.get("heartbeatInSeconds") or mock.get("timeoutInSeconds") or 0))
        if "error" in mock or mock["kind"].endswith(("Failed", "TimedOut")):
            cause = mock.get("cause")
            raise Error(mock.get("error"), cause if cause is None or isinstance(cause, str) else json.dumps(cause))
        return mock.get("output")


def _deduced(expected: dict[str, Any]) -> Callable[[], Any] | None:
    """What the task of a case without recorded interactions must have answered, where the outcome tells."""
    match expected:
        case {"output": {"Error": str(error), "Cause": str(cause), **others}} if not others:

            def fail() -> Any:
                raise Error(error, cause)

            return fail
        case {"output": dict(output)} if "SdkHttpMetadata" in output:
            result = {name: each for name, each in output.items() if name[0].isupper()}
            return lambda: result
        case _:
            return None


def _of(answer: Any, state: str) -> Any:
    async def task(given: Any) -> Any:
        return await answer(state, given)

    return task


def _fits(mock: dict[str, Any], given: Any) -> bool:
    if "task_input" not in mock:
        return True
    expected = mock["task_input"]
    if isinstance(expected, str) and not isinstance(given, str):
        try:
            expected = json.loads(expected)
        except ValueError:
            return False
    return same(expected, given, wild=True)
