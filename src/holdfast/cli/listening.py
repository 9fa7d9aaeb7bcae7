"""Listening for HTTP: the socket, and the callers that are known by their tokens."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

import click

from holdfast.cli.values import usable
from holdfast.errors import ConfigurationError
from holdfast.file_owner import complaint_of, complaint_of_links
from holdfast.files import open_file
from holdfast.http.authentication import BearerTokens
from holdfast.http.network import is_loopback_host

TOKENS_VARIABLE: Final = "HOLDFAST_TOKENS"
BACKLOG: Final = 2048

tokens_option: Final = click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The allowed callers, one per line: name token [read,write,control,inspect] [tenant=PREFIX]; "
    f"or in ${TOKENS_VARIABLE}.",
)


def callers_of(host: str, tokens: Path | None, *, signatures: bool = False) -> BearerTokens | None:
    """The callers that are known by tokens, and by ``signatures`` made with them; ``None`` for this machine's user
    alone. Raises ``ConfigurationError`` if other machines can reach ``host`` and there are none.
    """
    text = os.environ.get(TOKENS_VARIABLE, "")
    if tokens is not None:
        text = _read_tokens(tokens)
    if text.strip() or tokens is not None:
        return BearerTokens.read(text, signatures=signatures)
    if not is_loopback_host(f"[{host}]" if ":" in host else host):
        raise ConfigurationError(
            f"{host} can be reached from other machines, so callers must be known: give --tokens FILE or "
            f"${TOKENS_VARIABLE}, with a line for each caller: name token (make one with: openssl rand -hex 32)"
        )
    return None


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ``ConfigurationError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def url_of(listener: socket.socket) -> str:
    """The URL of what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _read_tokens(path: Path) -> str:
    place = path.resolve()
    if complaint := complaint_of_links(path) or complaint_of(place):
        raise ConfigurationError(complaint)
    with usable(path, "read"), open_file(place) as file:
        if complaint := complaint_of(place, os.fstat(file.fileno())):
            raise ConfigurationError(complaint)
        return file.read().decode("utf-8")
