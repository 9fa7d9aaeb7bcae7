"""The options of a function: its code, what it may do, and where it runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.record import PARTITION_PREFIX as ACTORS
from holdfast.backends.aws.routes import MAIN
from holdfast.errors import ConfigurationError
from holdfast.workflows.record import PARTITION_PREFIX as WORKFLOWS

LOG_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""How long logs may be kept ("PutRetentionPolicy", CloudWatch Logs API reference)."""

MOST_POLICIES: Final = 9
"""A role has at most ten managed policies by default, and one is the worker's
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""

MOST_LAYERS: Final = 5
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

WITHOUT_SNAP_START: Final = frozenset({"python3.9", "python3.10", "python3.11"})
"""https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html"""

OF_A_STATEMENT: Final = frozenset({"Action", "Effect", "Resource"})
"""What each statement of a policy for a role needs here; ``NotAction`` and ``NotResource`` allow too much.
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_notaction.html)"""


ROUTED: Final = re.compile(r"[A-Za-z0-9_.-]+")
"""Names that need no quoting in the URL of a home."""


class LocalCode(Struct, frozen=True):
    """A folder or zip file on this machine: ``aws cloudformation package`` uploads it. ``digest`` is of its content."""

    path: str
    digest: str


class UploadedCode(Struct, frozen=True):
    """A zip file in a bucket, under a key that no other code will ever have. CDK may resolve both later."""

    bucket: str
    key: str
    digest: str


class Function(Struct, frozen=True, kw_only=True):
    """The function of the template: it handles wake-ups and ordered messages, sweeps, and answers calls.

    environment       variables, besides ``HOLDFAST_URL``
    policies          ARNs of managed policies for its role, for what its steps do
    statements        statements of IAM for its role, each with ``Effect``, ``Action`` and ``Resource``
    subnets           put it into a VPC, with ``security_groups``. The services that it calls must be reachable there
    layers            ARNs of versions of layers, the last one on top
    snap_start        start new environments from a snapshot of an initialized one; needs Python 3.12 or newer
    tracing           send traces of invocations to X-Ray

    Raises ``ConfigurationError`` for what AWS would refuse.

    >>> ses = {"Effect": "Allow", "Action": "ses:SendEmail", "Resource": "*"}
    >>> Function(code=uploaded_code("s3://mine/shop-17.zip"), statements=[ses]).memory_mb
    512
    """

    code: LocalCode | UploadedCode
    handler: str = "handler.handler"
    runtime: str = "python3.13"
    architecture: Literal["arm64", "x86_64"] = "arm64"
    memory_mb: int = 512
    timeout_seconds: int = 60
    environment: dict[str, str] = {}
    policies: Sequence[str] = ()
    statements: Sequence[dict[str, Any]] = ()
    subnets: Sequence[str] = ()
    security_groups: Sequence[str] = ()
    layers: Sequence[str] = ()
    snap_start: bool = False
    tracing: bool = False
    reserved_concurrency: int | None = None
    log_days: int = 30
    url: Literal["off", "iam", "public"] = "off"

    def __post_init__(self) -> None:
        if self.log_days not in LOG_DAYS:
            days = ", ".join(str(each) for each in LOG_DAYS)
            raise ConfigurationError(f"log_days must be one of {days}, got {self.log_days}")
        if bool(self.subnets) != bool(self.security_groups):
            raise ConfigurationError("a function in a VPC needs subnets and security groups: give both, or neither")
        if self.snap_start and self.runtime in WITHOUT_SNAP_START:
            raise ConfigurationError(f"SnapStart needs Python 3.12 or newer, and the runtime is {self.runtime}")
        for what, given, most in (("policies", self.policies, MOST_POLICIES), ("layers", self.layers, MOST_LAYERS)):
            if len(given) > most:
                raise ConfigurationError(f"a function can have at most {most} {what}, got {len(given)}")
        for statement in self.statements:
            if missing := sorted(OF_A_STATEMENT - statement.keys()):
                raise ConfigurationError(f"a statement of IAM lacks {', '.join(missing)}: {json.dumps(statement)}")


class Routed(Struct, frozen=True, kw_only=True):
    """A further function with the same code, which works on some workflows and actors alone.

    What is not said is as with the main function; environment, policies, statements and layers are in addition to its.

    Raises ``ConfigurationError`` for a function without work.

    >>> Routed(workflows=["render"], memory_mb=3008).places
    ['wf#render']
    """

    workflows: Sequence[str] = ()
    actors: Sequence[str] = ()
    memory_mb: int | None = None
    timeout_seconds: int | None = None
    reserved_concurrency: int | None = None
    environment: dict[str, str] = {}
    policies: Sequence[str] = ()
    statements: Sequence[dict[str, Any]] = ()
    layers: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.places:
            raise ConfigurationError("a further function needs workflows or actors to work on")
        for name in (*self.workflows, *self.actors):
            if not ROUTED.fullmatch(name):
                raise ConfigurationError(
                    f"{name!r} cannot be routed: its name may have letters, digits, _, - and . only"
                )

    @property
    def places(self) -> list[str]:
        """The beginnings of the partitions that it works on."""
        return [*(f"{WORKFLOWS}{each}" for each in self.workflows), *(f"{ACTORS}{each}" for each in self.actors)]

    def whole(self, main: Function) -> Function:
        """The whole function, with what it has from the main one."""
        return replace(
            main,
            memory_mb=main.memory_mb if self.memory_mb is None else self.memory_mb,
            timeout_seconds=main.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds,
            reserved_concurrency=self.reserved_concurrency,
            environment=main.environment | self.environment,
            policies=(*main.policies, *self.policies),
            statements=(*main.statements, *self.statements),
            layers=(*main.layers, *self.layers),
            url="off",
        )


class Existing(Struct, frozen=True, kw_only=True):
    """A function that is created elsewhere: its name, and the ARN of the alias to call, and of another one for sweeps,
    which Lambda should not repeat. CDK may resolve them later.

    Its creator attaches the worker's policy to its role, lets it invoke its own versions and itself recursively
    (``RecursiveLoop``), and sets ``HOLDFAST_URL``. ``DurableFabric`` does all of it.
    """

    name: Any
    alias_arn: Any
    sweep_arn: Any = None
    timeout_seconds: int = 60


def function_id(name: str) -> str:
    """The beginning of the names, in the template, of what belongs to a function.

    >>> function_id("main"), function_id("pdf")
    ('Function', 'FunctionPdf')
    """
    return "Function" if name == MAIN else f"Function{name.title()}"


def local_code(path: Path) -> LocalCode:
    """The code in this folder or zip file, with a digest of its names and contents: new code, new version.

    Raises ``ConfigurationError`` if there is none.
    """
    files = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    if path.is_file():
        files = [path]
    if not files:
        raise ConfigurationError(f"there is no code in {path}: build it first, or correct the path")
    content = [(file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return LocalCode(str(path), digest_of(content))


def uploaded_code(url: str) -> UploadedCode:
    """The code at ``s3://bucket/key``. Its key is used as its digest. Raises ``ConfigurationError``."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise ConfigurationError(f"{url!r} names no object: write s3://bucket/key")
    return UploadedCode(bucket, key, digest_of(url))


def digest_of(value: Any) -> str:
    """Forty bits of the digest of the value as JSON: enough to distinguish versions of one function."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]
