"""Room in this process for an entity that begins here by the very write that creates or claims it.

Until that write is answered the entity counts as running, so that no other one gets its room; and nothing else takes up
a lease of ours that looks abandoned (``Creations``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.host import serving

if TYPE_CHECKING:
    from holdfast.kernel.host import Host


def keep_room(partition: str, host: Host) -> bool:
    """Keep room for it until ``leave_room``; false if there is none, or no code for it here."""
    if serving(host, partition) is None or not host.has_room:
        return False
    host.creations.expect(partition)
    host.creations.kept.add(partition)
    return True


def leave_room(partition: str, host: Host) -> None:
    """The write is answered, or given up: it runs here, or does not need the room."""
    if host.creations.over(partition):
        host.check(partition)
