"""Programs of routers in an agent's inventory: which there are, and which profiles have."""

from __future__ import annotations

import json
from pathlib import Path

from deployctl.agent.store import garbage
from tests.unit.agent.test_trees import call


def test_a_profiles_router_is_known_by_its_file(tmp_path: Path) -> None:
    for name in ("vllm-router-0.1.16", "vllm-router-0.1.17"):
        (tmp_path / "routers" / name / "bin").mkdir(parents=True)
    argv = [f"{tmp_path}/routers/vllm-router-0.1.17/bin/vllm-router", "--port", "1"]
    for profile, content in (("a", {"argv": argv}), ("b", {})):
        folder = tmp_path / "profiles" / profile
        folder.mkdir(parents=True)
        (folder / "router.json").write_text(json.dumps(content))
    found = garbage.inventory(call(tmp_path))
    assert [*found["routers"]] == ["vllm-router-0.1.16", "vllm-router-0.1.17"]
    assert found["programs"] == argv[:1]
    garbage.remove(call(tmp_path), "routers", "vllm-router-0.1.16")
    assert [one.name for one in (tmp_path / "routers").iterdir()] == ["vllm-router-0.1.17"]
