"""``holdfast aws verify`` before it begins: what it tells, asks and refuses. The trials are in ``tests/verify``."""

from __future__ import annotations

import pytest

from holdfast.cli import aws_verify
from holdfast.verify import CHECKS

NOWHERE = "aws://shop?region=eu-west-1&endpoint=http://127.0.0.1:1"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_without_a_terminal_it_says_how_to_begin(shop, options):
    refused = shop.invoke("aws", "verify", NOWHERE, *options)
    assert refused.exit_code == 2
    assert "Add --yes to do it." in refused.stderr
    assert "at most $" in refused.stderr
    assert "Deploy it?" not in refused.stderr


def test_a_person_is_asked(shop, monkeypatch):
    monkeypatch.setattr(aws_verify, "is_interactive", lambda: True)
    refused = shop.invoke("aws", "verify", NOWHERE, stdin="n\n")
    assert refused.exit_code == 130
    assert "Deploy it?" in refused.stderr


def test_a_home_that_is_not_on_aws_is_refused_before_anything_is_told(shop):
    refused = shop.invoke("aws", "verify", "sqlite:///shop.db")
    assert refused.exit_code == 1
    assert "names no home on AWS" in refused.stderr
    assert "at most $" not in refused.stderr


def test_names_of_checks_are_told_apart(shop):
    told = shop.invoke("aws", "verify", NOWHERE, "--only", "nothing").stderr
    assert all(repr(check.name) in " ".join(told.split()) for check in CHECKS)
