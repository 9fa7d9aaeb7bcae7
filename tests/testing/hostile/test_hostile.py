"""What the proxy does, rule by rule, and that it counts what it did."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError
from msgspec.structs import replace
from tests.backends.aws.lean import HEADERS

from holdfast.testing.hostile import (
    KIND,
    Capacity,
    Cuts,
    Failures,
    Fault,
    IndexLag,
    ShortPages,
    Slowness,
    Throttling,
    TornPages,
    Transactions,
    Unprocessed,
)

FOREVER = Transactions(held_seconds=1e6)


def text(value: str) -> dict[str, Any]:
    return {"S": value}


def number(value: int) -> dict[str, Any]:
    return {"N": str(value)}


def key(p: str = "p", s: str = "s") -> dict[str, Any]:
    return {"p": text(p), "s": text(s)}


def put(client: Any, table: str, p: str = "p", s: str = "s", **attributes: Any) -> Any:
    return client.put_item(TableName=table, Item=key(p, s) | attributes)


def puts(table: str, *sorts: str, p: str = "p") -> list[dict[str, Any]]:
    return [{"Put": {"TableName": table, "Item": key(p, sort)}} for sort in sorts]


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


def sorts(client: Any, table: str, **more: Any) -> list[str]:
    found = client.query(
        TableName=table,
        KeyConditionExpression="p = :p",
        ExpressionAttributeValues={":p": text("p")},
        ConsistentRead=True,
        **more,
    )
    return [item["s"]["S"] for item in found["Items"]]


def until_applied(direct: Any, seen: Any) -> None:
    while not seen(direct):
        threading.Event().wait(0.005)


@pytest.fixture
def under_way(direct, table):
    """``under_way(served, items)``: another client has sent a transaction; it is applied, and is never answered."""

    def begin(served: Any, items: list[dict[str, Any]], seen: Any = None, **more: Any) -> None:
        client = served.client()

        def send() -> None:
            with contextlib.suppress(ConnectionClosedError):  # when the proxy ends, with the test
                client.transact_write_items(TransactItems=items, **more)

        threading.Thread(target=send, daemon=True).start()
        until_applied(direct, seen or (lambda client: sorts(client, table)))

    return begin


class TestTransactions:
    def test_another_transaction_on_an_item_is_cancelled_with_reasons_in_order(self, serve, table, under_way):
        served = serve(replace(KIND, transactions=FOREVER))
        under_way(served, puts(table, "a", "b"))
        with pytest.raises(ClientError) as refused:
            served.client().transact_write_items(TransactItems=puts(table, "c", "b"))
        assert code_of(refused) == "TransactionCanceledException"
        assert [each["Code"] for each in refused.value.response["CancellationReasons"]] == [
            "None",
            "TransactionConflict",
        ]
        assert served.faults == {Fault.TRANSACTION_CANCELLED: 1}

    def test_a_single_write_on_an_item_is_refused_and_others_are_not(self, serve, table, under_way):
        served = serve(replace(KIND, transactions=FOREVER))
        under_way(served, puts(table, "a", "b"))
        with pytest.raises(ClientError) as refused:
            put(served.client(), table, s="a")
        put(served.client(), table, s="c")
        assert code_of(refused) == "TransactionConflictException"
        assert served.faults == {Fault.WRITE_CONFLICTED: 1}

    def test_a_transaction_that_reads_is_cancelled(self, serve, table, under_way):
        served = serve(replace(KIND, transactions=FOREVER))
        under_way(served, puts(table, "a"))
        gets = [{"Get": {"TableName": table, "Key": key(s=each)}} for each in ("a", "b")]
        with pytest.raises(ClientError) as refused:
            served.client().transact_get_items(TransactItems=gets)
        assert [each["Code"] for each in refused.value.response["CancellationReasons"]] == [
            "TransactionConflict",
            "None",
        ]
        served.client().transact_get_items(TransactItems=gets[1:])
        served.proxy.report.require(1, Fault.READ_CONFLICTED)

    def test_a_token_is_refused_while_it_is_under_way(self, serve, table, under_way):
        served = serve(replace(KIND, transactions=FOREVER))
        under_way(served, puts(table, "a"), ClientRequestToken="one")
        with pytest.raises(ClientError) as refused:
            served.client().transact_write_items(TransactItems=puts(table, "a"), ClientRequestToken="one")
        assert code_of(refused) == "TransactionInProgressException"

    def test_a_token_is_applied_once_and_its_items_are_free_again(self, serve, table, direct):
        client = serve(replace(KIND, transactions=Transactions())).client()
        for _ in range(2):
            client.transact_write_items(TransactItems=puts(table, "a"), ClientRequestToken="two")
            client.delete_item(TableName=table, Key=key(s="a"))
        assert sorts(direct, table) == []

    def test_a_condition_that_fails_is_told_as_the_emulator_tells_it(self, serve, table):
        served = serve(replace(KIND, transactions=Transactions(), torn_pages=TornPages()))
        put(served.client(), table, s="a")
        items = puts(table, "b", "a")
        items[1]["Put"] |= {
            "ConditionExpression": "attribute_not_exists(p)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        with pytest.raises(ClientError) as refused:
            served.client().transact_write_items(TransactItems=items)
        assert refused.value.response["CancellationReasons"][1]["Item"] == key(s="a")
        put(served.client(), table, s="b")


class TestTornPages:
    def test_a_page_shows_some_items_of_a_transaction_and_then_all(self, serve, table):
        served = serve(replace(KIND, transactions=Transactions(0.2), torn_pages=TornPages()))
        client, other = served.client(), served.client()
        names = [f"{each:02}" for each in range(12)]
        seen: list[list[str]] = []
        with ThreadPoolExecutor(1) as pool:
            while not any(len(each) > 0 and each != names[: len(each)] for each in seen):  # no prefix is promised
                for each in sorts(client, table):
                    client.delete_item(TableName=table, Key=key(s=each))
                seen = []
                sent = pool.submit(other.transact_write_items, TransactItems=puts(table, *names))
                while not seen or len(seen[-1]) < len(names):
                    seen.append(sorts(client, table))
                sent.result(60)
        assert all(set(earlier) <= set(later) for earlier, later in zip(seen, seen[1:], strict=False))
        served.proxy.report.require(1, Fault.TORN)

    def test_an_answered_transaction_is_seen_whole(self, serve, table):
        served = serve(replace(KIND, transactions=Transactions(0.05), torn_pages=TornPages()))
        served.client().transact_write_items(TransactItems=puts(table, "a", "b", "c"))
        assert sorts(served.client(), table) == ["a", "b", "c"]

    def test_changed_and_deleted_items_are_shown_as_they_were(self, serve, table, direct, under_way):
        served = serve(replace(KIND, transactions=FOREVER, torn_pages=TornPages()))
        client = served.client()
        for each in ("a", "b"):
            put(client, table, s=each, v=number(1))
        items = [
            {
                "Update": {
                    "TableName": table,
                    "Key": key(s="a"),
                    "UpdateExpression": "SET v = :v",
                    "ExpressionAttributeValues": {":v": number(2)},
                }
            },
            {"Delete": {"TableName": table, "Key": key(s="b")}},
        ]
        under_way(served, items, lambda client: sorts(client, table) == ["a"])
        before = client.query(
            TableName=table,
            KeyConditionExpression="p = :p AND begins_with(s, :b)",
            ExpressionAttributeValues={":p": text("p"), ":b": text("b")},
        )
        one = client.get_item(TableName=table, Key=key(s="a"), ConsistentRead=True)
        both = client.batch_get_item(RequestItems={table: {"Keys": [key(s="a"), key(s="b")]}})
        assert before["Items"] == [key(s="b") | {"v": number(1)}]
        assert one["Item"]["v"] == number(1)
        assert {item["s"]["S"] for item in both["Responses"][table]} == {"a", "b"}
        assert direct.get_item(TableName=table, Key=key(s="a"))["Item"]["v"] == number(2)

    @pytest.mark.parametrize("forward", [True, False])
    def test_a_page_that_was_passed_shows_a_later_write_and_not_an_earlier_one(self, forward, serve, table):
        served = serve(replace(KIND, torn_pages=TornPages(pages=1.0, page_seconds=0.2)))
        client, other = served.client(), served.client()
        names = ("a", "b", "c") if forward else ("c", "b", "a")
        torn = []
        with ThreadPoolExecutor(1) as pool:
            while not torn:
                for each in names:
                    other.delete_item(TableName=table, Key=key(s=each))
                page = pool.submit(sorts, client, table, ScanIndexForward=forward)
                for each in names:
                    put(other, table, s=each)
                seen = page.result(60)
                torn = [each for each in (seen,) if each and names[0] not in each]
        assert sorts(client, table) == ["a", "b", "c"], "what is read after the writes shows them all"
        served.proxy.report.require(1, Fault.PASSED)


class TestCapacity:
    def test_a_key_takes_so_many_writes_and_others_go_on(self, serve, table):
        served = serve(replace(KIND, capacity=Capacity(write_units=20, partitions=1_000_000)))
        client = served.client()
        with pytest.raises(ClientError) as refused:
            for each in range(1_000):
                put(client, table, s=str(each))
        assert code_of(refused) == "ThrottlingException"
        assert refused.value.response["throttlingReasons"][0]["reason"] == "TableWriteKeyRangeThroughputExceeded"
        put(client, table, p="other")
        served.proxy.report.require(1, Fault.KEY_THROTTLED)

    def test_a_partition_takes_so_many_writes_whatever_the_keys(self, serve, table):
        rule = Capacity(write_units=20, partitions=1, refusal="ProvisionedThroughputExceededException")
        served = serve(replace(KIND, capacity=rule))
        client = served.client()
        with pytest.raises(ClientError) as refused:
            for each in range(1_000):
                put(client, table, p=str(each))
        assert code_of(refused) == "ProvisionedThroughputExceededException"

    def test_a_throttled_index_throttles_its_table(self, serve, table):
        served = serve(replace(KIND, capacity=Capacity(write_units=20, partitions=1_000_000)))
        client = served.client()
        with pytest.raises(ClientError) as refused:
            for each in range(1_000):
                put(client, table, p=str(each), q=text("0"), d=number(each))
        assert refused.value.response["throttlingReasons"][0]["reason"] == "IndexWriteKeyRangeThroughputExceeded"
        put(client, table, p="not in the index")
        put(client, table, p="in another part", q=text("1"), d=number(1))
        served.proxy.report.require(1, Fault.INDEX_THROTTLED)

    def test_a_transaction_pays_twice_and_is_cancelled(self, serve, table):
        served = serve(replace(KIND, capacity=Capacity(write_units=20, partitions=1_000_000)))
        client = served.client()
        with pytest.raises(ClientError) as refused:
            for each in range(1_000):
                client.transact_write_items(TransactItems=puts(table, str(each), p="hot") + puts(table, str(each)))
        reasons = [each["Code"] for each in refused.value.response["CancellationReasons"]]
        assert "ThrottlingError" in reasons

    def test_reads_have_units_of_their_own(self, serve, table):
        served = serve(replace(KIND, capacity=Capacity(read_units=5, partitions=1_000_000)))
        client = served.client()
        put(client, table, s="a")
        with pytest.raises(ClientError) as refused:
            for _ in range(1_000):
                sorts(client, table)
        assert refused.value.response["throttlingReasons"][0]["reason"] == "TableReadKeyRangeThroughputExceeded"
        put(client, table, s="b")

    def test_a_client_gets_the_units_it_has_asked_for(self, serve, table):
        client = serve(replace(KIND, capacity=Capacity())).client()
        item = key() | {"q": text("0"), "d": number(1)}
        assert "ConsumedCapacity" not in client.put_item(TableName=table, Item=item)
        total = client.put_item(TableName=table, Item=key(s="t"), ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
        assert total == {"TableName": table, "CapacityUnits": 1.0}
        each = client.put_item(TableName=table, Item=item, ReturnConsumedCapacity="INDEXES")["ConsumedCapacity"]
        assert {"Table", "CapacityUnits"} <= each.keys()


class TestBatchesAndPages:
    def test_a_batch_leaves_some_and_the_rest_can_be_asked_for(self, serve, table):
        served = serve(replace(KIND, unprocessed=Unprocessed(1.0)))
        client = served.client()
        wanted = {table: [{"PutRequest": {"Item": key(s=f"{each:02}")}} for each in range(20)]}
        while wanted:
            wanted = client.batch_write_item(RequestItems=wanted)["UnprocessedItems"]
        assert len(sorts(client, table)) == 20
        found, keys = [], {table: {"Keys": [key(s=f"{each:02}") for each in range(20)], "ConsistentRead": True}}
        while keys:
            answer = client.batch_get_item(RequestItems=keys)
            found += answer["Responses"].get(table, [])
            keys = answer["UnprocessedKeys"]
        assert sorted(item["s"]["S"] for item in found) == sorts(client, table)
        served.proxy.report.require(2, Fault.UNPROCESSED)

    def test_a_page_may_end_early(self, serve, table):
        served = serve(replace(KIND, short_pages=ShortPages(1.0)))
        client = served.client()
        for each in range(10):
            put(client, table, s=str(each))
        found, more, pages = [], {}, 0
        while True:
            pages += 1
            answer = client.query(
                TableName=table,
                KeyConditionExpression="p = :p",
                ExpressionAttributeValues={":p": text("p")},
                Limit=10,
                **more,
            )
            found += [item["s"]["S"] for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                break
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        assert found == [str(each) for each in range(10)]
        assert pages > 1
        served.proxy.report.require(1, Fault.PAGE_CUT_SHORT)


class TestIndexLag:
    LATE = IndexLag(longest_seconds=1e30)  # lags are mostly short: of the shortest drawn, too, nothing is shown

    def due(self, client: Any, table: str, last: int = 100) -> list[tuple[str, str]]:
        found = client.query(
            TableName=table,
            IndexName="due",
            KeyConditionExpression="#q = :q AND #d BETWEEN :first AND :last",
            ExpressionAttributeNames={"#q": "q", "#d": "d"},
            ExpressionAttributeValues={":q": text("0"), ":first": number(0), ":last": number(last)},
        )
        return [(item["p"]["S"], item["d"]["N"]) for item in found["Items"]]

    def move(self, client: Any, table: str, p: str, to: int) -> None:
        client.update_item(
            TableName=table,
            Key=key(p, "s"),
            UpdateExpression="SET #due = :d",
            ExpressionAttributeNames={"#due": "d"},
            ExpressionAttributeValues={":d": number(to)},
            ReturnValues="ALL_NEW",
        )

    def test_new_entries_are_missed_and_old_ones_shown(self, serve, table, direct):
        served = serve(replace(KIND, index_lag=self.LATE))
        client = served.client()
        for p, d in (("gone", 1), ("moved", 2), ("stays", 3)):
            put(direct, table, p=p, q=text("0"), d=number(d))
        put(client, table, p="new", q=text("0"), d=number(4))
        client.delete_item(TableName=table, Key=key("gone"))
        self.move(client, table, "moved", 50)
        assert self.due(direct, table) == [("stays", "3"), ("new", "4"), ("moved", "50")]
        assert self.due(client, table) == [("gone", "1"), ("moved", "2"), ("stays", "3")]
        assert served.faults == {Fault.INDEX_MISSED: 2, Fault.INDEX_STALE: 2}

    def test_the_changes_of_an_item_are_shown_in_their_order(self, serve, table):
        served = serve(replace(KIND, index_lag=IndexLag(2.0)))
        client = served.client()
        put(client, table, q=text("0"), d=number(0))
        seen = []
        for each in range(1, 20):
            self.move(client, table, "p", each)
            seen.append(self.due(client, table))
        while seen[-1] != [("p", "19")]:
            seen.append(self.due(client, table))
        shown = [int(each[0][1]) for each in seen if each]
        assert shown == sorted(shown)
        served.proxy.report.require(1, Fault.INDEX_STALE)

    def test_answers_have_no_more_than_was_asked_for(self, serve, table):
        client = serve(replace(KIND, index_lag=self.LATE)).client()
        put(client, table, q=text("0"), d=number(1))
        assert "Attributes" not in put(client, table, q=text("0"), d=number(2))
        old = client.put_item(TableName=table, Item=key(), ReturnValues="ALL_OLD")
        assert old["Attributes"]["d"] == number(2)


class TestFaultsOfTheWay:
    def attempts(self, served: Any, table: str) -> list[tuple[str, bool]]:
        """For each of some writes its error, and whether it was applied."""
        client, found = served.client(), []
        for each in range(40):
            try:
                put(client, table, s=str(each))
                found.append(("", each))
            except ClientError as error:
                found.append((error.response["Error"]["Code"], each))
            except HTTPClientError as error:
                found.append((type(error).__name__, each))
        return found

    @pytest.mark.parametrize(
        ("rules", "applied", "fault"),
        [
            (replace(KIND, failures=Failures(before=0.3, after=0.0)), False, Fault.FAILED_BEFORE),
            (replace(KIND, failures=Failures(before=0.0, after=0.3)), True, Fault.FAILED_AFTER),
            (replace(KIND, cuts=Cuts(before=0.3, after=0.0, within=0.0)), False, Fault.CUT_BEFORE),
            (replace(KIND, cuts=Cuts(before=0.0, after=0.3, within=0.0)), True, Fault.CUT_AFTER),
            (replace(KIND, cuts=Cuts(before=0.0, after=0.0, within=0.3)), True, Fault.CUT_WITHIN),
            (replace(KIND, throttling=Throttling(0.3)), False, Fault.THROTTLED),
        ],
    )
    def test_a_request_that_fails_was_applied_or_not(self, rules, applied, fault, serve, table, direct):
        served = serve(rules)
        found = self.attempts(served, table)
        there = set(sorts(direct, table))
        failed = [each for error, each in found if error]
        assert len(failed) == served.faults[fault] > 0
        assert all((str(each) in there) is applied for each in failed)
        assert all(str(each) in there for error, each in found if not error)

    def test_the_same_seed_gives_the_same_faults(self, serve, table):
        rules = replace(KIND, failures=Failures(0.2, 0.2), cuts=Cuts(0.1, 0.1, 0.1))
        runs = [[error for error, _ in self.attempts(serve(rules, seed), table)] for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]

    def test_slow_ones_are_answered(self, serve, table):
        served = serve(replace(KIND, slowness=Slowness(1.0, 0.01)))
        assert not any(error for error, _ in self.attempts(served, table))
        served.proxy.report.require(1, Fault.SLOW_BEFORE, Fault.SLOW_AFTER)

    def test_an_emulator_that_is_gone_is_a_failure_of_the_service(self, table):
        from tests.testing.hostile.conftest import Served

        from holdfast.testing.hostile import HostileDynamoDB

        with HostileDynamoDB("http://127.0.0.1:9") as dynamodb:
            served = Served(dynamodb)
            with pytest.raises(ClientError) as refused:
                put(served.client(), table)
            served.close()
        assert code_of(refused) == "InternalServerError"


def raw(url: str, method: str, body: bytes = b"") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request(method, "/", body, HEADERS | {"X-Amz-Target": "DynamoDB_20120810.ListTables"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_checksum_of_an_answer_is_right(serve, table):
    answer, body = raw(serve().url, "POST", b"{}")
    assert int(answer.headers["x-amz-crc32"]) == zlib.crc32(body)


def test_the_report_can_be_read_over_http(serve, table):
    served = serve(replace(KIND, failures=Failures(1.0, 0.0)))
    with pytest.raises(ClientError):
        put(served.client(), table)
    _, body = raw(served.url, "GET")
    assert json.loads(body) == {"requests": {"PutItem": 1}, "faults": {str(Fault.FAILED_BEFORE): 1}}


def test_a_report_without_the_fault_fails(serve):
    with pytest.raises(AssertionError, match="0 times"):
        serve().proxy.report.require(1, Fault.TORN)
