"""The worlds that tests of moving house run in."""

from tests.worlds import *
