"""The eight kinds of states. A field that is not written is ``UNSET`` where ``null`` means something else."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field

from holdfast.asl.definition.rules import Catcher, ChoiceRule, Retrier

JSONPATH: Final = "JSONPath"
JSONATA: Final = "JSONata"

Path = str | None | UnsetType
"""A path; ``null`` selects nothing, and without the field everything is selected."""


class Common(Struct, frozen=True, kw_only=True, tag_field="Type", rename="pascal"):
    """What every state may have. ``name`` and ``language`` follow from its place in the definition."""

    name: str = field(name="#name", default="")
    language: str = field(name="#language", default=JSONPATH)
    next: str | None = None
    end: bool = False
    input_path: Path = UNSET
    output_path: Path = UNSET
    output: Any = UNSET
    assign: dict[str, Any] | UnsetType = UNSET

    @property
    def jsonata(self) -> bool:
        """Whether its expressions are JSONata."""
        return self.language == JSONATA


class Working(Common, frozen=True, kw_only=True):
    """A state with a result that comes from elsewhere, and may be an error."""

    parameters: Any = UNSET
    arguments: Any = UNSET
    result_selector: Any = UNSET
    result_path: Path = UNSET
    retry: list[Retrier] = []
    catch: list[Catcher] = []


class Pass(Common, frozen=True, kw_only=True, tag="Pass"):
    """Passes its input on, or a result that the definition has."""

    result: Any = UNSET
    parameters: Any = UNSET
    result_path: Path = UNSET


class Task(Working, frozen=True, kw_only=True, tag="Task"):
    """Work that is done outside of the machine. With JSONata the seconds may be expressions."""

    resource: str
    credentials: Any = UNSET
    timeout_seconds: int | str | None = None
    timeout_seconds_path: str | None = None
    heartbeat_seconds: int | str | None = None
    heartbeat_seconds_path: str | None = None


class Choice(Common, frozen=True, kw_only=True, tag="Choice"):
    """Goes on where the first rule that holds says."""

    rules: list[ChoiceRule] = field(name="#rules", default=[])
    default: str | None = None


class Wait(Common, frozen=True, kw_only=True, tag="Wait"):
    """Goes on later."""

    seconds: int | float | str | None = None
    seconds_path: str | None = None
    timestamp: str | None = None
    timestamp_path: str | None = None


class Succeed(Common, frozen=True, kw_only=True, tag="Succeed"):
    """Ends the machine, or a branch of it, well."""


class Fail(Common, frozen=True, kw_only=True, tag="Fail"):
    """Ends the machine, or a branch of it, with an error."""

    error: str | None = None
    error_path: str | None = None
    cause: str | None = None
    cause_path: str | None = None


class Parallel(Working, frozen=True, kw_only=True, tag="Parallel"):
    """Runs branches side by side. Its result is the list of their outputs."""

    branches: list[Processor] = field(name="#branches", default=[])


class Map(Working, frozen=True, kw_only=True, tag="Map"):
    """Runs one machine for each item. ``item_selector`` also stands for the ``Parameters`` of old definitions."""

    processor: Processor | None = field(name="#processor", default=None)
    items: Any = UNSET
    items_path: Path = UNSET
    item_selector: Any = UNSET
    item_reader: dict[str, Any] | None = None
    item_batcher: dict[str, Any] | None = None
    result_writer: dict[str, Any] | None = None
    max_concurrency: int | str | None = None
    max_concurrency_path: str | None = None
    tolerated_failure_count: int | str | None = None
    tolerated_failure_count_path: str | None = None
    tolerated_failure_percentage: int | float | str | None = None
    tolerated_failure_percentage_path: str | None = None
    label: str | None = None


class Processor(Struct, frozen=True):
    """States that run as one: a machine, a branch of a Parallel, or what a Map runs for each item."""

    start_at: str
    states: dict[str, State]
    distributed: bool = False
    execution_type: str = "STANDARD"
    text: str = ""
    """The definition of a child execution, if it is distributed."""


State = Pass | Task | Choice | Wait | Succeed | Fail | Parallel | Map
