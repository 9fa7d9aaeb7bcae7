"""Whether a process is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from holdfast.process_state import is_stopped, pid_of

LINUX = sys.platform == "linux"


@pytest.mark.skipif(not LINUX, reason="other systems have no /proc")
def test_a_stopped_process_is_known_until_it_continues():
    with subprocess.Popen(["sleep", "600"]) as process:
        owner = f"{process.pid}-3e7957e2-846af426296a"
        assert not is_stopped(owner)
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        assert is_stopped(owner)
        process.send_signal(signal.SIGCONT)
        assert os.WIFCONTINUED(os.waitpid(process.pid, os.WCONTINUED)[1])
        assert not is_stopped(owner)
        process.kill()
        process.wait()
        assert not is_stopped(owner)


@pytest.mark.parametrize("owner", ["", "elsewhere-1", "../self-1", "²-1"])
def test_what_names_no_process_is_not_stopped(owner):
    assert not is_stopped(owner)
    assert pid_of(owner) == owner.partition("-")[0]
