"""Workers in processes of their own, begun by ``python WORKER FILE LEDGER``, and a client of theirs in this one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import holdfast as hf


def spawn(worker: Path, file: Path, ledger: Path) -> subprocess.Popen[bytes]:
    """A worker in a process of its own."""
    return subprocess.Popen([sys.executable, str(worker), str(file), str(ledger)], env=os.environ)


def client(worker: Path, file: Path, ledger: Path) -> hf.App:
    """The app of the workers, in this process."""
    before, sys.argv = sys.argv, [str(worker), str(file), str(ledger)]
    try:
        spec = importlib.util.spec_from_file_location(worker.stem, worker)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        app: hf.App = module.app
        return app
    finally:
        sys.argv = before
