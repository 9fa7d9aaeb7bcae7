"""Mocks for the tasks of a machine, as the command line takes them, and an app that has the machine with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec
from msgspec import UNSET, Struct

from holdfast.app import App
from holdfast.asl.binding import tasks_in
from holdfast.asl.declaring import StateMachine
from holdfast.asl.definition import Machine, Task
from holdfast.asl.errors import Error
from holdfast.asl.targets import Mock
from holdfast.cli.asl.given import Given
from holdfast.cli.values import json_value
from holdfast.errors import InvalidInput
from holdfast.testing import PATIENT, VirtualClock

EXAMPLE: Final = '{"%s": {"Return": …}} or {"%s": [{"Throw": {"Error": "…", "Cause": "…"}}, {"Return": …}]}'

input_option: Final = click.option("--input", "input_", metavar="JSON", default="{}", help="Its input; {} by default.")
mock_option: Final = click.option(
    "--mock",
    metavar="JSON",
    default="{}",
    help="What tasks answer, by state: {STATE: {Return: …}}, {STATE: {Throw: {Error: …}}}, or lists of these.",
)


class Thrown(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """The error that an attempt fails with."""

    error: str
    cause: str | None = None


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What one attempt of a task comes to: one of the two."""

    returns: Any = msgspec.field(name="Return", default=UNSET)
    throws: Thrown | None = msgspec.field(name="Throw", default=None)


class Trial(Struct, frozen=True):
    """An app on a home in memory that has a machine with mocked tasks."""

    app: App
    machine: StateMachine
    mocks: dict[str, Answering]

    def begin_again(self) -> None:
        """Let the next execution get the answers of the mocks from the first one on."""
        for each in self.mocks.values():
            each.begin_again()


def trial(given: Given, mocks: str, *, real_time: bool = False) -> Trial:
    """An app on a home in memory that has the machine of a definition, with its tasks mocked.

    Raises ``InvalidInput`` for an invalid definition, and for a task without a mock.
    """
    if real_time:
        app = App("asl", home="memory://")
    else:
        app = App("asl", home="memory://", clock=VirtualClock(), limits=PATIENT)
    machine = given.machine()
    answers = mocked(machine, _read(mocks))
    tasks = {name: Mock(answer) for name, answer in answers.items()}
    return Trial(app, app.state_machine(given.name, machine.text, tasks=tasks), answers)


def _read(mocks: str) -> Any:
    try:
        return json_value(mocks)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}. Mocks are written {EXAMPLE % ('STATE', 'STATE')}") from error


def mocked(machine: Machine, written: Any) -> dict[str, Answering]:
    """A function for each Task, which answers what its state's mock says."""
    tasks = list(tasks_in(machine.processor))
    try:
        mocks = msgspec.convert(written, dict[str, Answer | list[Answer]])
    except msgspec.ValidationError as error:
        name = tasks[0].name if tasks else "STATE"
        raise InvalidInput(f"these are no mocks: {error}; write {EXAMPLE % (name, name)}") from error
    if unknown := sorted(mocks.keys() - {state.name for state in tasks}):
        raise InvalidInput(f"there is a mock for {unknown[0]!r}, which is no Task of the machine")
    missing = [state for state in tasks if not mocks.get(state.name)]
    if len(missing) > 1:
        others = ", ".join(repr(state.name) for state in missing[1:])
        raise InvalidInput(f"{_not_done(missing[0])}. These need a mock too: {others}")
    return {state.name: answering(state, mocks.get(state.name, [])) for state in tasks}


def _not_done(state: Task) -> str:
    told = EXAMPLE % (state.name, state.name)
    return f"state {state.name!r} calls {state.resource!r}, which is not done here: mock it by {told}"


class Answering:
    """What stands for a task: each attempt takes the next answer, and the last one stays."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers
        self._attempts = in_order(answers)

    def begin_again(self) -> None:
        """The next attempt takes the first answer."""
        self._attempts = in_order(self._answers)

    def __call__(self, _given: Any) -> Any:
        mocked = next(self._attempts)
        if mocked.throws is not None:
            raise Error(mocked.throws.error, mocked.throws.cause)
        return mocked.returns


def answering(state: Task, mock: Answer | list[Answer]) -> Answering:
    """What stands for a task: each attempt takes the next answer, and the last one stays."""
    answers = mock if isinstance(mock, list) else [mock]
    if not answers or any((each.returns is UNSET) == (each.throws is None) for each in answers):
        raise InvalidInput(_not_done(state))
    return Answering(answers)


def in_order(answers: list[Answer]) -> Iterator[Answer]:
    """The answers one after the other, and the last one for ever."""
    yield from answers
    while True:
        yield answers[-1]
