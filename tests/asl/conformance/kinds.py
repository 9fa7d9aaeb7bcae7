"""The kinds of cases, and what checks each. A kind that is not here fails: nothing is skipped in silence."""

from __future__ import annotations

from tests.asl.conformance import definitions, executions, single_states
from tests.asl.conformance.cases import Case, Check, Differences

KINDS: dict[str, Check] = {
    "execution": executions.check,
    "execution_describe": executions.check,
    "execution_sync_express": executions.check,
    "lint": definitions.check_lint,
    "create_rejected": definitions.check_rejection,
    "validate_definition": definitions.check_validation,
    "test_state_api": single_states.check,
}


def check(case: Case) -> Differences:
    """How a case differs from what is expected of it."""
    by = KINDS.get(case["kind"])
    if by is None:
        return [f"no check for the kind {case['kind']!r}"]
    try:
        return by(case)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
