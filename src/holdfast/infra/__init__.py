"""The infrastructure of a home on AWS: one description, as a template of CloudFormation and as a construct of CDK.

``template`` returns plain data and needs nothing. ``DurableFabric`` is the same for CDK; it is loaded when it is asked
for, and needs the extra ``cdk``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.infra.function_options import (
    Existing,
    Function,
    LocalCode,
    Routed,
    UploadedCode,
    local_code,
    uploaded_code,
)
from holdfast.infra.options import EventRule, Fabric
from holdfast.infra.template import template

if TYPE_CHECKING:
    from holdfast.infra.construct import DurableFabric

__all__ = [
    "DurableFabric",
    "EventRule",
    "Existing",
    "Fabric",
    "Function",
    "LocalCode",
    "Routed",
    "UploadedCode",
    "local_code",
    "template",
    "uploaded_code",
]


def __getattr__(name: str) -> Any:
    if name == "DurableFabric":
        from holdfast.infra.construct import DurableFabric  # noqa: PLC0415 - CDK is large, and only this needs it

        return DurableFabric
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
