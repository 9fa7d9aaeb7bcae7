"""The objects of a case that a Map reads, and those that it writes: S3, as far as a state machine sees it."""

from __future__ import annotations

from typing import Any

from tests.asl.conformance.cases import Case

import holdfast as hf


def tasks(case: Case) -> dict[str, Any]:
    """What to map for the readers and writers of a case."""
    stored = {(each["Bucket"], each["Key"]): each["Body"] for each in case.get("s3_objects", ())}

    def get_object(given: Any) -> Any:
        key = (given["Bucket"], given["Key"])
        if key not in stored:
            raise hf.asl.Error("S3.NoSuchKeyException", "The specified key does not exist.")
        return stored[key]

    def list_objects(given: Any) -> Any:
        prefix = given.get("Prefix", "")
        found = sorted(key for bucket, key in stored if bucket == given["Bucket"] and key.startswith(prefix))
        return [{"Key": key, "Size": len(stored[given["Bucket"], key])} for key in found]

    def put_object(given: Any) -> None:
        stored[given["Bucket"], given["Key"]] = given["Body"]

    return {
        "arn:aws:states:::s3:getObject": get_object,
        "arn:aws:states:::s3:listObjectsV2": list_objects,
        "arn:aws:states:::s3:putObject": put_object,
    }
