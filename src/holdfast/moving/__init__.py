"""Moving house: everything of one home into a file, and from there into another, while nothing runs on either.

``records``    the file: lines of JSON, with a version in the first and a checksum in the last
``inventory``  everything a home holds, and whether it holds still
``progress``   how far a move is
``export``     from a home into a file
``importing``  from a file into an empty home
"""

from __future__ import annotations

from holdfast.moving.export import export_home
from holdfast.moving.importing import import_home
from holdfast.moving.progress import Step
from holdfast.moving.records import Counts, Moved

__all__ = ["Counts", "Moved", "Step", "export_home", "import_home"]
