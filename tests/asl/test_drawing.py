"""Pictures of machines: layers, outlines, and an SVG that holds every state and transition once."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from holdfast.asl.definition import parse
from holdfast.asl.drawing import Diagram, Mark, diagram_of, marks_of, outline, svg
from holdfast.asl.events import Event

INNER = {"StartAt": "I", "States": {"I": {"Type": "Pass", "End": True}}}
CHECKOUT: dict[str, Any] = {
    "StartAt": "Check",
    "States": {
        "Check": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.n", "NumericEquals": 1, "Next": "Pay"}],
            "Default": "Both",
        },
        "Pay": {
            "Type": "Task",
            "Resource": "pay",
            "Next": "Done",
            "Catch": [{"ErrorEquals": ["Declined"], "Next": "Check"}],
        },
        "Both": {
            "Type": "Parallel",
            "Next": "Done",
            "Branches": [
                {"StartAt": "A", "States": {"A": {"Type": "Wait", "Seconds": 3, "End": True}}},
                {"StartAt": "B", "States": {"B": {"Type": "Map", "End": True, "ItemProcessor": INNER}}},
            ],
        },
        "Done": {"Type": "Succeed"},
    },
}
RECT, PATH, TEXT = (f"{{http://www.w3.org/2000/svg}}{name}" for name in ("rect", "path", "text"))


def diagram(definition: dict[str, Any] = CHECKOUT) -> Diagram:
    return diagram_of(parse(definition).processor)


def test_a_state_is_below_those_that_lead_to_it_and_a_loop_leads_back() -> None:
    assert [[node.name for node in layer] for layer in diagram().layers] == [["Check"], ["Pay", "Both"], ["Done"]]


def test_a_long_way_pushes_a_state_down() -> None:
    states = {name: {"Type": "Pass", "Next": following} for name, following in zip("ABC", "BCD", strict=True)}
    states["A"] = {"Type": "Choice", "Choices": [{"Variable": "$", "IsNull": True, "Next": "D"}], "Default": "B"}
    found = diagram({"StartAt": "A", "States": {"D": {"Type": "Succeed"}, **states}})
    assert [[node.name for node in layer] for layer in found.layers] == [["A"], ["B"], ["C"], ["D"]]


def test_an_outline_says_where_each_state_leads_to() -> None:
    assert list(outline(diagram())) == [
        "▶ Check (Choice) → Pay [rule 1], Both [default]",
        "Pay (Task) → Done, Check [Declined]",
        "Both (Parallel) → Done",
        "  branch 1:",
        "    ▶ A (Wait) → ■",
        "  branch 2:",
        "    ▶ B (Map) → ■",
        "      ▶ I (Pass) → ■",
        "Done (Succeed) → ■",
    ]


def test_a_picture_has_a_box_for_each_state_and_a_curve_for_each_transition() -> None:
    root = ET.fromstring(svg(diagram()))  # noqa: S314 - our own output
    texts = [element.text for element in root.iter(TEXT)]
    assert [texts.count(name) for name in ("Check", "Pay", "Both", "Done", "A", "B", "I")] == [1] * 7
    assert len(list(root.iter(RECT))) == 7
    assert sum(element.get("class") == "edge" for element in root.iter(PATH)) == 5


def test_what_is_drawn_inside_lies_inside() -> None:
    root = ET.fromstring(svg(diagram()))  # noqa: S314 - our own output
    boxes = [[float(element.get(name) or 0) for name in ("x", "y", "width", "height")] for element in root.iter(RECT)]
    outer = max(boxes, key=lambda box: box[2] * box[3])
    inside = [box for box in boxes if box is not outer and outer[1] < box[1] < outer[1] + outer[3]]
    assert len(inside) == 3
    assert all(outer[0] < x and x + width < outer[0] + outer[2] for x, _, width, _ in inside)
    assert all(y + height < outer[1] + outer[3] for _, y, _, height in inside)


def test_where_an_execution_stands_is_marked_and_names_are_escaped() -> None:
    definition = {"StartAt": "a<b", "States": {"a<b": {"Type": "Succeed"}}}
    plain, marked = svg(diagram(definition)), svg(diagram(definition), {"a<b": Mark.CURRENT})
    assert "a&lt;b" in plain
    assert 'stroke-width="3"' in marked
    assert "Succeed · ▶ current" in marked
    assert 'stroke-width="3"' not in plain


def test_the_same_definition_makes_the_same_picture() -> None:
    assert svg(diagram()) == svg(diagram())


def test_each_mark_differs_in_its_word_and_in_its_frame() -> None:
    one = {"StartAt": "S", "States": {"S": {"Type": "Pass", "End": True}}}
    pictures = [svg(diagram(one), {"S": mark}) for mark in Mark]
    frames = set()
    for mark, picture in zip(Mark, pictures, strict=True):
        root = ET.fromstring(picture)  # noqa: S314 - our own output
        assert f"Pass · {mark.value}" in [element.text for element in root.iter(TEXT)]
        (box,) = root.iter(RECT)
        frames.add((box.get("stroke-width"), box.get("stroke-dasharray")))
    assert len(frames) == len(Mark), "no two differ by colour alone"
    assert "style" not in "".join(pictures), "the policy of a page may forbid styles"


def events(*told: tuple[int, str, str]) -> list[Event]:
    """Events, each with the number of the one before it, its type and the name of its state."""
    return [
        Event(number, before, 0.0, type, {"name": name} if name else {})
        for number, (before, type, name) in enumerate(told, 1)
    ]


def test_what_a_state_has_come_to_follows_from_its_line_of_events() -> None:
    history = events(
        (0, "ExecutionStarted", ""),
        (1, "PassStateEntered", "A"),
        (2, "PassStateExited", "A"),
        (3, "ParallelStateEntered", "Both"),
        (4, "ParallelStateStarted", ""),
        (5, "TaskStateEntered", "Pay"),
        (5, "WaitStateEntered", "Pause"),
        (6, "TaskScheduled", ""),
        (8, "TaskStarted", ""),
    )
    assert marks_of(history, has_ended=False) == {
        "A": Mark.LEFT,
        "Both": Mark.CURRENT,
        "Pay": Mark.CURRENT,
        "Pause": Mark.CURRENT,
    }
    failed = events((9, "TaskFailed", ""), (7, "WaitStateAborted", ""), (10, "TaskStateAborted", ""))
    history += [Event(9 + each.id, each.before, 0.0, each.type, {}) for each in failed]
    history.append(Event(13, 5, 0.0, "ParallelStateFailed", {}))
    assert marks_of(history, has_ended=True) == {
        "A": Mark.LEFT,
        "Both": Mark.FAILED,
        "Pay": Mark.FAILED,
        "Pause": Mark.STOPPED,
    }


def test_a_task_that_is_tried_again_is_current_again_and_a_stopped_execution_has_no_current_state() -> None:
    history = events((0, "TaskStateEntered", "Pay"), (1, "TaskScheduled", ""), (2, "TaskFailed", ""))
    assert marks_of(history, has_ended=True) == {"Pay": Mark.FAILED}
    history += [Event(4, 3, 0.0, "TaskScheduled", {})]
    assert marks_of(history, has_ended=False) == {"Pay": Mark.CURRENT}
    assert marks_of(history, has_ended=True) == {"Pay": Mark.STOPPED}
