"""Whose certificates are trusted: the same as with botocore."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast.errors import ConfigurationError

BUNDLES: Final = ("certifi", "botocore")
"""Packages with a file of certificates. The first that is installed counts; without one, the system's file does."""

FILE: Final = "cacert.pem"


def trusted(authorities: str | None) -> ssl.SSLContext:
    """A context that checks names and certificates, by this file or folder of authorities. Raises
    ``ConfigurationError`` if it cannot be read.
    """
    place = authorities or _bundled()
    try:
        if place is None:
            return ssl.create_default_context()
        if Path(place).is_dir():
            return ssl.create_default_context(capath=place)
        return ssl.create_default_context(cafile=place)
    except OSError as error:
        raise ConfigurationError(
            f"the certificates in {place!r} cannot be read ({error}): see AWS_CA_BUNDLE, REQUESTS_CA_BUNDLE and "
            "ca_bundle in the profile"
        ) from error


def _bundled() -> str | None:
    for package in BUNDLES:
        found = find_spec(package)
        for folder in [] if found is None else found.submodule_search_locations or []:
            if (file := Path(folder) / FILE).exists():
                return str(file)
    return None
