"""The worlds that tests of workflows run in."""

from tests.worlds import *
