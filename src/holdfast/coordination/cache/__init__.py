"""Caches: a copy in this process, a copy that processes share, and the source behind both."""

from __future__ import annotations

from holdfast.coordination.cache.read_through import Loaded, ReadThrough, Rules

__all__ = ["Loaded", "ReadThrough", "Rules"]
