"""The actions: what each reads, which right it needs, and what it does.

Actions that change or end what others have made are kept in the audit, as control commands are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.commands.right import Right
from holdfast.http.states import (
    activities,
    aliases,
    asked,
    definitions,
    executions,
    history,
    machines,
    map_runs,
    starting,
    tags,
    tasks,
    versions,
)
from holdfast.http.states.asked import Asked
from holdfast.http.states.service import Answer, Service

Perform = Callable[[Service, Any], Awaitable[Answer]]


class Action(Struct, frozen=True):
    """One action. ``waits``: its answer waits for work."""

    asked: type[Asked]
    right: Right
    perform: Perform
    waits: bool = False

    @property
    def audited(self) -> bool:
        """Whether it leaves a row in the audit."""
        return self.right is Right.CONTROL


_READ, _WRITE, _CONTROL = Right.READ, Right.WRITE, Right.CONTROL

ACTIONS: Final[dict[str, Action]] = {
    "CreateStateMachine": Action(asked.CreateStateMachine, _CONTROL, machines.create),
    "UpdateStateMachine": Action(asked.UpdateStateMachine, _CONTROL, machines.update),
    "DeleteStateMachine": Action(asked.OfMachine, _CONTROL, machines.delete),
    "DescribeStateMachine": Action(asked.OfMachine, _READ, machines.describe),
    "ListStateMachines": Action(asked.Listing, _READ, machines.list_all),
    "PublishStateMachineVersion": Action(asked.PublishVersion, _CONTROL, versions.publish_version),
    "DeleteStateMachineVersion": Action(asked.OfVersion, _CONTROL, versions.delete_version),
    "ListStateMachineVersions": Action(asked.ListOfMachine, _READ, versions.list_versions),
    "CreateStateMachineAlias": Action(asked.CreateAlias, _CONTROL, aliases.create),
    "UpdateStateMachineAlias": Action(asked.UpdateAlias, _CONTROL, aliases.update),
    "DeleteStateMachineAlias": Action(asked.OfAlias, _CONTROL, aliases.delete),
    "DescribeStateMachineAlias": Action(asked.OfAlias, _READ, aliases.describe),
    "ListStateMachineAliases": Action(asked.ListOfMachine, _READ, aliases.list_aliases),
    "StartExecution": Action(asked.StartExecution, _WRITE, starting.start),
    "StartSyncExecution": Action(asked.StartExecution, _WRITE, starting.start_sync, waits=True),
    "DescribeExecution": Action(asked.OfExecution, _READ, executions.describe),
    "DescribeStateMachineForExecution": Action(asked.OfExecution, _READ, executions.describe_machine),
    "ListExecutions": Action(asked.ListExecutions, _READ, executions.list_all),
    "GetExecutionHistory": Action(asked.GetHistory, _READ, history.get),
    "StopExecution": Action(asked.StopExecution, _CONTROL, executions.stop),
    "RedriveExecution": Action(asked.RedriveExecution, _CONTROL, executions.redrive),
    "DescribeMapRun": Action(asked.OfMapRun, _READ, map_runs.describe),
    "ListMapRuns": Action(asked.ListMapRuns, _READ, map_runs.list_all),
    "UpdateMapRun": Action(asked.UpdateMapRun, _CONTROL, map_runs.update),
    "SendTaskSuccess": Action(asked.SendTaskSuccess, _WRITE, tasks.succeed),
    "SendTaskFailure": Action(asked.SendTaskFailure, _WRITE, tasks.fail),
    "SendTaskHeartbeat": Action(asked.SendTaskHeartbeat, _WRITE, tasks.beat),
    "GetActivityTask": Action(asked.GetActivityTask, _WRITE, tasks.poll, waits=True),
    "ValidateStateMachineDefinition": Action(asked.ValidateDefinition, _READ, definitions.validated),
    "TestState": Action(asked.TestState, _READ, definitions.tested),
    "CreateActivity": Action(asked.CreateActivity, _CONTROL, activities.create),
    "DeleteActivity": Action(asked.OfActivity, _CONTROL, activities.delete),
    "DescribeActivity": Action(asked.OfActivity, _READ, activities.describe),
    "ListActivities": Action(asked.Listing, _READ, activities.list_all),
    "TagResource": Action(asked.TagResource, _CONTROL, tags.tag),
    "UntagResource": Action(asked.UntagResource, _CONTROL, tags.untag),
    "ListTagsForResource": Action(asked.OfResource, _READ, tags.list_tags),
}
