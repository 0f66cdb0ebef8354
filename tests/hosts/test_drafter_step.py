"""The drafter's config on disk is the wanted one: refused before, repaired after, never torn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.shipped import bundled_model
from deployctl.errors import NotReady, StagingFailed
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.fetch import FetchStep
from deployctl.steps.launch import LaunchStep
from deployctl.steps.release import release_paths
from tests.hosts.step_bench import Bench, deployment

RIGHT = {"dflash_config.mask_token_id": 3, "dflash_config.target_layer_ids": [1, 3, 5]}
FETCH, STEP = FetchStep(), DrafterStep()


def drafter(**config: Any) -> dict[str, Any]:
    return {
        "method": "dflash",
        "model": {"bundled": "tiny-dflash-stale"},
        "num_speculative_tokens": 7,
        "config": config,
    }


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench.at(tmp_path, deployment({"drafter": drafter(**RIGHT)}))
    with bench.session:
        bench.run(FETCH)
        yield bench


def config_path(bench: Bench) -> Path:
    release = release_paths(bench.wanted, bench.ask(STEP)).release
    return (
        bench.root
        / "profiles"
        / "toy"
        / "units"
        / "server"
        / "releases"
        / release
        / "drafter"
        / "config.json"
    )


def test_a_stale_config_is_made_right_and_read_back(bench: Bench) -> None:
    upstream = (bundled_model("tiny-dflash-stale") / "config.json").read_text()
    assert config_path(bench).read_text() == upstream
    plan, evidence = bench.run(STEP)
    assert [(c.what, c.old, c.new) for c in plan.changes] == [
        ("dflash_config.mask_token_id", 0, 3),
        ("dflash_config.target_layer_ids", [0, 2, 4], [1, 3, 5]),
    ]
    written = config_path(bench)
    assert json.loads(written.read_text())["dflash_config"] == {
        "mask_token_id": 3,
        "target_layer_ids": [1, 3, 5],
    }
    # Only the changed values differ from upstream's text.
    lines = zip(upstream.splitlines(), written.read_text().splitlines(), strict=True)
    assert sum(one != other for one, other in lines) == 4
    assert evidence["changed"][0] == {"key": "dflash_config.mask_token_id", "old": 0, "new": 3}
    assert {c["verdict"] for c in evidence["checks"]} <= {"ok", "unknown"}
    assert bench.run(STEP)[0].status == "unchanged"


def test_drift_is_found_and_mended(bench: Bench) -> None:
    bench.run(STEP)
    path = config_path(bench)
    path.write_text(path.read_text().replace('"mask_token_id": 3', '"mask_token_id": 0'))
    plan, _ = bench.run(STEP)
    assert plan.reason == "the file differs from the wanted one"
    assert [(c.what, c.old, c.new, c.why) for c in plan.changes] == [
        ("dflash_config.mask_token_id", 0, 3, "on disk")
    ]
    assert bench.run(STEP)[0].status == "unchanged"


def test_what_a_new_release_gets_is_no_drift(bench: Bench) -> None:
    wanted = deployment({"drafter": drafter(**RIGHT, sliding_window=512)})
    new = Bench(bench.root, wanted, bench.session)
    plan = STEP.plan(wanted, new.ask(STEP))
    assert plan.reason == "new here, from upstream's"
    assert [c.why for c in plan.changes] == ["", "", ""]


def test_a_link_into_a_cache_is_replaced_not_followed(bench: Bench, tmp_path: Path) -> None:
    bench.run(STEP)
    path = config_path(bench)
    blob = tmp_path / "blob"
    blob.write_text(path.read_text())
    path.unlink()
    path.symlink_to(blob)
    bench.run(FETCH)
    bench.run(STEP)
    assert not path.is_symlink()
    before = blob.read_text()
    path.write_text("{}")
    bench.run(STEP)
    assert blob.read_text() == before


def test_without_the_step_it_is_another_release_with_upstreams_config(
    bench: Bench, tmp_path: Path
) -> None:
    bench.run(STEP)
    right = config_path(bench)
    skipping = Bench(
        tmp_path, deployment({"drafter": drafter(**RIGHT)}, skip={"drafter"}), bench.session
    )
    skipping.run(FETCH)
    stale = config_path(skipping)
    assert stale != right
    assert stale.read_bytes() == (bundled_model("tiny-dflash-stale") / "config.json").read_bytes()
    assert json.loads(right.read_text())["dflash_config"]["mask_token_id"] == 3


@pytest.mark.parametrize(
    ("config", "check"),
    [
        ({"dflash_config.target_layer_ids": [1, 3, 8]}, "layer_ids_range"),
        ({"dflash_config.target_layer_ids": [1, 3, 3]}, "layer_ids"),
        ({"dflash_config.mask_token_id": 1024}, "mask_token"),
        ({"layer_types": ["sliding_attention"] * 5}, "sliding_window"),
        ({"hidden_size": 256}, "hidden_size"),
        ({"block_size": 4}, "draft_tokens"),
        ({"aux_hidden_state_layer_ids": [2, 4, 6]}, "z-lab's dialect"),
        ({"hidden_size.inner": 1}, "hidden_size"),
    ],
)
def test_a_config_that_cannot_work_is_refused_before(
    tmp_path: Path, config: dict[str, Any], check: str
) -> None:
    bench = Bench.at(tmp_path, deployment({"drafter": drafter(**{**RIGHT, **config})}))
    with bench.session:
        plan = STEP.plan(bench.wanted, bench.ask(STEP))
    assert plan.status == "blocked" and check in plan.reason
    assert not (tmp_path / "profiles").exists()


def test_the_weights_are_asked_before_a_byte_is_written(tmp_path: Path) -> None:
    config = {**RIGHT, "dflash_config.target_layer_ids": [1, 5]}
    bench = Bench.at(tmp_path, deployment({"drafter": drafter(**config)}))
    with bench.session:
        first = STEP.plan(bench.wanted, bench.ask(STEP))
        assert first.status == "change"  # the weights are not there yet
        bench.run(FETCH)
        before = config_path(bench).read_bytes()
        with pytest.raises(StagingFailed) as refused:
            context = bench.context(bench.ask(STEP))
            STEP.apply(context, first)
        assert "3 layers of 128" in refused.value.why
        assert config_path(bench).read_bytes() == before
        assert STEP.plan(bench.wanted, bench.ask(STEP)).status == "blocked"


def test_launch_refuses_a_config_that_drifted_since(bench: Bench) -> None:
    launch = LaunchStep()
    bench.run(STEP)
    answers = bench.ask(launch, STEP)
    path = config_path(bench)
    proven = path.read_text()
    path.write_text(proven.replace("[", "[ "))
    with pytest.raises(NotReady, match="the drafter's config drifted"):
        launch.apply(bench.context(answers), launch.plan(bench.wanted, answers))
    assert bench.session.call("units.state", profile="toy", unit="server")["state"] == "absent"


CRASH = """
import os, sys
sys.path.insert(0, sys.argv[2])
from deployctl.agent.store import files
from deployctl.agent.core.interface import Call

path, old, new = sys.argv[1], "o" * 5000, "n" * 9000
call = Call("/", lambda event: None)

def crashing(at):
    left = at
    def profile(frame, event, argument):
        nonlocal left
        if event == "c_call":
            left -= 1
            if left < 0:
                os._exit(9)
    return profile

at = 0
while True:
    # What a crash leaves would be looked at by the next one, and put its end off for ever.
    for name in os.listdir(os.path.dirname(path)):
        os.unlink(os.path.join(os.path.dirname(path), name))
    with open(path, "w") as file:
        file.write(old)
    child = os.fork()
    if child == 0:
        sys.setprofile(crashing(at))
        files.write(call, path, text=new)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(path) as file:
        found = file.read()
    assert found in (old, new), (at, len(found))
    if status == 0:
        assert found == new
        break
    at += 1
print(at)
"""


def test_a_crash_at_any_point_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    package = str(Path(__file__).parents[2])
    folder = tmp_path / "written"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(folder / "config.json"), package],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15
