"""Runs the blocks of one page (see test_code_blocks.py), given as JSON on standard input, in the current folder.

Each block is a real file with its lines at the page's own numbers, so that tracebacks point into the page and
``inspect.getsource`` works. Whoever starts this process ends its process group, and with it what runs in background.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

PORT_OF_THE_PAGES = "8080"


class Wrong(Exception):
    """A block did something else than the page says."""


def main() -> int:
    job = json.load(sys.stdin)
    page = ModuleType("__main__")
    sys.modules["__main__"] = page
    sys.path.insert(0, str(Path.cwd()))
    with tempfile.TemporaryDirectory() as sources:
        try:
            for block in job["blocks"]:
                place = f"{job['page']}:{block['line']}"
                if block["language"] == "console":
                    run_console(place, block)
                else:
                    run_python(place, block, page, Path(sources))
        except Wrong as wrong:
            print(wrong)  # noqa: T201 - the test shows what this process prints
            return 1
    return 0


# ── Python ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_python(place: str, block: dict[str, Any], page: ModuleType, sources: Path) -> None:
    expected = block["options"].get("raises")
    try:
        if "file" in block["options"]:
            import_file(block, page)
        else:
            execute(place, block, page, sources)
    except BaseException as error:
        if expected in {each.__name__ for each in type(error).__mro__}:
            return
        raise Wrong(f"{place}\n{traceback.format_exc()}") from None
    if expected:
        raise Wrong(f"{place} raised nothing, but should have raised {expected}")


def import_file(block: dict[str, Any], page: ModuleType) -> None:
    path = Path(block["options"]["file"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block["code"])
    if path.suffix != ".py":
        return
    name = ".".join(path.with_suffix("").parts)
    forget_files_of(Path.cwd())
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    vars(page).update({key: value for key, value in vars(module).items() if not key.startswith("__")})


def forget_files_of(folder: Path) -> None:
    """A file that the page writes again is imported with all that it imports, as in a process that starts."""
    for name, module in list(sys.modules.items()):
        if folder in Path(getattr(module, "__file__", None) or "").parents:
            del sys.modules[name]


def execute(place: str, block: dict[str, Any], page: ModuleType, sources: Path) -> None:
    path = sources / re.sub(r"[/:]", "-", place) / place.partition(":")[0]
    path.parent.mkdir(parents=True)
    text = "\n" * (block["line"] - 1) + block["code"]
    path.write_text(text)
    page.__file__ = str(path)
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(page))  # noqa: S102 - it is our own page


# ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_console(place: str, block: dict[str, Any]) -> None:
    commands = commands_of(place, block["code"].replace(PORT_OF_THE_PAGES, str(free_port())))
    for number, (command, expected) in enumerate(commands, start=1):
        if command.endswith("&"):
            subprocess.Popen(["bash", "-c", f"{command} wait"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            continue
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.run(["bash", "-c", command], stdout=output, stderr=subprocess.STDOUT, check=False)
            output.seek(0)
            said = output.read()
        status = int(block["options"].get("exit", 0)) if number == len(commands) else 0
        if process.returncode != status:
            raise Wrong(f"{place} `{command}` ended with {process.returncode}, not {status}:\n{said}")
        if missing := first_missing(expected, said.splitlines()):
            raise Wrong(f"{place} `{command}` did not print {missing!r} (or not in this order):\n{said}")


@functools.cache
def free_port() -> int:
    """One port for the whole page: pages that serve something run beside each other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def commands_of(place: str, text: str) -> list[tuple[str, list[str]]]:
    commands: list[tuple[str, list[str]]] = []
    continued = False
    for line in text.splitlines():
        if continued or line.startswith("$ "):
            if continued:
                command, expected = commands.pop()
                commands.append((f"{command}\n{line}", expected))
            else:
                commands.append((line.removeprefix("$ ").rstrip(), []))
            continued = line.endswith("\\")
        elif commands:
            commands[-1][1].append(line)
        else:
            raise Wrong(f"{place} a console block begins with `$ ` and a command, not with {line!r}")
    return commands


def first_missing(expected: list[str], said: list[str]) -> str | None:
    """The first expected line that is not in what was said after the lines before it."""
    rest = iter(said)
    for line in filter(str.strip, expected):
        pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
        if line.strip() != "..." and not any(re.fullmatch(pattern, each.strip()) for each in rest):
            return line
    return None


if __name__ == "__main__":
    sys.exit(main())
