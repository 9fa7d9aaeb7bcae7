"""What the requests about machines, versions, aliases, activities and tags hold, as the API Reference names it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

IncludedData = Literal["ALL_DATA", "METADATA_ONLY"]


class Asked(Struct, frozen=True, rename="camel", kw_only=True):
    """The fields of a request. Those that are not known are left alone, as AWS does."""


class Tag(Asked, frozen=True):
    """A tag of a machine or an activity."""

    key: str
    value: str = ""


class CreateStateMachine(Asked, frozen=True):
    """A request to perform ``CreateStateMachine``."""

    name: str
    definition: str
    role_arn: str
    type: str = "STANDARD"
    logging_configuration: dict[str, Any] | None = None
    tracing_configuration: dict[str, Any] | None = None
    tags: list[Tag] = []
    publish: bool = False
    version_description: str | None = None


class UpdateStateMachine(Asked, frozen=True):
    """A request to perform ``UpdateStateMachine``."""

    state_machine_arn: str
    definition: str | None = None
    role_arn: str | None = None
    logging_configuration: dict[str, Any] | None = None
    tracing_configuration: dict[str, Any] | None = None
    publish: bool = False
    version_description: str | None = None


class OfMachine(Asked, frozen=True):
    """A request that says which machine, or version, and perhaps how much of it."""

    state_machine_arn: str
    included_data: IncludedData = "ALL_DATA"


class Listing(Asked, frozen=True):
    """A request for a page."""

    max_results: int = 0
    next_token: str | None = None


class ListOfMachine(Listing, frozen=True, kw_only=True):
    """A request for a page of what belongs to a machine."""

    state_machine_arn: str


class PublishVersion(Asked, frozen=True):
    """A request to perform ``PublishVersion``."""

    state_machine_arn: str
    revision_id: str | None = None
    description: str | None = None


class OfVersion(Asked, frozen=True):
    """A request about the version that it names."""

    state_machine_version_arn: str


class RoutedTo(Asked, frozen=True):
    """A version that an alias leads to, and its weight."""

    state_machine_version_arn: str
    weight: int


class CreateAlias(Asked, frozen=True):
    """A request to perform ``CreateAlias``."""

    name: str
    routing_configuration: list[RoutedTo]
    description: str | None = None


class OfAlias(Asked, frozen=True):
    """A request about the alias that it names."""

    state_machine_alias_arn: str


class UpdateAlias(Asked, frozen=True):
    """A request to perform ``UpdateAlias``."""

    state_machine_alias_arn: str
    routing_configuration: list[RoutedTo] | None = None
    description: str | None = None


class ValidateDefinition(Asked, frozen=True):
    """A request to perform ``ValidateDefinition``."""

    definition: str
    type: Literal["STANDARD", "EXPRESS"] = "STANDARD"
    severity: Literal["ERROR", "WARNING"] = "ERROR"
    max_results: int = 0


class CreateActivity(Asked, frozen=True):
    """A request to perform ``CreateActivity``."""

    name: str
    tags: list[Tag] = []


class OfActivity(Asked, frozen=True):
    """A request about the activity that it names."""

    activity_arn: str


class GetActivityTask(Asked, frozen=True):
    """A request to perform ``GetActivityTask``."""

    activity_arn: str
    worker_name: str = ""


class OfResource(Asked, frozen=True):
    """A request about the resource that it names."""

    resource_arn: str


class TagResource(Asked, frozen=True):
    """A request to perform ``TagResource``."""

    resource_arn: str
    tags: list[Tag]


class UntagResource(Asked, frozen=True):
    """A request to perform ``UntagResource``."""

    resource_arn: str
    tag_keys: list[str]


class StartExecution(Asked, frozen=True):
    """A request to perform ``StartExecution``."""

    state_machine_arn: str
    name: str | None = None
    input: str = "{}"
    trace_header: str | None = None
    included_data: IncludedData = "ALL_DATA"


class OfExecution(Asked, frozen=True):
    """A request about the execution that it names."""

    execution_arn: str
    included_data: IncludedData = "ALL_DATA"


class ListExecutions(Listing, frozen=True, kw_only=True):
    """A request to perform ``ListExecutions``."""

    state_machine_arn: str | None = None
    status_filter: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"] | None = None
    map_run_arn: str | None = None
    redrive_filter: Literal["REDRIVEN", "NOT_REDRIVEN"] | None = None


class GetHistory(Listing, frozen=True, kw_only=True):
    """A request to perform ``GetHistory``."""

    execution_arn: str
    reverse_order: bool = False
    include_execution_data: bool = True


class StopExecution(Asked, frozen=True):
    """A request to perform ``StopExecution``."""

    execution_arn: str
    error: str | None = None
    cause: str | None = None


class RedriveExecution(Asked, frozen=True):
    """A request to perform ``RedriveExecution``."""

    execution_arn: str
    client_token: str = ""


class ListMapRuns(Listing, frozen=True, kw_only=True):
    """A request to perform ``ListMapRuns``."""

    execution_arn: str


class OfMapRun(Asked, frozen=True):
    """A request about the maprun that it names."""

    map_run_arn: str


class UpdateMapRun(Asked, frozen=True):
    """A request to perform ``UpdateMapRun``."""

    map_run_arn: str
    max_concurrency: int | None = None
    tolerated_failure_percentage: float | None = None
    tolerated_failure_count: int | None = None


class SendTaskSuccess(Asked, frozen=True):
    """A request to perform ``SendTaskSuccess``."""

    task_token: str
    output: str


class SendTaskFailure(Asked, frozen=True):
    """A request to perform ``SendTaskFailure``."""

    task_token: str
    error: str = ""
    cause: str = ""


class SendTaskHeartbeat(Asked, frozen=True):
    """A request to perform ``SendTaskHeartbeat``."""

    task_token: str


class TestState(Asked, frozen=True):
    """Its fields are those of ``holdfast.asl.teststate``."""

    definition: str
    input: str = "{}"
    state_name: str | None = None
    variables: str | None = None
    context: str | None = None
    inspection_level: str = "INFO"
    reveal_secrets: bool = False
    mock: dict[str, Any] | None = None
    state_configuration: dict[str, Any] | None = None
    role_arn: str | None = None
