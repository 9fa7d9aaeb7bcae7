"""The `eventsourcing` library's own cases for recorders, which it ships for whoever writes one, on our streams."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from uuid import UUID

import pytest
from eventsourcing.tests.persistence import (
    AggregateRecorderTestCase,
    ApplicationRecorderTestCase,
    NonInterleavingNotificationIDsBaseCase,
    ProcessRecorderTestCase,
    TrackingRecorderTestCase,
)
from tests.coordination.stream.recorder import (
    StreamAggregateRecorder,
    StreamApplicationRecorder,
    StreamProcessRecorder,
)

import holdfast as hf

pytestmark = pytest.mark.slow


class OnSqlite:
    """Each case gets an app on a file of its own, behind the sync bridge."""

    def make(self, recorder):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        app = hf.App("recorder", home=f"sqlite:///{Path(folder.name) / 'events.db'}")
        run = app.sync()
        run.__enter__()
        self.addCleanup(run.__exit__, None, None, None)
        return recorder(run, app, new_id=UUID)


class OnMemory:
    """Each case gets an app in memory, behind the sync bridge."""

    def make(self, recorder):
        app = hf.App("recorder", home="memory://")
        run = app.sync()
        run.__enter__()
        self.addCleanup(run.__exit__, None, None, None)
        return recorder(run, app, new_id=UUID)


class TestAggregateRecorder(OnSqlite, AggregateRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamAggregateRecorder)


class TestApplicationRecorder(OnSqlite, ApplicationRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamApplicationRecorder)


class TestNonInterleavingNotificationIds(OnSqlite, NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self):
        return self.make(StreamApplicationRecorder)


class TestProcessRecorder(OnSqlite, ProcessRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamProcessRecorder)


class TestTrackingRecorder(OnSqlite, TrackingRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamProcessRecorder)


class TestAggregateRecorderInMemory(OnMemory, AggregateRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamAggregateRecorder)


class TestApplicationRecorderInMemory(OnMemory, ApplicationRecorderTestCase):
    def create_recorder(self):
        return self.make(StreamApplicationRecorder)


def test_all_of_the_library_s_cases_are_run():
    cases = unittest.TestLoader()
    ours = [each for each in globals().values() if isinstance(each, type) and issubclass(each, unittest.TestCase)]
    run = {each for each in ours if each.__name__.startswith("Test")}
    assert sum(len(cases.getTestCaseNames(each)) for each in run) >= 19
