"""Moving house: all of one home into a file, and from there into another, while nothing runs on either.

``records``    the file: lines of JSON, with a version in the first and a checksum in the last
``writing``    such a file
``reading``    such a file, and the check that it is complete
``inventory``  all items of a home, and whether it is at rest
``progress``   the progress of a move
``export``     from a home into a file
``importing``  from a file into an empty home
``sealing``    all items of a home, sealed again in place
"""

from __future__ import annotations

from holdfast.moving.export import export_home
from holdfast.moving.importing import import_home
from holdfast.moving.progress import Step
from holdfast.moving.records import Counts, Moved
from holdfast.moving.sealing import seal_home

__all__ = ["Counts", "Moved", "Step", "export_home", "import_home", "seal_home"]
