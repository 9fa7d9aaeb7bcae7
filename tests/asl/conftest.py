"""The worlds that tests of state machines run in."""

from __future__ import annotations

from tests.worlds import *
