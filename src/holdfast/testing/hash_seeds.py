"""The same replay in other processes, under other hash seeds: sets of texts iterate in another order there.

This finds a body that requests its operations in the order of a plain set, even if the set is so short that the order
is right by chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.errors import ConfigurationError, HoldfastError, NondeterminismError
from holdfast.testing.retraced import History, retrace

if TYPE_CHECKING:
    from holdfast.app import App

RANDOM: Final = "random"
VARIABLE: Final = "PYTHONHASHSEED"
CHILD: Final = "from holdfast.testing.hash_seeds import answer; answer()"
LAST_LINES: Final = 3


class Verdict(Struct, frozen=True):
    """The result of another process: the error's class and its message, if there was one."""

    error: str | None = None
    message: str = ""


def own_seed() -> str:
    """The hash seed of this process, as it was set."""
    return os.environ.get(VARIABLE, RANDOM)


def other_seeds(count: int) -> tuple[int, ...]:
    """Seeds that this process does not have."""
    return tuple([seed for seed in range(1, count + 2) if str(seed) != own_seed()][:count])


def app_named(name: str) -> App:
    """The app called ``module:name``. Raises ``ConfigurationError``."""
    module, _, attribute = name.partition(":")
    try:
        app: App = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"{name!r} cannot be imported: {error}. Write MODULE:APP, for example shop:app for 'app' in shop.py"
        ) from error
    return app


def name_of_app(app: App, function: Callable[..., Any]) -> str | None:
    """The name under which other processes find an app: in the module of one of its functions. ``None`` if it is not
    there.
    """
    module = sys.modules.get(function.__module__)
    if module is None or module.__spec__ is None:  # a script, or created by hand
        return None
    return next((f"{module.__name__}:{name}" for name, value in vars(module).items() if value is app), None)


def replay_elsewhere(name: str, history: History, seeds: Sequence[int]) -> None:
    """Replay in one new process for each seed. Raises ``NondeterminismError``, which names the seed."""
    task = msgspec.json.encode(history)
    with _processes(name, seeds) as processes:
        for process in processes.values():
            assert process.stdin is not None
            process.stdin.write(task)
            process.stdin.close()
            process.stdin = None
        for seed, process in processes.items():
            out, told = process.communicate()
            _judge(seed, name, out, told)


@contextmanager
def _processes(name: str, seeds: Sequence[int]) -> Generator[dict[int, subprocess.Popen[bytes]]]:
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)  # noqa: PTH109 - sys.path holds texts
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for seed in seeds:
            started[seed] = subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-c", CHILD, name],
                env=os.environ | {VARIABLE: str(seed), "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.communicate()


def _judge(seed: int, name: str, out: bytes, told: bytes) -> None:
    where = f"under {VARIABLE}={seed}"
    try:
        verdict = msgspec.json.decode(out, type=Verdict)
    except msgspec.DecodeError:
        last = " ".join(told.decode(errors="replace").splitlines()[-LAST_LINES:])
        raise ConfigurationError(
            f"{name} could not be replayed in another process, {where}: {last}. With hash_seeds=0 it is replayed "
            "here only"
        ) from None
    if verdict.error == NondeterminismError.__name__:
        raise NondeterminismError(f"{where}: {verdict.message}")
    if verdict.error is not None:
        raise ConfigurationError(
            f"{name} is another app in another process, {where}: {verdict.error}: {verdict.message}. With hash_seeds=0 "
            "it is replayed here only"
        )


def answer() -> None:
    """The other process: replay the history from standard input with the named app, and print the verdict."""
    with redirect_stdout(sys.stderr):  # output of the app's modules is not the verdict
        verdict = _verdict(sys.argv[1], msgspec.json.decode(sys.stdin.buffer.read(), type=History))
    sys.stdout.buffer.write(msgspec.json.encode(verdict))


def _verdict(name: str, history: History) -> Verdict:
    try:
        retrace(app_named(name), history)
    except HoldfastError as error:
        return Verdict(type(error).__name__, str(error))
    return Verdict()
