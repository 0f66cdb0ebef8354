"""The last line of a run says only what its steps have shown."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.report.outcomes import meaning
from deployctl.report.summary import lines
from tests.unit.report import documents


def run_of(outcome: str, *steps: str, **host: Any) -> dict[str, Any]:
    document = documents.passed()
    document["outcome"] = outcome
    (only,) = document["hosts"]
    only["steps"] = [
        {"step": name.rstrip("-"), "status": "skipped" if name.endswith("-") else "unchanged"}
        for name in steps
    ]
    only.update(host)
    return document


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (("build", "launch", "ready"), "unchanged: the requested release serves"),
        (("build", "launch-"), "unchanged: everything requested is on the host"),
        (("down",), "unchanged: nothing of the profile runs"),
        (("verify",), "unchanged: everything requested is on the host"),
        (("preflight", "build", "verify", "fetch", "drafter"), "unchanged: everything requested"),
        (("clean",), "unchanged: nothing had to be cleaned"),
        (("smoke", "acceptance"), "unchanged: the gates passed before"),
    ],
)
def test_unchanged_claims_no_server_that_was_not_asked_about(
    steps: tuple[str, ...], said: str
) -> None:
    told = meaning(run_of("unchanged", *steps))
    assert told.startswith(said)
    assert told.endswith("nothing was touched")
    if "launch" not in steps:
        assert "serves" not in told


@pytest.mark.parametrize(
    ("steps", "host", "said"),
    [
        (
            ("launch", "ready", "smoke", "acceptance"),
            {},
            "deployed: the new release serves and has passed its gates",
        ),
        (
            ("launch", "ready", "smoke"),
            {"earlier": True},
            "deployed: the earlier release serves and has passed smoke",
        ),
        (
            ("launch", "ready", "smoke-", "acceptance-"),
            {},
            "deployed: the new release serves and no gate ran",
        ),
        (
            ("launch", "ready", "acceptance"),
            {"previous": "3f5be4e74275"},
            "deployed: the same release serves, restarted, and has passed acceptance",
        ),
    ],
)
def test_deployed_says_which_release_and_what_it_passed(
    steps: tuple[str, ...], host: dict[str, Any], said: str
) -> None:
    assert meaning(run_of("deployed", *steps, **host)) == said


def test_down_and_the_way_back_are_told() -> None:
    assert meaning(run_of("changed", "down")) == "done: the server was stopped, nothing serves"
    back = documents.failed() | {"outcome": "interrupted"}
    back["hosts"][0] |= {"restored": True, "previous": "8b1d0c5a7f21"}
    told = list(lines(back))
    assert "  serves again: release 8b1d0c5a7f21, proven ready" in told
    assert "interrupted, and the previous release was restored" in told[-1]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({"without_service": None, "cut_off": 2}, "  2 requests cut off"),
        ({"without_service": 4.0, "cut_off": 1}, "  without service for 4.0 s, 1 request cut off"),
        ({"without_service": 4.0, "cut_off": 0}, "  without service for 4.0 s"),
        ({"without_service": 4.0, "cut_off": None}, "  without service for 4.0 s"),
    ],
)
def test_what_a_run_cost_is_in_its_summary(host: dict[str, Any], said: str) -> None:
    document = documents.passed()
    document["hosts"][0] |= {"gaps": [], "still_without_service": False, **host}
    assert said in list(lines(document))


def test_a_run_that_was_refused_shows_the_current_release() -> None:
    """A rollback to a release that cannot be named has none of its own."""
    document = documents.passed()
    document["hosts"][0] |= {"release": None, "previous": "0a1b2c3d4e5f", "steps": []}
    assert f"{document['hosts'][0]['host']}  current release 0a1b2c3d4e5f" in list(lines(document))
    document["hosts"][0]["previous"] = None
    assert f"{document['hosts'][0]['host']}  release unknown" in list(lines(document))
