"""Moving house: everything of one home into a file, and from there into another, while nothing runs on either.

``records``    the file: lines of JSON, with a version in the first and a checksum in the last
``writing``    such a file
``reading``    one, and whether it is whole
``inventory``  everything a home holds, and whether it holds still
``progress``   how far a move is
``export``     from a home into a file
``importing``  from a file into an empty home
``sealing``    everything a home holds, sealed anew where it is
"""

from __future__ import annotations

from holdfast.moving.export import export_home
from holdfast.moving.importing import import_home
from holdfast.moving.progress import Step
from holdfast.moving.records import Counts, Moved
from holdfast.moving.sealing import seal_home

__all__ = ["Counts", "Moved", "Step", "export_home", "import_home", "seal_home"]
