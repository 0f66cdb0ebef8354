"""Records of another shape than ours are damaged for the agent, and refused by the controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.store import releases
from deployctl.agent.wire import records

END = {"kind": "end", "run": "r", "outcome": "deployed", "changed": ["fetch"], "time": 1.0}


def call(root: Path) -> Call:
    return Call(str(root), lambda event: None)


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (END, ""),
        ({**END, "later": [1], "release": None}, ""),
        ({"kind": "of a later version", "told": 1}, ""),
        ({}, ""),
        ({"kind": 7}, "kind"),
        ({"kind": ["end"]}, "kind"),
        ({"kind": "end", "outcome": "deployed"}, "run"),
        ({"kind": "phase", "run": "r"}, "phase"),
        ({**END, "changed": 2**70}, "changed"),
        ({**END, "changed": [None]}, "changed"),
        ({**END, "time": "now"}, "time"),
        ({**END, "time": 1e300}, "time"),
        ({**END, "time": True}, "time"),
        ({**END, "verdicts": {"smoke": {}}}, "verdicts"),
        ({**END, "verdicts": {"smoke": {"verdict": "pass", "measured": "x"}}}, "verdicts"),
        ({**END, "verdicts": {"smoke": {"verdict": "pass", "measured": 1}}}, ""),
        ({**END, "figures": []}, "figures"),
    ],
)
def test_an_entry(entry: dict[str, Any], key: str, tmp_path: Path) -> None:
    assert records.wrong_entry(entry) == key
    ledger = tmp_path / "profiles/p/ledger.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.write_text(json.dumps(END) + "\n" + json.dumps(entry) + "\n")
    first, second = releases.ledger(call(tmp_path), "p")
    assert first == END
    assert second == entry if not key else second["kind"] == "damaged"
    assert bool(records.strange("releases.ledger", [END, entry])) is bool(key)


def test_manifests_and_seals(tmp_path: Path) -> None:
    for path, text in (
        (
            "profiles/p/units/server/releases/good/manifest.json",
            {"identity": {}, "evidence": {"fetch": {}}},
        ),
        ("profiles/p/units/server/releases/bad/manifest.json", {"identity": []}),
        ("environments/good/seal.json", {"key": "good", "evidence": {}, "knowledge": {}}),
        ("environments/bad/seal.json", {"evidence": {"build": 1}}),
        ("environments/odd/broken.json", {"why": {"a": 1}}),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(text))
    found = releases.state(call(tmp_path), "p", "server")
    assert found["releases"]["good"] is not None and found["releases"]["bad"] is None
    assert found["environments"]["good"] is not None and found["environments"]["bad"] is None
    assert found["broken"] == {
        "bad": ["seal.json is damaged"],
        "odd": ["broken.json is damaged"],
    }
    assert found["elsewhere"] == []
    assert records.strange("releases.state", found) == ""
    told: dict[str, Any] = {**found, "environments": {"e": {"evidence": []}}}
    assert records.strange("releases.state", told) == "environments: evidence is wrong or missing"


def test_environments_of_other_profiles_releases(tmp_path: Path) -> None:
    """An adopted release's environment is a link to where it was made, here below the same root."""
    for key in ("ours", "both", "made"):
        (tmp_path / "environments" / key).mkdir(parents=True)
    (tmp_path / "environments" / "adopted").symlink_to(tmp_path / "environments" / "made")
    for profile, unit, key in (
        ("p", "server", "ours"),
        ("p", "blue", "both"),
        ("other", "green", "both"),
        ("hand", "server", "adopted"),
    ):
        releases.prepare(call(tmp_path), profile, unit, "r", key)
    assert releases.state(call(tmp_path), "p", "server")["elsewhere"] == ["both", "made"]
    assert releases.state(call(tmp_path), "hand", "server")["elsewhere"] == ["both", "ours"]
