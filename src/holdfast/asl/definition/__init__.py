"""State machine definitions as frozen data. Parsing presumes a valid definition; ``validation`` says whether it is."""

from __future__ import annotations

from holdfast.asl.definition.machine import Machine, parse, state_of
from holdfast.asl.definition.rules import Catcher, ChoiceRule, Retrier
from holdfast.asl.definition.states import (
    JSONATA,
    JSONPATH,
    Choice,
    Fail,
    Map,
    Parallel,
    Pass,
    Processor,
    State,
    Succeed,
    Task,
    Wait,
)

__all__ = [
    "JSONATA",
    "JSONPATH",
    "Catcher",
    "Choice",
    "ChoiceRule",
    "Fail",
    "Machine",
    "Map",
    "Parallel",
    "Pass",
    "Processor",
    "Retrier",
    "State",
    "Succeed",
    "Task",
    "Wait",
    "parse",
    "state_of",
]
