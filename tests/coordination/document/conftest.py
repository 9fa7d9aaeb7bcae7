"""The worlds that tests of documents run in."""

from tests.worlds import *
