"""HTTP: an app for callers that speak it, and what Holdfast does for web applications. It needs no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.http.idempotency import IdempotentRequests

__all__ = ["IdempotentRequests"]


def __getattr__(name: str) -> Any:
    if name == "IdempotentRequests":
        from holdfast.http.idempotency import IdempotentRequests  # noqa: PLC0415 - an app that serves nothing needs none

        return IdempotentRequests
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
