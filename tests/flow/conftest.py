"""The worlds that tests of queues run in."""

from __future__ import annotations

from tests.worlds import *
