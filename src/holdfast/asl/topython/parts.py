"""What a generated module consists of besides its workflow: errors, steps, helpers; and remarks on what it lacks."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.jsontext import compact, reference_token
from holdfast.asl.topython.code import Code, call, quoted
from holdfast.asl.topython.names import Names

Pointer = tuple[str | int, ...]


class Unconverted(Exception):
    """A part of the definition has no plain form in Python. The message says why."""


class Remark(Struct, frozen=True):
    """A part of a machine that the generated code does not do: where it is, what it says, and why."""

    pointer: str
    original: str
    why: str


class StepOf(Struct, frozen=True):
    """What makes a step of a module: the resource, and how a call of it is repeated and limited."""

    resource: str
    retry: Code
    limits: tuple[str, ...] = ()


_TOO_WIDE: Final = frozenset({"Exception", "BaseException", "ExceptionGroup", "BaseExceptionGroup"})


class Parts:
    """The parts of a module, as they are found to be needed."""

    def __init__(self, machine_name: str) -> None:
        self.names = Names()
        self.machine_name = machine_name
        self.workflow = self.names.function(machine_name)
        self.errors: dict[str, str] = {}
        self.steps: dict[StepOf, str] = {}
        self.helpers: set[str] = set()
        self.remarks: list[Remark] = []

    def snapshot(self) -> Callable[[], None]:
        """Answers a function that takes back everything since now."""
        names, errors, steps = self.names.copy(), dict(self.errors), dict(self.steps)
        helpers, remarks = set(self.helpers), list(self.remarks)

        def back() -> None:
            self.names, self.errors, self.steps = names.copy(), dict(errors), dict(steps)
            self.helpers, self.remarks = set(helpers), list(remarks)

        return back

    def error(self, name: str) -> str:
        """The class of an error of the machine: one of Python's own, or one that the module declares."""
        own = getattr(builtins, name, None)
        if isinstance(own, type) and issubclass(own, Exception) and name not in _TOO_WIDE:
            return name
        if name not in self.errors:
            self.errors[name] = self.names.error(name)
        return self.errors[name]

    def step(self, step: StepOf, wanted: str, state: str) -> str:
        """The function of a step. The first of a resource has its name, others that of their state."""
        if step not in self.steps:
            is_first = all(each.resource != step.resource for each in self.steps)
            self.steps[step] = self.names.function(wanted if is_first else state)
        return self.steps[step]

    def helper(self, name: str) -> str:
        """A function or a module that the generated code uses."""
        self.helpers.add(name)
        return name

    def remark(self, pointer: Pointer, original: Any, why: str) -> Remark:
        """Note what is not converted."""
        text = original if isinstance(original, str) else compact(original)
        self.remarks.append(Remark(pointer_text(pointer), text, why))
        return self.remarks[-1]

    def not_converted(self, pointer: Pointer, original: Any, why: str) -> Code:
        """Note it, and answer what stands for it: a call that raises ``NotImplementedError``."""
        remark = self.remark(pointer, original, why)
        return call(self.helper("not_converted"), quoted(remark.pointer), quoted(remark.original))


def pointer_text(pointer: Pointer) -> str:
    """The JSON pointer.

    >>> pointer_text(("States", "a/b", "Choices", 0))
    '/States/a~1b/Choices/0'
    """
    return "".join(map(reference_token, pointer))
