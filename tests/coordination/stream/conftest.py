"""The worlds that tests of streams run in."""

from tests.worlds import *
