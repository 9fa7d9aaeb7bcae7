"""Where requests go, and with whose credentials, as the environment says.

Most functions and containers have all of it in a few variables. Then botocore is not needed, nor loaded. Whatever else
there is (profiles, roles, single sign-on, FIPS, …) botocore finds out, and it renews credentials that expire.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.backends.aws.connection import client_of, new_session
from holdfast.backends.aws.direct.signing import Keys

FOR_BOTOCORE: Final = frozenset(
    {
        "AWS_ACCOUNT_ID",
        "AWS_CONFIG_FILE",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_DEFAULT_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_DYNAMODB",
        "AWS_ENDPOINT_URL_SQS",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
    }
)
"""Variables that may mean other credentials, another region or another endpoint ("Environment variables list", AWS SDKs
and tools reference guide: https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html)."""

FILES: Final = ("~/.aws/config", "~/.aws/credentials")
REGION: Final = re.compile(r"(af|ap|ca|eu|il|me|mx|sa|us)-[a-z]+-[0-9]+")
"""Regions whose endpoints end in ``amazonaws.com`` ("DynamoDB endpoints and quotas" and "SQS endpoints and quotas", AWS
general reference: https://docs.aws.amazon.com/general/latest/gr/ddb.html and …/sqs-service.html)."""

TIDY: Final = re.compile(r"[!-~]+")
"""The text of a header: no space, no end of a line."""

PORTS: Final = {"http": 80, "https": 443}


class Place(Struct, frozen=True):
    """A region, and the address of the service there. ``authorities`` is a file of certificates, for ``https``."""

    region: str
    scheme: str
    host: str
    port: int
    authorities: str | None = None

    @property
    def header(self) -> str:
        """The value of ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


Found = tuple[Place, Any]
"""A place, and ``Keys`` or the credentials of botocore for it."""


def look_around(
    region: str | None, endpoint: str | None, service: str, environ: Mapping[str, str] = os.environ
) -> Found | None:
    """What the environment says if it says it plainly; ``None`` if botocore should be asked."""
    region = region or environ.get("AWS_DEFAULT_REGION", "")
    keys = Keys(
        environ.get("AWS_ACCESS_KEY_ID", ""),
        environ.get("AWS_SECRET_ACCESS_KEY", ""),
        environ.get("AWS_SESSION_TOKEN") or environ.get("AWS_SECURITY_TOKEN") or None,
    )
    if FOR_BOTOCORE & environ.keys() or not _is_tidy(keys) or any(map(os.path.exists, map(os.path.expanduser, FILES))):
        return None
    if endpoint is None and REGION.fullmatch(region):
        endpoint = f"https://{service}.{region}.amazonaws.com"
    authorities = environ.get("AWS_CA_BUNDLE") or environ.get("REQUESTS_CA_BUNDLE")
    place = None if endpoint is None or not TIDY.fullmatch(region) else place_of(region, endpoint, authorities)
    return None if place is None else (place, keys)


def ask_botocore(region: str | None, endpoint: str | None, service: str) -> Found | None:
    """What botocore finds; ``None`` if it does something for the request that is not done here. It may read files, and
    ask other services. Raises what botocore raises, of credentials or a region that is missing.
    """
    session = new_session()
    client = client_of(session, region, endpoint, service)
    try:
        meta = client.meta
        if meta.config.signature_version != "v4":
            return None
        authorities = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
        place = place_of(meta.region_name, meta.endpoint_url, authorities)
    finally:
        client.close()
    credentials = session.get_credentials()
    if credentials is None or place is None:
        return None
    return place, credentials


def place_of(region: str, endpoint: str, authorities: str | None) -> Place | None:
    """The place with this address; ``None`` if there is a proxy in front of it, or the address is of another form."""
    parts = urlsplit(endpoint)
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc or parts.path.strip("/") or parts.query:
        return None
    if not TIDY.fullmatch(parts.netloc) or is_proxied(parts.scheme, parts.netloc):
        return None
    return Place(region, parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme], authorities or None)


def is_proxied(scheme: str, host: str) -> bool:
    """Whether requests go through a proxy, by the rules of ``urllib``, which are botocore's."""
    if not any(name.lower() == f"{scheme}_proxy" for name in os.environ) and sys.platform not in {"darwin", "win32"}:
        return False
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - it takes long to load, and is rarely needed

    return scheme in getproxies() and not proxy_bypass(host)


def _is_tidy(keys: Keys) -> bool:
    return all(TIDY.fullmatch(each) for each in (keys.id, keys.secret, keys.token or "-"))
