"""The worlds that tests of actors run in."""

from tests.worlds import *
