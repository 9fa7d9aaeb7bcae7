"""The infrastructures that the tests look at: the plain one, and one with every choice made differently."""

from __future__ import annotations

from typing import Any

from holdfast.infra import EventRule, Existing, Fabric, Function, LocalCode, Routed, UploadedCode, template

KEY = "arn:aws:kms:eu-west-1:000000000000:key/11111111-2222-3333-4444-555555555555"
TOPIC = "arn:aws:sns:eu-west-1:000000000000:alarms"
OWN_POLICY = "arn:aws:iam::000000000000:policy/mine"
LAYER = "arn:aws:lambda:eu-west-1:000000000000:layer:fonts:3"
SES = {"Sid": "Letters", "Effect": "Allow", "Action": "ses:SendEmail", "Resource": "*"}
ALIAS = "arn:aws:lambda:eu-west-1:000000000000:function:mine:live"

CODE = UploadedCode("code-bucket", "shop-1.zip", "digest")

PLAIN = Fabric(prefix="shop", function=Function(code=CODE))
DATA_ONLY = Fabric(prefix="shop")
EXISTING = Fabric(prefix="shop", function=Existing(name="mine", alias_arn=ALIAS))
OTHERWISE = Fabric(
    prefix="a-prefix-20-long-yes",
    function=Function(
        code=LocalCode("build", "digest"),
        handler="shop.handler",
        runtime="python3.12",
        architecture="x86_64",
        memory_mb=1769,
        timeout_seconds=900,
        environment={"BANK": "https://bank.example"},
        policies=[OWN_POLICY],
        statements=[SES],
        subnets=["subnet-0123456789abcdef0", "subnet-1123456789abcdef0"],
        security_groups=["sg-0123456789abcdef0"],
        layers=[LAYER],
        snap_start=True,
        tracing=True,
        reserved_concurrency=10,
        log_days=7,
        url="public",
    ),
    own_bucket="a-bucket-of-mine",
    own_table=True,
    key_arn=KEY,
    batch_size=100,
    batch_window_seconds=5,
    most_at_once=4,
    event_rules=[
        EventRule("default", {"source": ["aws.s3"]}),
        EventRule("a-prefix-20-long-yes-holdfast", {"source": ["holdfast.shop"]}),
    ],
    alarm_topic_arn=TOPIC,
    alarm_table_gb=7,
    keep_data=False,
)
WITHOUT_ORDER = Fabric(
    prefix="shop",
    ordered=False,
    stream=True,
    listing=True,
    parts=20,
    key_arn=KEY,
    function=Function(code=CODE, url="iam"),
)

SEVERAL = Fabric(
    prefix="shop",
    function=Function(code=CODE, environment={"BANK": "here"}),
    functions={
        "pdf": Routed(workflows=["render"], actors=["Printer"], memory_mb=3008, timeout_seconds=600, statements=[SES]),
        "mail": Routed(workflows=["letters"], environment={"FROM": "shop"}),
    },
)

ALL = {
    "plain": PLAIN,
    "data only": DATA_ONLY,
    "existing": EXISTING,
    "otherwise": OTHERWISE,
    "without order": WITHOUT_ORDER,
    "several": SEVERAL,
}


def resources(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """The resources of its template."""
    found: dict[str, dict[str, Any]] = template(fabric)["Resources"]
    return found


def of_type(fabric: Fabric, type: str) -> dict[str, dict[str, Any]]:
    """The properties of the resources of one type, by their logical ids."""
    return {name: each["Properties"] for name, each in resources(fabric).items() if each["Type"] == type}
