"""What the template promises: nothing unencrypted, nobody who may too much, nothing lost, everything watched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import pytest
from tests.infra.fabrics import (
    ALL,
    DATA_ONLY,
    KEY,
    LAYER,
    OTHERWISE,
    OWN_POLICY,
    PLAIN,
    SES,
    SEVERAL,
    TOPIC,
    WITHOUT_ORDER,
    of_type,
    resources,
)

from holdfast.actors.kind import ORDERED_RETRY
from holdfast.actors.record import partition_of as actor_partition_of
from holdfast.backends.aws import parse_address
from holdfast.backends.aws.table import TTL_ATTRIBUTE, table_definition
from holdfast.cli.infra import as_text
from holdfast.errors import ConfigurationError
from holdfast.infra import EventRule, Fabric, Function, Routed, UploadedCode, local_code, template, uploaded_code
from holdfast.infra.function_role import NETWORK, TRACE
from holdfast.infra.permissions import BROAD
from holdfast.telemetry import Telemetry
from holdfast.workflows.record import partition_of

each_fabric = pytest.mark.parametrize("fabric", ALL.values(), ids=ALL)


def replaced(fabric: Fabric, **changes: Any) -> Fabric:
    """The same, but for some of the function's options."""
    return msgspec.structs.replace(fabric, function=msgspec.structs.replace(fabric.function, **changes))


def walk(value: Any) -> Iterator[Any]:
    yield value
    match value:
        case dict():
            for each in value.values():
                yield from walk(each)
        case list():
            for each in value:
                yield from walk(each)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(fabric: Fabric) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of every policy, trust included, and the resource it is in."""
    for name, resource in resources(fabric).items():
        for each in walk(resource["Properties"]):
            if isinstance(each, dict) and "Statement" in each:
                yield from ((name, statement) for statement in each["Statement"])


# ── Permissions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def text_of(resource: Any) -> str:
    """A resource as one text, references as ``<name>``."""
    match resource:
        case str():
            return resource
        case {"Fn::Sub": str(text)}:
            return text
        case {"Fn::Join": ["", parts]}:
            return "".join(map(text_of, parts))
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return f"<{name}>"
    raise AssertionError(resource)


def is_broad(statement: dict[str, Any]) -> bool:
    actions = as_list(statement["Action"])
    whose = [text_of(each) for each in as_list(statement.get("Resource", "named"))]
    return (
        any("*" in action for action in actions)
        or any(each == "*" or each.startswith("*") for each in whose)
        or statement.get("Principal") == "*"
    )


def of_the_main(name: str) -> str:
    """The name that a resource of a further function would have if it were the main one's."""
    return re.sub(r"^(Doorbell|Function)(Pdf|Mail)", r"\1", name)


@each_fabric
def test_nobody_may_everything_but_where_it_says_why(fabric):
    found = list(statements(fabric))
    assert len(found) >= 15
    broad = {name for name, statement in found if is_broad(statement)}
    assert {of_the_main(name) for name in broad} <= BROAD.keys()
    for name, statement in found:
        if is_broad(statement) and statement["Effect"] == "Allow" and statement != SES:
            assert of_the_main(name) == "FunctionRole"
            assert statement["Action"] in (list(NETWORK), list(TRACE)), "only what knows no resource"
    assert all(reason for reason in BROAD.values())


def test_a_broad_permission_would_be_seen():
    named = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/*"]}
    assert not is_broad(named)
    assert is_broad(named | {"Action": "s3:*"})
    assert is_broad(named | {"Resource": "*"})
    assert is_broad(named | {"Principal": "*"})


@each_fabric
def test_what_is_allowed_is_of_this_home(fabric):
    own = f"{fabric.prefix}-holdfast"
    bucket = fabric.own_bucket or own
    for name, statement in statements(fabric):
        for each in as_list(statement.get("Resource", [])):
            text = text_of(each)
            known = statement == SES or own in text or bucket in text or text == KEY or text.startswith("<")
            assert known or (is_broad(statement) and name in BROAD), (name, text)


def test_stars_stand_only_where_names_are_made_later():
    found = {text_of(each) for _, statement in statements(PLAIN) for each in as_list(statement.get("Resource", []))}
    here = "${AWS::Region}:${AWS::AccountId}"
    assert {each for each in found if "*" in each} == {
        "arn:${AWS::Partition}:s3:::shop-holdfast-blobs-${AWS::AccountId}-${AWS::Region}/*",
        f"arn:${{AWS::Partition}}:logs:{here}:log-group:/aws/lambda/shop-holdfast:*",
        f"arn:${{AWS::Partition}}:lambda:{here}:function:shop-holdfast:*",
    }


def actions(fabric: Fabric, policy: str) -> set[str]:
    return {action for name, statement in statements(fabric) if name == policy for action in statement["Action"]}


def test_a_tenants_policy_reads_its_own_rows_alone():
    fabric = Fabric(prefix="shop", tenants=("acme/", "beta/"))
    policy = resources(fabric)["Tenant1ReaderPolicy"]["Properties"]["PolicyDocument"]
    (rows,) = policy["Statement"]
    assert set(rows["Action"]) == {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
    assert rows["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"}  # a request without a key is refused
    patterns = rows["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]

    def matches(partition: str) -> bool:
        return any(fnmatchcase(partition, pattern) for pattern in patterns)

    for make in (partition_of, actor_partition_of):
        assert matches(make("checkout", "acme/1"))
        assert not any(matches(make("checkout", id)) for id in ("beta/1", "acme", "acme2/1", "x/acme/1", "ACME/1"))


@pytest.mark.parametrize("tenant", ["acme", "", "a*/", "a?/", "${aws:userid}/", "a/b/"])
def test_tenants_that_would_match_more_than_they_say(tenant):
    with pytest.raises(ConfigurationError, match="not a prefix of ids"):
        Fabric(prefix="shop", tenants=(tenant,))


def test_each_policy_is_no_larger_than_its_task():
    worker, client, reader = (actions(PLAIN, f"{who}Policy") for who in ("Worker", "Client", "Reader"))
    assert reader - {"sqs:GetQueueAttributes"} < worker
    assert client < worker
    assert actions(PLAIN, "CallerPolicy") < client
    assert actions(PLAIN, "IdempotencyPolicy") == {
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
    }
    assert {f"{who}Policy" for who in ("Worker", "Client", "Caller", "Idempotency", "Reader")} < template(PLAIN)[
        "Outputs"
    ].keys()
    assert worker - client == {
        "dynamodb:DescribeTable",
        "events:DescribeEventBus",
        "dynamodb:BatchWriteItem",
        "events:PutEvents",
        "lambda:InvokeFunction",
        "s3:DeleteObject",
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
    }
    assert {action for action in worker if action.startswith(("dynamodb:", "events:"))} == {
        "dynamodb:BatchGetItem",
        "dynamodb:BatchWriteItem",
        "dynamodb:DeleteItem",
        "dynamodb:DescribeTable",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:Scan",
        "dynamodb:UpdateItem",
        "events:DescribeEventBus",
        "events:PutEvents",
    }
    writing = ("Create", "Delete", "Put", "Send", "Update", "Pass")
    assert not [action for action in reader if action.partition(":")[2].startswith(writing)]


def test_only_the_worker_is_given_to_the_function():
    role = of_type(PLAIN, "AWS::IAM::Role")["FunctionRole"]
    assert role["ManagedPolicyArns"] == [{"Ref": "WorkerPolicy"}]


def test_no_role_is_passed_to_any_service():
    assert not [statement for _, statement in statements(PLAIN) if "iam:PassRole" in as_list(statement["Action"])]


def test_the_function_may_call_its_versions_but_not_its_unpublished_code():
    (allowed,) = (each for _, each in statements(PLAIN) if "lambda:InvokeFunction" in as_list(each["Action"]))
    (versions,) = map(text_of, allowed["Resource"])
    assert versions.endswith(":function:shop-holdfast:*")
    assert "lambda:InvokeFunction" not in actions(DATA_ONLY, "WorkerPolicy")


def test_the_function_may_ring_for_itself_without_end():
    """Lambda stops what looks like a loop, unless it is told that it is one."""
    (function,) = of_type(PLAIN, "AWS::Lambda::Function").values()
    assert function["RecursiveLoop"] == "Allow"


@each_fabric
def test_a_key_is_used_by_all_who_need_it(fabric):
    for name in ("WorkerPolicy", "ClientPolicy", "CallerPolicy", "IdempotencyPolicy", "ReaderPolicy"):
        found = [
            statement for where, statement in statements(fabric) if where == name and statement.get("Sid") == "Key"
        ]
        assert len(found) == (fabric.key_arn is not None), name
        assert all(statement["Resource"] == [KEY] for statement in found)


# ── Data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_is_the_one_that_the_code_makes():
    table = of_type(PLAIN, "AWS::DynamoDB::Table")["Table"]
    made = table_definition(parse_address("aws://shop?region=eu-west-1").table)
    assert {name: table[name] for name in made} == made
    assert table["TimeToLiveSpecification"] == {"AttributeName": TTL_ATTRIBUTE, "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["DeletionProtectionEnabled"] is True
    listed = of_type(WITHOUT_ORDER, "AWS::DynamoDB::Table")["Table"]
    assert {name: listed[name] for name in made} == table_definition("shop-holdfast", listing=True)


@each_fabric
def test_everything_is_encrypted(fabric):
    for table in of_type(fabric, "AWS::DynamoDB::Table").values():
        own = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": fabric.key_arn}
        assert table.get("SSESpecification") == (own if fabric.key_arn else None), "else by a key that AWS owns"
    for name, queue in of_type(fabric, "AWS::SQS::Queue").items():
        assert queue.get("KmsMasterKeyId") == fabric.key_arn
        assert queue.get("SqsManagedSseEnabled") is (None if fabric.key_arn else True), name
    for bucket in of_type(fabric, "AWS::S3::Bucket").values():
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID") == fabric.key_arn
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    refusing = {name for name, each in statements(fabric) if each.get("Sid") == "RefuseWhatIsNotEncryptedOnItsWay"}
    kinds = ("AWS::SQS::Queue", "AWS::S3::Bucket")
    assert refusing == {f"{name}Policy" for kind in kinds for name in of_type(fabric, kind)}


def test_blobs_outlive_what_the_table_can_be_restored_to():
    (rule,) = of_type(PLAIN, "AWS::S3::Bucket")["Bucket"]["LifecycleConfiguration"]["Rules"]
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 35}
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert "ExpirationInDays" not in rule
    assert of_type(PLAIN, "AWS::S3::Bucket")["Bucket"]["VersioningConfiguration"] == {"Status": "Enabled"}


def kept_by(fabric: Fabric) -> dict[str, str]:
    """What stays when the stack is deleted or the resource replaced, and its policy."""
    found = {name: each for name, each in resources(fabric).items() if each.get("DeletionPolicy", "Delete") != "Delete"}
    assert all(each["UpdateReplacePolicy"] == "Retain" for each in found.values())
    return {name: each["DeletionPolicy"] for name, each in found.items()}


def test_deleting_the_stack_keeps_what_holds_data():
    kept = set(kept_by(PLAIN))
    version = {name for name, each in resources(PLAIN).items() if each["Type"] == "AWS::Lambda::Version"}
    assert kept == {"Table", "Bucket", "Ordered", "OrderedDead"} | version
    assert {name[:15] for name in kept_by(OTHERWISE)} == {"FunctionVersion"}


def test_a_stack_that_could_not_be_made_leaves_only_the_guarded_table_behind():
    guarded = {name for name, policy in kept_by(PLAIN).items() if policy != "RetainExceptOnCreate"}
    assert guarded == {"Table"}
    assert of_type(PLAIN, "AWS::DynamoDB::Table")["Table"]["DeletionProtectionEnabled"] is True


def test_what_is_there_already_is_not_made():
    assert not of_type(OTHERWISE, "AWS::DynamoDB::Table")
    assert not of_type(OTHERWISE, "AWS::S3::Bucket")
    assert "a-bucket-of-mine" in json.dumps(template(OTHERWISE)["Outputs"]["HomeUrl"])


# ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_fabric
def test_every_queue_has_dead_letters_and_patience(fabric):
    queues = of_type(fabric, "AWS::SQS::Queue")
    assert len(queues) == 2 * (1 + fabric.ordered + len(fabric.functions))
    for name, queue in queues.items():
        assert queue["MessageRetentionPeriod"] == 14 * 86_400
        if name.endswith("Dead"):
            continue
        assert queue["VisibilityTimeout"] >= 6 * fabric.timeout_seconds + fabric.batch_window_seconds
        assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": [f"{name}Dead", "Arn"]}
        receives = fabric.ordered_receives if name == "Ordered" else 10
        assert queue["RedrivePolicy"]["maxReceiveCount"] == receives >= 5
        assert queue.get("FifoQueue") == queues[f"{name}Dead"].get("FifoQueue")


def test_an_ordered_message_is_parked_long_before_it_is_a_dead_letter():
    """Each attempt is a receipt, also of those behind it in the group."""
    assert PLAIN.ordered_receives >= 5 * ORDERED_RETRY.max_attempts


def test_queues_are_named_as_the_code_expects():
    found = {name: queue["QueueName"] for name, queue in of_type(PLAIN, "AWS::SQS::Queue").items()}
    assert found == {
        "Doorbell": "shop-holdfast-doorbell",
        "DoorbellDead": "shop-holdfast-doorbell-dead",
        "Ordered": "shop-holdfast-ordered.fifo",
        "OrderedDead": "shop-holdfast-ordered-dead.fifo",
    }


def test_every_name_is_short_enough():
    account, region = "123456789012", "ap-southeast-4"
    for each in walk(resources(OTHERWISE) | resources(Fabric(prefix=OTHERWISE.prefix))):
        for key, most in (("QueueName", 80), ("BucketName", 63), ("FunctionName", 64), ("Name", 64)):
            name = each.get(key) if isinstance(each, dict) else None
            if isinstance(name, dict) and "Fn::Sub" in name:
                name = name["Fn::Sub"].replace("${AWS::AccountId}", account).replace("${AWS::Region}", region)
            assert not isinstance(name, str) or len(name) <= most, name


# ── The function ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_function_knows_its_home():
    (function,) = of_type(PLAIN, "AWS::Lambda::Function").values()
    url = function["Environment"]["Variables"]["HOLDFAST_URL"]
    assert text_of({"Fn::Join": ["", url["Fn::Join"][1]]}) == (
        "aws://shop?region=<AWS::Region>&bucket=shop-holdfast-blobs-${AWS::AccountId}-${AWS::Region}&bus=shop-holdfast"
    )
    assert url == template(PLAIN)["Outputs"]["HomeUrl"]["Value"]


@pytest.mark.parametrize("name", ["plain", "existing", "otherwise", "without order"])
def test_whatever_calls_calls_the_live_version(name):
    fabric = ALL[name]
    target = fabric.function.alias_arn if name == "existing" else {"Ref": "FunctionLive"}
    sweeping = fabric.function.alias_arn if name == "existing" else {"Ref": "FunctionSweep"}
    sources = of_type(fabric, "AWS::Lambda::EventSourceMapping")
    assert len(sources) == 1 + fabric.ordered + fabric.stream
    for source in sources.values():
        assert source["FunctionName"] == target
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    rule = of_type(fabric, "AWS::Events::Rule")["SweepRule"]
    (called,) = rule["Targets"]
    assert called["Arn"] == sweeping
    parts = {} if fabric.parts is None else {"parts": fabric.parts}
    assert json.loads(called["Input"]) == {"holdfast": "sweep"} | parts
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert "EventBusName" not in rule, "rules with a schedule live on the default bus"
    allowed = of_type(fabric, "AWS::Lambda::Permission")["SweepPermission"]
    assert allowed["FunctionName"] == sweeping
    assert allowed["SourceArn"] == {"Fn::GetAtt": ["SweepRule", "Arn"]}


def test_the_function_is_called_to_clean_up_and_again_if_that_fails():
    rule = of_type(PLAIN, "AWS::Events::Rule")["CleanUpRule"]
    (called,) = rule["Targets"]
    assert json.loads(called["Input"]) == {"holdfast": "clean-up"}
    assert rule["ScheduleExpression"] == "rate(1 hour)"
    assert called["RetryPolicy"] == {"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 3600}
    allowed = of_type(PLAIN, "AWS::Lambda::Permission")["CleanUpPermission"]
    assert allowed["SourceArn"] == {"Fn::GetAtt": ["CleanUpRule", "Arn"]}


def test_a_failed_sweep_is_not_repeated_and_it_sweeps_with_the_live_version():
    aliases = of_type(PLAIN, "AWS::Lambda::Alias")
    assert {each["Name"]: each["FunctionVersion"] for each in aliases.values()}.keys() == {"live", "sweep"}
    assert len({each["FunctionVersion"]["Fn::GetAtt"][0] for each in aliases.values()}) == 1
    (once,) = of_type(PLAIN, "AWS::Lambda::EventInvokeConfig").values()
    assert once["Qualifier"] == "sweep", "other events are repeated"
    assert (once["MaximumRetryAttempts"], once["MaximumEventAgeInSeconds"]) == (0, 60)


def test_events_come_by_the_queue_that_lets_their_rules_and_nobody_else():
    rules = of_type(OTHERWISE, "AWS::Events::Rule")
    names = [name for name in rules if name.startswith("EventRule")]
    one, other = (rules[name] for name in names)
    assert (one["EventBusName"], one["EventPattern"]) == ("default", {"source": ["aws.s3"]})
    assert other["EventBusName"] == {"Ref": "Bus"}, "the stack's own bus is there before its rule"
    for rule in (one, other):
        (target,) = rule["Targets"]
        assert target["Arn"] == {"Fn::GetAtt": ["Doorbell", "Arn"]}
        assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": ["DoorbellDead", "Arn"]}}
    sources = [{"Fn::GetAtt": [name, "Arn"]} for name in names]
    for name in ("DoorbellPolicy", "DoorbellDeadPolicy"):
        (let,) = [each for owner, each in statements(OTHERWISE) if owner == name and each["Effect"] == "Allow"]
        assert let["Action"] == "sqs:SendMessage"
        assert let["Condition"] == {"ArnEquals": {"aws:SourceArn": sources}}
    assert not [each for owner, each in statements(OTHERWISE) if owner == "OrderedPolicy" and each["Effect"] == "Allow"]


def test_the_function_is_shown_what_is_due_and_was_due_and_may_read_the_stream():
    table = of_type(WITHOUT_ORDER, "AWS::DynamoDB::Table")["Table"]
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    source = of_type(WITHOUT_ORDER, "AWS::Lambda::EventSourceMapping")["StreamSource"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": ["Table", "StreamArn"]}
    patterns = [json.loads(each["Pattern"]) for each in source["FilterCriteria"]["Filters"]]
    due = {"w": {"S": [{"exists": True}]}}
    heads = {"s": {"S": ["@"]}}
    assert patterns == [{"dynamodb": {"Keys": heads, each: due}} for each in ("NewImage", "OldImage")]
    assert source["MaximumRetryAttempts"] == source["MaximumRecordAgeInSeconds"] == -1, "nothing is left out"
    (let,) = [each for name, each in statements(WITHOUT_ORDER) if name == "WorkerPolicy" and each["Sid"] == "Stream"]
    assert text_of(let["Resource"][0]).endswith(":table/shop-holdfast/stream/*")
    assert "StreamOldAlarm" in of_type(WITHOUT_ORDER, "AWS::CloudWatch::Alarm")
    assert "StreamSpecification" not in of_type(PLAIN, "AWS::DynamoDB::Table")["Table"]
    assert "StreamSource" not in of_type(PLAIN, "AWS::Lambda::EventSourceMapping")


def test_a_rule_that_goes_leaves_the_others_as_they_are():
    both = of_type(OTHERWISE, "AWS::Events::Rule")
    one = of_type(msgspec.structs.replace(OTHERWISE, event_rules=OTHERWISE.event_rules[1:]), "AWS::Events::Rule")
    assert one.items() < both.items()


def test_an_ordered_queue_has_neither_window_nor_large_batches():
    sources = of_type(OTHERWISE, "AWS::Lambda::EventSourceMapping")
    assert sources["DoorbellSource"]["BatchSize"] == 100
    assert sources["DoorbellSource"]["MaximumBatchingWindowInSeconds"] == 5
    assert sources["DoorbellSource"]["ScalingConfig"] == {"MaximumConcurrency": 4}
    assert sources["OrderedSource"]["BatchSize"] == 10
    assert "MaximumBatchingWindowInSeconds" not in sources["OrderedSource"]


def test_the_role_has_what_the_steps_need_and_the_function_its_surroundings():
    role = of_type(OTHERWISE, "AWS::IAM::Role")["FunctionRole"]
    assert role["ManagedPolicyArns"] == [{"Ref": "WorkerPolicy"}, OWN_POLICY]
    assert [each["PolicyDocument"]["Statement"] for each in role["Policies"] if each["PolicyName"] == "own"] == [[SES]]
    (function,) = of_type(OTHERWISE, "AWS::Lambda::Function").values()
    assert function["VpcConfig"] == {
        "SubnetIds": ["subnet-0123456789abcdef0", "subnet-1123456789abcdef0"],
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
    }
    assert function["Layers"] == [LAYER]
    assert function["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert function["TracingConfig"] == {"Mode": "Active"}
    (plain,) = of_type(PLAIN, "AWS::Lambda::Function").values()
    assert not plain.keys() & {"VpcConfig", "Layers", "SnapStart", "TracingConfig"}
    assert len(of_type(PLAIN, "AWS::IAM::Role")["FunctionRole"]["Policies"]) == 1


def test_lambda_makes_the_network_interfaces_and_the_code_of_the_function_may_not():
    found = {each["Sid"]: each for name, each in statements(OTHERWISE) if name == "FunctionRole" and "Sid" in each}
    assert (found["Network"]["Effect"], found["NotByTheCode"]["Effect"]) == ("Allow", "Deny")
    assert found["Network"]["Action"] == found["NotByTheCode"]["Action"]
    (whose,) = found["NotByTheCode"]["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"]
    assert text_of(whose).endswith(":function:a-prefix-20-long-yes-holdfast")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"subnets": ["subnet-1"]}, "give both, or neither"),
        ({"security_groups": ["sg-1"]}, "give both, or neither"),
        ({"snap_start": True, "runtime": "python3.11"}, "needs Python 3.12"),
        ({"layers": [LAYER] * 6}, "at most 5 layers"),
        ({"policies": [OWN_POLICY] * 10}, "at most 9 policies"),
        ({"statements": [{"Effect": "Allow", "NotAction": "iam:*"}]}, "lacks Action, Resource"),
    ],
)
def test_options_of_the_function_that_aws_would_refuse(wrong, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        replaced(PLAIN, **wrong)


def version_of(fabric: Fabric) -> str:
    (name,) = of_type(fabric, "AWS::Lambda::Version")
    alias = of_type(fabric, "AWS::Lambda::Alias")["FunctionLive"]
    assert alias["FunctionVersion"] == {"Fn::GetAtt": [name, "Version"]}
    assert alias["Name"] == "live"
    return name


def test_new_code_or_options_of_the_function_publish_a_new_version():
    same = version_of(PLAIN)
    assert version_of(replaced(PLAIN, code=UploadedCode("elsewhere", "other.zip", "digest"))) == same
    changes = (
        {"code": UploadedCode("code-bucket", "shop-1.zip", "another")},
        {"memory_mb": 1024},
        {"timeout_seconds": 30},
        {"environment": {"A": "1"}},
        {"handler": "other.handler"},
        {"architecture": "x86_64"},
        {"layers": [LAYER]},
        {"snap_start": True},
        {"tracing": True},
        {"subnets": ["subnet-1"], "security_groups": ["sg-1"]},
    )
    others = [version_of(replaced(PLAIN, **change)) for change in changes]
    assert len({same, *others}) == 1 + len(others)


def test_what_is_no_part_of_a_version_publishes_none():
    assert version_of(replaced(PLAIN, reserved_concurrency=5)) == version_of(PLAIN)
    assert version_of(msgspec.structs.replace(PLAIN, alarm_topic_arn=TOPIC)) == version_of(PLAIN)


def test_a_url_is_off_unless_asked_for_and_then_signed_unless_asked_otherwise():
    assert not of_type(PLAIN, "AWS::Lambda::Url")
    (url,) = of_type(ALL["without order"], "AWS::Lambda::Url").values()
    assert url == {
        "TargetFunctionArn": {"Fn::GetAtt": ["Function", "Arn"]},
        "Qualifier": "live",
        "AuthType": "AWS_IAM",
    }
    assert resources(ALL["without order"])["FunctionUrl"]["DependsOn"] == ["FunctionLive"]
    assert not [each for each in of_type(ALL["without order"], "AWS::Lambda::Permission") if each.startswith("Url")]
    (url,) = of_type(OTHERWISE, "AWS::Lambda::Url").values()
    assert url["AuthType"] == "NONE"


def test_only_a_public_url_lets_everybody_in():
    for name, fabric in ALL.items():
        open_to_all = [each for each in of_type(fabric, "AWS::Lambda::Permission").values() if each["Principal"] == "*"]
        assert len(open_to_all) == (2 if name == "otherwise" else 0), name


# ── Several functions ───────────────────────────────────────────────────────────────────────────────────────────────


def test_each_function_has_its_size_its_role_its_queue_and_its_place_in_the_home():
    functions = of_type(SEVERAL, "AWS::Lambda::Function")
    assert {each["FunctionName"]: (each["MemorySize"], each["Timeout"]) for each in functions.values()} == {
        "shop-holdfast": (512, 60),
        "shop-holdfast-pdf": (3008, 600),
        "shop-holdfast-mail": (512, 60),
    }
    urls = {name: text_of(each["Environment"]["Variables"]["HOLDFAST_URL"]) for name, each in functions.items()}
    routes = "&routes=actor/Printer:pdf,wf/letters:mail,wf/render:pdf"
    for id, own in (("Function", "main"), ("FunctionPdf", "pdf"), ("FunctionMail", "mail")):
        assert urls[id].endswith(f"{routes}&function={own}")
    assert text_of(template(SEVERAL)["Outputs"]["HomeUrl"]["Value"]).endswith(f"shop-holdfast{routes}")
    found = parse_address(urls["FunctionPdf"].replace("<AWS::Region>", "eu-west-1")).parsed_routes()
    assert found.serves(partition_of("render", "17"))
    assert found.serves(actor_partition_of("Printer", "a"))
    assert not found.serves(partition_of("checkout", "17"))
    assert functions["FunctionMail"]["Environment"]["Variables"].keys() == {"BANK", "FROM", "HOLDFAST_URL"}
    assert len({each["Role"]["Fn::GetAtt"][0] for each in functions.values()}) == 3
    assert {each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions.values()} == {"FunctionLog"}
    owns = [name for name, statement in statements(SEVERAL) if statement == SES]
    assert owns == ["FunctionPdfRole"]


def test_each_function_is_called_by_its_queue_and_the_main_one_by_all_else():
    sources = of_type(SEVERAL, "AWS::Lambda::EventSourceMapping")
    called = {each["EventSourceArn"]["Fn::GetAtt"][0]: each["FunctionName"]["Ref"] for each in sources.values()}
    assert called == {
        "Doorbell": "FunctionLive",
        "Ordered": "FunctionLive",
        "DoorbellPdf": "FunctionPdfLive",
        "DoorbellMail": "FunctionMailLive",
    }
    queues = of_type(SEVERAL, "AWS::SQS::Queue")
    assert queues["DoorbellPdf"]["QueueName"] == "shop-holdfast-doorbell-pdf"
    assert (queues["DoorbellPdf"]["VisibilityTimeout"], queues["DoorbellMail"]["VisibilityTimeout"]) == (3600, 360)
    rules = of_type(SEVERAL, "AWS::Events::Rule")
    called = {name: [each["Arn"]["Ref"] for each in rule["Targets"]] for name, rule in rules.items()}
    assert called == {"SweepRule": ["FunctionSweep"], "CleanUpRule": ["FunctionLive"]}
    assert len(of_type(SEVERAL, "AWS::Lambda::Alias")) - 1 == len(of_type(SEVERAL, "AWS::Lambda::Version")) == 3
    alarms = of_type(SEVERAL, "AWS::CloudWatch::Alarm")
    assert {"FunctionPdfErrorsAlarm", "DoorbellPdfDeadAlarm", "FunctionMailThrottledAlarm"} < alarms.keys()


def test_every_process_may_wake_every_function_and_the_worker_calls_the_versions_of_all():
    for policy in ("WorkerPolicy", "ClientPolicy", "CallerPolicy"):
        (queues,) = [each for name, each in statements(SEVERAL) if name == policy and each["Sid"] == "Queues"]
        assert {text_of(each).rpartition(":")[2] for each in queues["Resource"]} == {
            "shop-holdfast-doorbell",
            "shop-holdfast-doorbell-pdf",
            "shop-holdfast-doorbell-mail",
            "shop-holdfast-ordered.fifo",
        }
    (versions,) = [each for name, each in statements(SEVERAL) if name == "WorkerPolicy" and each["Sid"] == "Versions"]
    assert [text_of(each).partition(":function:")[2] for each in versions["Resource"]] == [
        "shop-holdfast:*",
        "shop-holdfast-pdf:*",
        "shop-holdfast-mail:*",
    ]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"functions": {"main": Routed(workflows=["render"])}}, "cannot name a function"),
        ({"functions": {"PDF": Routed(workflows=["render"])}}, "cannot name a function"),
        ({"functions": {"a": Routed(workflows=["r"]), "b": Routed(workflows=["r"])}}, "wf#r: only one function"),
        ({"functions": {"a": Routed(workflows=["r"])}, "function": None}, "have the code of the main one"),
        ({"functions": {"a": Routed(workflows=["r"], timeout_seconds=901)}}, "between 1 and 900"),
    ],
)
def test_functions_that_cannot_be(wrong, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        msgspec.structs.replace(PLAIN, **wrong)


def test_a_further_function_has_work_and_names_that_fit_into_a_url():
    with pytest.raises(ConfigurationError, match="needs workflows or actors"):
        Routed()
    with pytest.raises(ConfigurationError, match="cannot be routed"):
        Routed(workflows=["a:b"])


# ── Watching ────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_fabric
def test_every_alarm_says_what_it_is_about_and_goes_where_it_should(fabric):
    alarms = of_type(fabric, "AWS::CloudWatch::Alarm")
    assert len(alarms) >= 3
    for alarm in alarms.values():
        assert alarm["AlarmDescription"].startswith(f"{fabric.prefix}-holdfast: ")
        assert alarm.get("AlarmActions") == ([fabric.alarm_topic_arn] if fabric.alarm_topic_arn else None)


def test_what_is_watched():
    alarms = of_type(PLAIN, "AWS::CloudWatch::Alarm")
    assert alarms.keys() == {
        "BusFailedAlarm",
        "DoorbellDeadAlarm",
        "DoorbellOldAlarm",
        "EventsUnfitAlarm",
        "FunctionErrorsAlarm",
        "FunctionThrottledAlarm",
        "HaltedAlarm",
        "LateAlarm",
        "OrderedDeadAlarm",
        "OrderedOldAlarm",
        "ParkedAlarm",
        "SilentAlarm",
        "BlockedAlarm",
        "TurnsFailedAlarm",
        "ItemLargeAlarm",
        "TableLargeAlarm",
        "IndexDueThrottledAlarm",
        "TableReadsThrottledAlarm",
        "TableWritesThrottledAlarm",
    }
    assert alarms["OrderedDeadAlarm"]["Dimensions"] == [
        {"Name": "QueueName", "Value": "shop-holdfast-ordered-dead.fifo"}
    ]
    assert alarms["LateAlarm"]["Namespace"] == "Holdfast/shop"
    assert alarms["ItemLargeAlarm"]["Threshold"] == 389_120
    assert alarms["TableLargeAlarm"]["Threshold"] == 100 * 10**9
    assert of_type(OTHERWISE, "AWS::CloudWatch::Alarm")["TableLargeAlarm"]["Threshold"] == 7 * 10**9
    assert [name for name, alarm in alarms.items() if alarm["TreatMissingData"] == "breaching"] == ["SilentAlarm"]


def test_what_is_counted_in_the_log_is_what_telemetry_writes(caplog):
    filters = of_type(PLAIN, "AWS::Logs::MetricFilter")
    assert {f"{name.removesuffix('Filter')}Alarm" for name in filters} < of_type(PLAIN, "AWS::CloudWatch::Alarm").keys()
    telemetry = Telemetry()
    for each in filters.values():
        (metric,) = each["MetricTransformations"]
        assert metric["MetricNamespace"] == "Holdfast/shop"
        event = each["FilterPattern"].strip('"').partition(" ")[0]
        caplog.clear()
        telemetry.emit(event, partition="wf#checkout#1", other="x")
        (line,) = caplog.messages
        assert each["FilterPattern"].strip('"') in line


def test_a_function_of_somebody_else_writes_its_log_elsewhere():
    assert not of_type(ALL["existing"], "AWS::Logs::MetricFilter")
    assert "ParkedAlarm" not in of_type(ALL["existing"], "AWS::CloudWatch::Alarm")


@each_fabric
def test_the_dashboard_names_what_is_there(fabric):
    (dashboard,) = of_type(fabric, "AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(text_of(dashboard["DashboardBody"]))["widgets"]
    places = [(widget["x"], widget["y"]) for widget in widgets]
    assert len(set(places)) == len(widgets) == (6 if fabric.function is None else 9)
    assert all(widget["properties"]["metrics"] for widget in widgets)
    assert {widget["properties"]["region"] for widget in widgets} == {"<AWS::Region>"}


def resolved(value: Any, partition: str, conditions: dict[str, Any]) -> str:
    """A text of the template, as CloudFormation would resolve it in a partition."""
    match value:
        case {"Fn::If": [condition, yes, no]}:
            (asked, wanted) = conditions[condition]["Fn::Equals"]
            assert asked == {"Ref": "AWS::Partition"}
            return resolved(yes if wanted == partition else no, partition, conditions)
        case {"Fn::Join": ["", parts]}:
            return "".join(resolved(each, partition, conditions) for each in parts)
    return text_of(value)


@pytest.mark.parametrize(
    ("partition", "domain"),
    [
        ("aws", "console.aws.amazon.com"),
        ("aws-cn", "console.amazonaws.cn"),
        ("aws-us-gov", "console.amazonaws-us-gov.com"),
    ],
)
def test_the_dashboard_is_found_in_the_console_of_its_partition(partition, domain):
    made = template(PLAIN)
    assert resolved(made["Outputs"]["Dashboard"]["Value"], partition, made["Conditions"]) == (
        f"https://{domain}/cloudwatch/home?region=<AWS::Region>#dashboards:name=shop-holdfast"
    )


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LARGEST_TEMPLATE_BYTES = 51_200
"""What `aws cloudformation deploy` sends without a bucket for it ("CloudFormation quotas")."""


@each_fabric
def test_the_template_can_be_sent_as_it_is_printed(fabric):
    assert json.loads(as_text(template(fabric))) == template(fabric)
    assert len(as_text(template(fabric)).encode()) < LARGEST_TEMPLATE_BYTES


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prefix", ["", "Shop", "1shop", "shop_1", "shop-", "-shop", "a" * 21, "shöp", "shop\n"])
def test_prefixes_that_aws_would_refuse(prefix):
    with pytest.raises(ConfigurationError, match="prefix"):
        Fabric(prefix=prefix)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": 11},
        {"batch_size": 10_001, "batch_window_seconds": 1},
        {"batch_window_seconds": 301},
        {"ordered_receives": 4},
        {"ordered_receives": 1001},
        {"most_at_once": 1},
        {"function": PLAIN.function, "parts": 0},
        {"function": PLAIN.function, "parts": 201},
        {"function": Function(code=UploadedCode("b", "k", "d"), timeout_seconds=901)},
    ],
)
def test_numbers_that_aws_would_refuse(wrong):
    with pytest.raises(ConfigurationError, match="between"):
        Fabric(prefix="shop", **wrong)


def test_rules_and_streams_that_could_do_nothing():
    for bus in ("", "a b"):
        with pytest.raises(ConfigurationError, match="names no bus"):
            EventRule(bus, {"source": ["holdfast.shop"]})
    for pattern in ({}, {"source": "holdfast.shop"}, {"source": []}, {"detail": {}}, {"detail": {"app": "shop"}}):
        with pytest.raises(ConfigurationError, match="must list the values"):
            EventRule("default", pattern)
    with pytest.raises(ConfigurationError, match="at most 2048"):
        EventRule("default", {"source": ["x" * 2048]})
    for wrong in ({"own_table": True, "function": PLAIN.function}, {}):
        with pytest.raises(ConfigurationError, match="leave out own_table"):
            Fabric(prefix="shop", stream=True, **wrong)
    with pytest.raises(ConfigurationError, match="leave out own_table"):
        Fabric(prefix="shop", own_table=True, listing=True)
    with pytest.raises(ConfigurationError, match="aws settings --parts"):
        Fabric(prefix="shop", parts=20)
    with pytest.raises(ConfigurationError, match="there is none"):
        Fabric(prefix="shop", event_rules=[EventRule("default", {"source": ["aws.s3"]})])


def test_the_home_cannot_be_set_by_hand():
    with pytest.raises(ConfigurationError, match="follows from the prefix"):
        template(replaced(PLAIN, environment={"HOLDFAST_URL": "aws://other"}))


# ── Code ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_code_is_known_by_names_and_contents(tmp_path):
    (tmp_path / "handler.py").write_text("a")
    first = local_code(tmp_path).digest
    assert local_code(tmp_path).digest == first
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "handler.pyc").write_bytes(b"1")
    assert local_code(tmp_path).digest == first
    (tmp_path / "handler.py").rename(tmp_path / "other.py")
    second = local_code(tmp_path).digest
    (tmp_path / "other.py").write_text("b")
    third = local_code(tmp_path).digest
    assert len({first, second, third}) == 3
    assert local_code(tmp_path / "other.py").digest not in {first, second, third}


def test_there_must_be_code(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigurationError, match="no code"):
            local_code(place)
    for url in ("s3://", "s3://bucket", "s3:///key"):
        with pytest.raises(ConfigurationError, match="names no object"):
            uploaded_code(url)
    assert uploaded_code("s3://bucket/a/b.zip").key == "a/b.zip"
