"""What a generated workflow comes to, with the tasks of a test in its steps."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import Any

import holdfast as hf
from holdfast.asl.definition import parse
from holdfast.asl.topython import Converted, to_python
from holdfast.testing import PATIENT, VirtualClock, run_virtual

LOST = (LookupError, TypeError, NameError)
"""What a path that leads nowhere raises; in the machine it is ``States.Runtime``."""


def converted(definition: dict[str, Any]) -> Converted:
    return to_python(parse(definition), "machine")


def outcome(definition: dict[str, Any], input: Any = None, /, **tasks: Callable[[Any], Any]) -> Any:
    """What one execution answers, or the name of the error that it fails with."""
    text = converted(definition).text
    text = text.replace('hf.App("machine")', "app_of_the_test()")
    text = re.sub(r'raise NotImplementedError\("(\w+)"\)', r'return perform("\1", given)', text)
    app = hf.App("machine", home="memory://", clock=VirtualClock(), limits=PATIENT)
    module: dict[str, Any] = {"__name__": "generated", "app_of_the_test": lambda: app}

    def perform(name: str, given: Any) -> Any:
        try:
            return tasks[name](given)
        except hf.asl.Error as error:
            raise own_errors(module).get(error.error, hf.asl.Error)(*_told(error, module)) from None

    module["perform"] = perform
    exec(compile(text, "generated.py", "exec"), module)  # noqa: S102 - our own text

    async def main() -> Any:
        async with app.worker():
            handle = await app.registry.workflow("machine_2" if "machine_2" in text else "machine").start(
                {} if input is None else input, id="m-1"
            )
            try:
                return await handle
            except hf.ExecutionFailed as failed:
                return ("failed with", name_of(failed.__cause__, module))

    return run_virtual(main)


def own_errors(module: dict[str, Any]) -> dict[str | None, type[Exception]]:
    """The classes of the module and of Python, by the names that the machine has for them."""
    names = vars(builtins) | module
    classes = (each for each in names.values() if isinstance(each, type) and issubclass(each, Exception))
    return {getattr(each, "error", each.__name__): each for each in classes}


def _told(error: hf.asl.Error, module: dict[str, Any]) -> tuple[Any, ...]:
    return (error.cause,) if error.error in own_errors(module) else (error.error, error.cause)


def name_of(error: BaseException | None, module: dict[str, Any]) -> str | None:
    """The machine's name for an error."""
    match error:
        case hf.asl.Error():
            return error.error
        case hf.StepTimeout():
            return "States.Timeout"
        case hf.StepFailed():
            name = error.error_type.rpartition(".")[2]
            return next((told for told, each in own_errors(module).items() if each.__name__ == name), name)
        case _ if isinstance(error, LOST):
            return "States.Runtime"
        case _:
            return getattr(error, "error", type(error).__name__)
