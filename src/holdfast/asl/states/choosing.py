"""Choice: where the machine goes on."""

from __future__ import annotations

from typing import cast

from holdfast.asl import choice, processing
from holdfast.asl.definition import Choice, ChoiceRule
from holdfast.asl.errors import NO_CHOICE_MATCHED, EvaluationError
from holdfast.asl.processing import Left
from holdfast.asl.templates import of_type
from holdfast.asl.visit import Visit


def chosen(visit: Visit) -> Left:
    """How a Choice is left: by its first rule that holds, else by its default. Raises ``EvaluationError``."""
    state = cast("Choice", visit.state)
    effective = processing.effective_input(visit)
    for place, rule in enumerate(state.rules):
        if _holds(rule, place, visit, effective):
            return processing.decided(visit, effective, rule)
    if state.default is None:
        raise EvaluationError(
            NO_CHOICE_MATCHED, "Failed to transition out of the state. The state does not point to a next state."
        )
    return processing.decided(visit, effective, None)


def _holds(rule: ChoiceRule, place: int, visit: Visit, effective: object) -> bool:
    if "Condition" in rule.test:
        return bool(of_type("boolean", rule.test["Condition"], visit, f"Choices[{place}]/Condition"))
    return choice.holds(rule.test, visit.about(effective))
