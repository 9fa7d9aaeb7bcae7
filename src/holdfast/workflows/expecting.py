"""What type a body reads the next signal of a name as: found by a replay that only looks, as queries are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import UnknownName
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import load
from holdfast.workflows.record import decode_record, describe_partition, pinned_to
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def expected_type(runtime: Runtime, partition: str, name: str) -> Any:
    """The type of ``hf.signal(name, type)`` for which the body waits; the one that waits longest, if several do.

    Raises ``UnknownName``, which says why, if the code is not here, does not fit, or waits for no such signal now.
    Raises ``NotFound`` if there is no such execution.
    """
    record = decode_record((await head_of(runtime, partition)).body)
    workflow = runtime.registry.workflows.get(record.workflow)
    if workflow is None:
        raise UnknownName(f"the code of workflow {record.workflow!r} is not in this process")
    if workflow.is_pinned and not workflow.is_version(pinned_to(record)):
        raise UnknownName("it runs other code than that in this process")
    recorded = await load(runtime.home.store, partition)
    with looked_into(recorded, recorded.entries, workflow, runtime.registry.errors.rebuild) as activation:
        activation.begin()
        if activation.broken is not None:
            raise UnknownName(f"the code in this process does not fit what is recorded: {activation.broken}")
        types = activation.mailboxes.of(name).types
    if not types:
        raise UnknownName(f"{describe_partition(partition)} waits for no signal {name!r} now")
    return types[0]
