"""The worlds that tests of messaging run in."""

from tests.worlds import *
