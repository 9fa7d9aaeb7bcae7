"""Moving house: all of one home into a file, and from there into another, while nothing runs on either.

- ``export_home`` writes a home into a file: lines of JSON, with a version in the first and a checksum in the last.
- ``import_home`` writes such a file into an empty home, and then compares the two.
- ``seal_home`` seals all items of a home again, in place.

Each returns what was ``Moved``, and reports a ``Step`` at a time.
"""

from __future__ import annotations

from holdfast.moving.export import export_home
from holdfast.moving.importing import import_home
from holdfast.moving.progress import Step
from holdfast.moving.records import Counts, Moved
from holdfast.moving.sealing import seal_home

__all__ = ["Counts", "Moved", "Step", "export_home", "import_home", "seal_home"]
