"""A state machine as a plain workflow in Python: code for what maps, and a remark for what does not."""

from __future__ import annotations

from holdfast.asl.topython.module import Converted, to_python
from holdfast.asl.topython.parts import Remark

__all__ = ["Converted", "Remark", "to_python"]
