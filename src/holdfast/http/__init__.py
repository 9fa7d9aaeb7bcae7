"""HTTP: the API of an app, and middleware for web applications. It needs no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.http.idempotency import IdempotentRequests, anybody

__all__ = ["IdempotentRequests", "anybody"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from holdfast.http import idempotency  # noqa: PLC0415 - an app that serves nothing needs none

        return getattr(idempotency, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
