"""A host that cannot be reached hides no other, whatever is asked of a profile's hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hosts.lab.ports import free_port
from tests.hosts.served.host import ServedHost

ASKED = {
    "plan": ("steps", ("plan",)),
    "clean --plan": ("steps", ("clean", "--plan")),
    "doctor": ("findings", ("doctor",)),
    "status": ("serving", ("status",)),
    "history": ("runs", ("history",)),
    "diff": ("figures", ("diff", "current", "current")),
    "build --list": ("wheels", ("build", "--list")),
    "build --prune": ("removed", ("build", "--prune", "1G")),
    "build --stop": ("was", ("build", "--stop", "build-one")),
    "gc": ("removed", ("gc",)),
}


@pytest.fixture
def both(served: ServedHost) -> str:
    """Hosts of the profile: one where nobody listens, and then the real one."""
    gone = f"{{name: gone, ssh: {{address: 127.0.0.1, port: {free_port()}}}}}"
    return f"hosts=[{gone}, {{name: here, local: true, root: {served.root}}}]"


def ask(served: ServedHost, *argv: str) -> tuple[int, str]:
    with served.start(*argv) as asked:
        told = asked.output()
    return asked.returncode, told


def test_every_other_one_is_told_of(served: ServedHost, both: str) -> None:
    assert served.up().exit_code == 0
    served.ask("jobs.start", id="build-one", steps=[{"phase": "compiling", "argv": ["true"]}])
    for name, (key, argv) in ASKED.items():
        code, text = ask(served, *argv, "--json", "--set", both)
        document: dict[str, Any] = json.loads(text)
        gone, here = document["hosts"]
        assert (code, document["exit_code"]) == (4, 4), name
        assert (gone["host"], here["host"]) == ("gone", "here"), name
        assert "gone" in gone["error"]["what"] and gone["error"]["next"], name
        assert key in here and "error" not in here, name


def test_in_lines_too(served: ServedHost, both: str) -> None:
    for argv in (("plan",), ("gc",), ("history",)):
        code, text = ask(served, *argv, "--set", both)
        assert code == 4 and "gone  unknown" in text and "\nhere" in text.split("gone  ")[1], argv


def test_where_there_is_no_other_the_failure_is_the_answer(served: ServedHost, both: str) -> None:
    for command, told in (("plan", ""), ("gc", ""), ("status", "gone  unknown")):
        code, text = ask(served, command, "--set", both, "--host", "gone")
        assert code == 4 and text.startswith(told) and bool(text) == bool(told), command
