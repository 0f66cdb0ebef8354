"""The wire's types are those of the operations, and hold at its edge."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import deployctl
from deployctl.agent.main import operations
from deployctl.agent.wire.answers import Listener, Process, UnitState
from deployctl.agent.wire.results import RESULTS
from deployctl.errors import ConnectionLost
from deployctl.hosts.operations import units
from deployctl.hosts.shapes import mismatch
from tests.unit.hosts.scripted_agent import Message, answering, scripted

PROCESS: Process = {
    "pid": 1,
    "start": 2,
    "started": 3.5,
    "comm": "c",
    "state": "S",
    "parent": 0,
    "session": 1,
    "command": "c x",
}


@pytest.mark.parametrize("op", sorted(operations()))
def test_an_operation_gives_what_the_wire_says(op: str) -> None:
    assert get_type_hints(operations()[op])["return"] == RESULTS[op]


def test_the_wire_knows_no_operation_that_there_is_not() -> None:
    assert RESULTS.keys() == operations().keys()


OP = re.compile("|".join(map(re.escape, operations())))


def test_the_program_names_no_operation_in_text() -> None:
    """An operation is asked by `hosts.operations`, where mypy knows its arguments and answer."""
    sources = Path(deployctl.__file__).parent
    named = [
        f"{path.relative_to(sources)}: {node.value}"
        for path in sources.rglob("*.py")
        if path.parent.name != "wire"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if OP.fullmatch(node.value)
    ]
    assert named == []


@pytest.mark.parametrize(
    ("value", "shape", "said"),
    [
        (PROCESS, Process, ""),
        ({**PROCESS, "more": 1}, Process, ""),
        ({**PROCESS, "pid": "1"}, Process, "pid is '1', not an integer"),
        ({**PROCESS, "pid": True}, Process, "pid is True, not an integer"),
        ({**PROCESS, "pid": 2**64}, Process, "not an integer"),
        ({**PROCESS, "started": float("nan")}, Process, "started is nan, not a number"),
        ({**PROCESS, "started": 3}, Process, ""),
        ({"pid": 1}, Process, "it lacks"),
        ([], Process, "it is list, not an object"),
        ({"state": "absent", "pid": None, "start": None, "release": None}, UnitState, "members"),
        (None, Listener, "it is None, not an object"),
        ([[1]], list[str], "[0] is list, not text"),
        ({"a": [1, "b"]}, dict[str, list[int]], "a[1] is 'b', not an integer"),
        ("c", int | None, "it is 'c', not an integer"),
    ],
)
def test_where_a_value_differs(value: Any, shape: Any, said: str) -> None:
    found = mismatch(value, shape)
    assert said in found and bool(said) == bool(found)


def test_a_wrong_answer_is_a_lost_connection() -> None:
    unit = {"state": "running", "pid": "many", "start": 1, "release": "r", "members": []}
    wrong = {"id": 0, "results": [{"value": unit}]}
    with scripted(answering(wrong)) as session, pytest.raises(ConnectionLost) as caught:
        session.call("units.state", profile="x", unit="server")
    assert "units.state: pid is 'many', not an integer" in caught.value.why
    assert caught.value.exit_code == 4


def example(shape: Any, luck: random.Random) -> Any:
    """A value of a type of the wire."""
    if is_typeddict(shape):
        return {name: example(hint, luck) for name, hint in get_type_hints(shape).items()}
    origin, inner = get_origin(shape), get_args(shape)
    if origin is list:
        return [example(inner[0], luck) for _ in range(luck.randrange(3))]
    if origin is dict:
        return {f"k{number}": example(inner[1], luck) for number in range(luck.randrange(3))}
    if inner:
        return example(luck.choice(inner), luck)
    plain = {str: "t", int: 7, float: 0.5, bool: True, type(None): None}
    return plain.get(shape, {"any": [1]})


@pytest.mark.parametrize("op", sorted(op for op in RESULTS if RESULTS[op] is not Any))
def test_right_values_pass_and_spoilt_ones_end_the_connection(op: str) -> None:
    luck = random.Random(op)
    for _ in range(20):
        assert mismatch(example(RESULTS[op], luck), RESULTS[op]) == ""

    def script(message: Message) -> Iterable[Message]:
        if "calls" in message:
            yield {"id": message["id"], "results": [{"value": luck.choice((None, 7, "t", [[]]))}]}

    with scripted(script) as session, pytest.raises(ConnectionLost) as caught:
        session.call(op)
    assert op in caught.value.why and caught.value.exit_code == 4


def test_an_operation_is_asked_by_its_own_name() -> None:
    unit: Message = {"state": "absent", "pid": None, "start": None, "release": None, "members": []}
    asked: list[Message] = []

    def script(message: Message) -> Iterable[Message]:
        if "calls" in message:
            asked.extend(message["calls"])
            yield {"id": message["id"], "results": [{"value": unit}]}

    with scripted(script) as session:
        assert session.call(units.state, profile="x", unit="server")["state"] == "absent"
    assert asked == [{"op": "units.state", "args": {"profile": "x", "unit": "server"}}]
