"""Rules for what only a Map has: its processor's configuration, its reader, batches, writer and label."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.asl.validation.diagnostic import DUPLICATE_LABEL, INVALID_LABEL, Path
from holdfast.asl.validation.expressions import or_expression, template
from holdfast.asl.validation.kinds import is_object
from holdfast.asl.validation.values import integer, list_of, one_of, path, text
from holdfast.asl.validation.visit import Shape, Visit, check_object

INLINE: Final = "INLINE"
DISTRIBUTED: Final = "DISTRIBUTED"

LABEL_CHARACTERS: Final = 40
MOST_ITEMS: Final = 100_000_000
MOST_BATCH_BYTES: Final = 262_144

READERS = re.compile(r"arn:[\w-]+:states:::s3:(getObject|listObjectsV2)")
WRITERS = re.compile(r"arn:[\w-]+:states:::s3:putObject")
FORBIDDEN_IN_LABELS = re.compile(r"""[\s?*<>{}\[\]:;,\\|^~$#%&`"\x00-\x1f\x7f-\x9f]""")
"""Source: https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html, "Label"."""


def label(visit: Visit, at: Path, value: Any) -> None:
    """A label: short, unique in the machine, and without what an ARN cannot have."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not value or len(value) > LABEL_CHARACTERS:
        visit.report(at, f"A label has 1 to {LABEL_CHARACTERS} characters", INVALID_LABEL)
    elif found := FORBIDDEN_IN_LABELS.search(value):
        visit.report(at, f"Label contains invalid character: {found[0]!r}", INVALID_LABEL)
    elif value in visit.labels:
        visit.report(at, f"Duplicate label: {value}", DUPLICATE_LABEL)
    else:
        visit.labels[value] = at


def processor_config(visit: Visit, at: Path, value: Any) -> None:
    """``ProcessorConfig``: where the iterations run, and for distributed ones what they are."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
        return
    distributed = value.get("Mode") == DISTRIBUTED
    check_object(visit, at, value, DISTRIBUTED_CONFIG if distributed else INLINE_CONFIG)
    if distributed and visit.profile.aws and "ExecutionType" not in value:
        visit.report(at, "These fields are required: [ExecutionType]")
    if distributed and visit.profile.express:
        told = "The field 'Mode' with value 'DISTRIBUTED' is not supported inside 'EXPRESS' state machines"
        visit.report((*at, "Mode"), told)


def item_reader(visit: Visit, at: Path, value: Any) -> None:
    """``ItemReader``."""
    check_object(visit, at, value, READER)


def reader_config(visit: Visit, at: Path, value: Any) -> None:
    """``ReaderConfig``: the format of what is read, and how much of it."""
    if not check_object(visit, at, value, READER_CONFIG):
        return
    headers = [name for name in ("CSVHeaderLocation", "CSVHeaders", "CSVDelimiter") if name in value]
    if "InputType" in value and value["InputType"] != "CSV":
        for name in headers:
            visit.report(at, f"Field '{name}' is not supported")
    elif visit.profile.aws and value.get("InputType") == "CSV" and "CSVHeaderLocation" not in value:
        visit.report(at, "The field 'CSVHeaderLocation' is required")
    if value.get("CSVHeaderLocation") == "GIVEN" and "CSVHeaders" not in value:
        visit.report(at, "These fields are required: [CSVHeaders]")


def item_batcher(visit: Visit, at: Path, value: Any) -> None:
    """``ItemBatcher``."""
    if check_object(visit, at, value, BATCHER) and not any(name in value for name in BATCH_SIZES):
        visit.report(at, f"This object should have at least one of the following fields: [{', '.join(BATCH_SIZES)}]")


def result_writer(visit: Visit, at: Path, value: Any) -> None:
    """``ResultWriter``."""
    check_object(visit, at, value, WRITER)


def writer_config(visit: Visit, at: Path, value: Any) -> None:
    """``WriterConfig``."""
    check_object(visit, at, value, WRITER_CONFIG)


def resource(allowed: re.Pattern[str]) -> Any:
    """The resource of a reader or a writer."""

    def check(visit: Visit, at: Path, value: Any) -> None:
        if not isinstance(value, str) or (visit.profile.aws and not allowed.fullmatch(value)):
            visit.report(at, "The field 'Resource' does not match any of the allowed values")

    return check


INLINE_CONFIG: Final = Shape({"Mode": one_of(INLINE, DISTRIBUTED)})
DISTRIBUTED_CONFIG: Final = Shape({"Mode": one_of(INLINE, DISTRIBUTED), "ExecutionType": one_of("STANDARD", "EXPRESS")})
READER_CONFIG: Final = Shape(
    {
        "InputType": one_of("CSV", "JSON", "JSONL", "PARQUET", "MANIFEST"),
        "Transformation": one_of("NONE", "LOAD_AND_FLATTEN"),
        "ManifestType": one_of("ATHENA_DATA", "S3_INVENTORY"),
        "CSVDelimiter": one_of("COMMA", "PIPE", "SEMICOLON", "SPACE", "TAB"),
        "CSVHeaderLocation": one_of("FIRST_ROW", "GIVEN"),
        "CSVHeaders": list_of(text, empty=False),
        "ItemsPointer": text,
        "MaxItems": or_expression(integer(1, MOST_ITEMS)),
        "MaxItemsPath": path,
    },
    exclusive=(("MaxItems", "MaxItemsPath"),),
    jsonpath=frozenset({"MaxItemsPath"}),
)
READER: Final = Shape(
    {
        "Comment": text,
        "Resource": resource(READERS),
        "Parameters": template,
        "Arguments": template,
        "ReaderConfig": reader_config,
    },
    required=("Resource",),
    jsonpath=frozenset({"Parameters"}),
    jsonata=frozenset({"Arguments"}),
)
BATCH_SIZES: Final = (
    "MaxItemsPerBatch",
    "MaxItemsPerBatchPath",
    "MaxInputBytesPerBatch",
    "MaxInputBytesPerBatchPath",
)
BATCHER: Final = Shape(
    {
        "Comment": text,
        "BatchInput": template,
        "MaxItemsPerBatch": or_expression(integer(1, MOST_ITEMS)),
        "MaxItemsPerBatchPath": path,
        "MaxInputBytesPerBatch": or_expression(integer(1, MOST_BATCH_BYTES)),
        "MaxInputBytesPerBatchPath": path,
    },
    exclusive=(BATCH_SIZES[:2], BATCH_SIZES[2:]),
    jsonpath=frozenset({"MaxItemsPerBatchPath", "MaxInputBytesPerBatchPath"}),
)
WRITER_CONFIG: Final = Shape(
    {"Transformation": one_of("NONE", "COMPACT", "FLATTEN"), "OutputType": one_of("JSON", "JSONL")}
)
WRITER: Final = Shape(
    {
        "Comment": text,
        "Resource": resource(WRITERS),
        "Parameters": template,
        "Arguments": template,
        "WriterConfig": writer_config,
    },
    jsonpath=frozenset({"Parameters"}),
    jsonata=frozenset({"Arguments"}),
)
