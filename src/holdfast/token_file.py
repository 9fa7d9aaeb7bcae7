"""The token of a private database: a user that can read the file next to the database may use its API on this machine.

The file contains a complete header, so that ``curl -H @shop.db-token`` sends it, and no list of processes shows it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast import ids
from holdfast.errors import ConfigurationError
from holdfast.file_owner import complaint_of
from holdfast.files import give_name, new_file, open_file

HEADER: Final = "Authorization: Bearer "
LONGEST_BYTES: Final = 1024
SHORTEST_CHARACTERS: Final = 32
TRIES: Final = 10
"""How often the file may be removed between its creation and its reading."""


def token_file(database: str) -> Path:
    """The path of the token of a database."""
    return Path(f"{database}-token")


def token_of_database(database: str) -> str:
    """The token of a database; drawn and stored if there is none yet. Removing the file makes it invalid.

    Raises ``ConfigurationError`` that names the file if another user could have put it there, or can read it.
    """
    path = token_file(database)
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            return _read(path)
        _make(path)
    raise ConfigurationError(f"{path} is removed again and again; stop what cleans up there")


def _read(path: Path) -> str:
    if complaint := complaint_of(path):
        raise ConfigurationError(complaint)
    try:
        with open_file(path) as file:
            found = os.fstat(file.fileno())
            if complaint := complaint_of(path, found):
                raise ConfigurationError(complaint)
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise ConfigurationError(f"{path} is a secret, and others can read it. Remove it; it is created again")
            text = file.read(LONGEST_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    token = text.strip().removeprefix(HEADER)
    if not text.startswith(HEADER) or len(token) < SHORTEST_CHARACTERS or not token.isalnum():
        raise ConfigurationError(f"{path} holds no token. Remove it; it is created again")
    return token


def _make(path: Path) -> None:
    """It is invisible before it is complete, and of several that are created at once one stays."""
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
