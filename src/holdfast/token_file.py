"""The token of a private database: who can read the file beside the database may use its API on this machine.

The file holds a header as it is sent, so that ``curl -H @shop.db-token`` sends it, and no list of processes shows it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast import ids
from holdfast.errors import ConfigurationError
from holdfast.files import give_name, new_file, open_file
from holdfast.ownership import complaint_of

HEADER: Final = "Authorization: Bearer "
LONGEST_BYTES: Final = 1024
SHORTEST_CHARACTERS: Final = 32
TRIES: Final = 10
"""How often something may remove the file between its making and its reading."""


def token_file(database: str) -> Path:
    """Where the token of a database is."""
    return Path(f"{database}-token")


def token_beside(database: str) -> str:
    """The token of a database; drawn and written down if there is none yet. Removing the file makes it void.

    Raises ``ConfigurationError`` that names the file if another user could have put it there, or can read it.
    """
    path = token_file(database)
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            return _read(path)
        _make(path)
    raise ConfigurationError(f"{path} keeps disappearing; does something clean up there?")


def _read(path: Path) -> str:
    if complaint := complaint_of(path):
        raise ConfigurationError(complaint)
    try:
        with open_file(path) as file:
            found = os.fstat(file.fileno())
            if complaint := complaint_of(path, found):
                raise ConfigurationError(complaint)
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise ConfigurationError(f"{path} is a secret, and others can read it. Remove it; it is made anew")
            text = file.read(LONGEST_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    token = text.strip().removeprefix(HEADER)
    if not text.startswith(HEADER) or len(token) < SHORTEST_CHARACTERS or not token.isalnum():
        raise ConfigurationError(f"{path} holds no token. Remove it; it is made anew")
    return token


def _make(path: Path) -> None:
    """Nobody sees it before it is whole, and of several that are made at once one stays."""
    part = path.with_name(f"{path.name}.{ids.new_id()[:12]}")
    try:
        with new_file(part) as file:
            try:
                file.write(f"{HEADER}{ids.new_secret()}\n".encode())
                file.flush()
                with suppress(FileExistsError):
                    give_name(part, path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be made: {error.strerror or error}") from error
