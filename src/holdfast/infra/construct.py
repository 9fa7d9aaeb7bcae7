"""The template as a construct of AWS CDK: resource for resource the same, so that the two cannot drift apart.

It needs the extra ``cdk``, whose types are not checked: nothing else in Holdfast depends on it.
"""

# aws-cdk-lib is large and may be absent where this is checked.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUntypedBaseClass=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from typing import Any, Final, cast

from holdfast.backends.aws.names import LIVE, SWEEP
from holdfast.errors import ConfigurationError
from holdfast.infra.function import home_url
from holdfast.infra.function_options import Existing, Function, UploadedCode
from holdfast.infra.options import Fabric
from holdfast.infra.template import resources

try:
    from aws_cdk import (
        CfnDeletionPolicy,
        CfnResource,
        Duration,
        RemovalPolicy,
        Stack,
        Token,
        aws_iam,
        aws_lambda,
        aws_s3_assets,
    )
    from constructs import Construct
except ImportError:
    raise ConfigurationError("DurableFabric needs AWS CDK: pip install '.[cdk]' in a checkout of Holdfast") from None

LAMBDAS_OWN_TIMEOUT_SECONDS: Final = 3
"""Lambda's default for a function."""


POLICIES: Final = {
    "Delete": CfnDeletionPolicy.DELETE,
    "Retain": CfnDeletionPolicy.RETAIN,
    "RetainExceptOnCreate": CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE,
}


class DurableFabric(Construct):
    """Everything that a home on AWS needs, in one line.

        DurableFabric(stack, "Shop", prefix="shop", code="build", timeout_seconds=30)
        DurableFabric(stack, "Shop", prefix="shop", function=my_function)

    code         a folder or zip file, from which the construct makes a function
    function     or a function of yours: it gets the worker's policy, ``HOLDFAST_URL``, the alias ``live``, and may
                 call its own versions
    bucket, key, alarm_topic  yours, in place of a new bucket, of AWS's own keys, and of no notice
    options      those of ``holdfast.infra.Fabric`` and, with ``code``, of ``holdfast.infra.Function``

    ``resources`` has each resource by its name in the template; ``home_url`` is what ``HOLDFAST_URL`` says. Raises
    ``ConfigurationError``.
    """

    def __init__(
        self,
        scope: Any,
        id: str,
        *,
        prefix: str,
        code: str | None = None,
        function: Any = None,
        bucket: Any = None,
        key: Any = None,
        alarm_topic: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, id)
        if code is not None and function is not None:
            raise ConfigurationError("give either code, from which a function is made, or a function")
        of_function = {name: options.pop(name) for name in Function.__struct_fields__ if name in options}
        if of_function and code is None:
            raise ConfigurationError(f"{', '.join(of_function)}: set it on your own function; leave it out here")
        self.resources: dict[str, Any] = {}
        self.fabric = Fabric(
            prefix=prefix,
            function=self._existing(function) if code is None else self._made(code, of_function),
            own_bucket=None if bucket is None else bucket.bucket_name,
            key_arn=None if key is None else key.key_arn,
            alarm_topic_arn=None if alarm_topic is None else alarm_topic.topic_arn,
            **options,
        )
        self._described = resources(self.fabric, Stack.of(self).resolve)
        for name in self._described:
            self._make(name)
        self.home_url: str = Token.as_string(self._translated(home_url(self.fabric)))
        if function is not None:
            self._employ(function, "WorkerPolicy")
            self._let_call_itself(function)

    def add_client(self, function: Any) -> None:
        """Let another function start, call, send and signal, and give it the home in ``HOLDFAST_URL``."""
        self._employ(function, "ClientPolicy")

    def add_reader(self, role: Any) -> None:
        """Let a role read, and change nothing."""
        role.add_managed_policy(self._policy("ReaderPolicy", role))

    # ── The function ────────────────────────────────────────────────────────────────────────────────────────────────

    def _made(self, path: str, options: dict[str, Any]) -> Function:
        asset = aws_s3_assets.Asset(self, "Code", path=path)
        return Function(code=UploadedCode(asset.s3_bucket_name, asset.s3_object_key, asset.asset_hash), **options)

    def _existing(self, function: Any) -> Existing | None:
        if function is None:
            return None
        version = function.current_version
        version.apply_removal_policy(RemovalPolicy.RETAIN)
        alias = aws_lambda.Alias(self, "Live", alias_name=LIVE, version=version)
        once = {"retry_attempts": 0, "max_event_age": Duration.seconds(60)}
        sweeping = aws_lambda.Alias(self, "Sweep", alias_name=SWEEP, version=version, **once)
        seconds = LAMBDAS_OWN_TIMEOUT_SECONDS if function.timeout is None else int(function.timeout.to_seconds())
        arns = {"alias_arn": alias.function_arn, "sweep_arn": sweeping.function_arn}
        return Existing(name=function.function_name, timeout_seconds=seconds, **arns)

    def _employ(self, function: Any, policy: str) -> None:
        function.role.add_managed_policy(self._policy(policy, function))
        function.add_environment("HOLDFAST_URL", self.home_url)

    def _let_call_itself(self, function: Any) -> None:
        """Its old versions, for the executions that are pinned to them; and recursive calls: it wakes itself."""
        calls = aws_iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[f"{function.function_arn}:*"])
        # Not in the role's own policy: the function comes after that one, and this one after the function.
        aws_iam.Policy(self, "CallVersions", roles=[function.role], statements=[calls])
        function.node.default_child.add_property_override("RecursiveLoop", "Allow")

    def _policy(self, name: str, whose: Any) -> Any:
        return aws_iam.ManagedPolicy.from_managed_policy_arn(
            self, f"{name}Of{whose.node.addr}", self.resources[name].ref
        )

    # ── The resources ───────────────────────────────────────────────────────────────────────────────────────────────

    def _make(self, name: str) -> Any:
        """The resource of this name, created after those to which it refers."""
        if name not in self.resources:
            described = self._described[name]
            properties = self._translated(described["Properties"])
            made = CfnResource(self, name, type=described["Type"], properties=properties)
            for other in described.get("DependsOn", []):
                made.add_dependency(self._make(other))
            if "DeletionPolicy" in described:
                made.cfn_options.deletion_policy = POLICIES[described["DeletionPolicy"]]
                made.cfn_options.update_replace_policy = POLICIES[described["UpdateReplacePolicy"]]
            self.resources[name] = made
        return self.resources[name]

    def _translated(self, value: Any) -> Any:
        """A value of the template, with CDK's names of the resources."""
        match value:
            case {"Ref": str(name)} if name in self._described:
                return self._make(name).ref
            case {"Fn::GetAtt": [str(name), str(attribute)]} if name in self._described:
                return self._make(name).get_att(attribute)
            case dict():
                return {key: self._translated(each) for key, each in cast("dict[str, Any]", value).items()}
            case list():
                return [self._translated(each) for each in cast("list[Any]", value)]
            case _:
                return value
