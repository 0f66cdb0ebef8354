"""Models brought to a host: shipped ones, ones that lie there, and a hub's, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.shipped import bundled_model
from deployctl.errors import StagingFailed
from deployctl.steps import facts
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import MODEL, RELEASES, VIEWS
from deployctl.steps.fetch import DISK, FetchStep
from deployctl.steps.interface import Key, Unanswered
from deployctl.steps.release import release_paths
from tests.hosts.hub_stand_in import Hub, Repository, serve
from tests.hosts.lab.files import contents
from tests.hosts.step_bench import Bench, deployment

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TARGET, DRAFTER = "toy/target", "toy/drafter"
FROM_HUB = {
    "model": {"repo": TARGET, "revision": COMMIT, "served_name": "tiny"},
    "drafter": {
        "method": "dflash",
        "model": {"repo": DRAFTER, "revision": COMMIT},
        "num_speculative_tokens": 7,
    },
}
STALE = {
    "method": "dflash",
    "model": {"bundled": "tiny-dflash-stale"},
    "num_speculative_tokens": 7,
}
STEP = FetchStep()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    folders = {}
    for repo, name in ((TARGET, "tiny-target"), (DRAFTER, "tiny-dflash-full")):
        folders[repo] = tmp_path / "hub" / name
        shutil.copytree(bundled_model(name), folders[repo])
    with serve({repo: Repository(folder, COMMIT) for repo, folder in folders.items()}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        yield hub


@pytest.fixture
def bench(tmp_path: Path, hub: Hub) -> Iterator[Bench]:
    bench = Bench.at(tmp_path / "root", deployment(FROM_HUB))
    with bench.session:
        bench.environment(bench.ask(STEP))
        yield bench


def view(bench: Bench) -> Path:
    release = release_paths(bench.wanted, bench.ask(STEP)).release
    return bench.root / "profiles" / "toy" / "units" / "server" / "releases" / release / "drafter"


def test_shipped_models_are_sent_once(tmp_path: Path) -> None:
    bench = Bench.at(tmp_path, deployment({"drafter": STALE}))
    with bench.session:
        plan, evidence = bench.run(STEP)
        assert [c.what for c in plan.changes][:2] == ["model", "drafter"]
        place = Path(evidence["drafter"]["place"])
        # The shipped folder holds a link; a host gets the file.
        assert not (place / "model.safetensors").is_symlink()
        assert (place / "model.safetensors").stat().st_size == 2566040
        assert evidence["model"]["files"] == 6
        config = view(bench) / "config.json"
        assert not config.is_symlink()
        assert (
            config.read_bytes() == (bundled_model("tiny-dflash-stale") / "config.json").read_bytes()
        )
        assert (view(bench) / "model.safetensors").resolve() == place / "model.safetensors"
        assert bench.run(STEP)[0].status == "unchanged"


def test_a_truncated_file_is_found_and_sent_again(tmp_path: Path) -> None:
    bench = Bench.at(tmp_path, deployment())
    with bench.session:
        _, evidence = bench.run(STEP)
        weights = Path(evidence["model"]["place"]) / "model.safetensors"
        with weights.open("r+b") as file:
            file.truncate(1_000_000)
        plan, _ = bench.run(STEP)
        assert plan.status == "change" and "its header promises" in plan.changes[0].why
        assert bench.run(STEP)[0].status == "unchanged"


def test_a_model_on_disk_is_verified_not_fetched(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "target"
    shutil.copytree(bundled_model("tiny-target"), folder)
    bench = Bench.at(
        tmp_path / "root",
        deployment({"model": {"path": str(folder), "served_name": "t"}, "drafter": None}),
    )
    with bench.session:
        _, evidence = bench.run(STEP)
        assert evidence["model"]["path"] == str(folder)
        (folder / "model.safetensors").write_bytes(b"short")
        plan = STEP.plan(bench.wanted, bench.ask(STEP))
        assert plan.status == "blocked" and "model.safetensors" in plan.reason


def test_a_model_that_is_not_there_blocks(tmp_path: Path) -> None:
    wanted = deployment({"model": {"path": "/nowhere/model", "served_name": "t"}, "drafter": None})
    bench = Bench.at(tmp_path, wanted)
    with bench.session:
        plan = STEP.plan(wanted, bench.ask(STEP))
        assert (plan.status, plan.reason) == ("blocked", "model /nowhere/model: not there")


def test_a_hub_model_is_fetched_at_its_commit(bench: Bench, hub: Hub) -> None:
    (hub.repositories[TARGET].folder / "pytorch_model.bin").write_bytes(b"another format")
    plan, evidence = bench.run(STEP)
    assert [c.new for c in plan.changes][:2] == [TARGET, DRAFTER]
    place = Path(evidence["model"]["place"])
    assert place.name == f"toy--target-{COMMIT[:12]}"
    assert evidence["model"]["commit"] == COMMIT
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (place / name).read_bytes() == (bundled_model("tiny-target") / name).read_bytes()
    assert not (place / "pytorch_model.bin").exists()
    assert (view(bench) / "config.json").is_file()
    # A pinned commit that lies there whole needs no hub any more.
    hub.requests.clear()
    assert bench.run(STEP)[0].status == "unchanged"
    assert hub.requests == []


def test_a_branch_is_resolved_to_a_commit(tmp_path: Path, hub: Hub) -> None:
    model = {"repo": TARGET, "served_name": "tiny"}
    bench = Bench.at(tmp_path / "root", deployment({"model": model, "drafter": None}))
    with bench.session:
        answers = bench.ask(STEP)
        assert answers[MODEL]["commit"] == COMMIT
        assert STEP.plan(bench.wanted, answers).status == "change"


def test_a_gated_model_is_found_out_before_anything(
    bench: Bench, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[DRAFTER].gated = True
    plan = STEP.plan(bench.wanted, bench.ask(STEP))
    assert plan.status == "blocked"
    assert plan.reason == f"drafter: {DRAFTER} is gated, and no token has access"
    # With the token that the profile names it is fetched, and the token stays out of sight.
    monkeypatch.setenv("MY_TOKEN", hub.token)
    serve_section = {"secrets": {"HF_TOKEN": {"env": "MY_TOKEN"}}}
    bench.wanted = deployment({**FROM_HUB, "serve": serve_section})
    bench.environment(bench.ask(STEP))
    assert hub.token not in repr(STEP.questions(bench.wanted))
    assert bench.run(STEP)[0].status == "change"
    assert [path for path, data in contents(bench.root) if hub.token.encode() in data] == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"repo": "toy/nothing"}, "does not exist or is private"),
        ({"repo": TARGET, "revision": "no-such-branch"}, "has no revision no-such-branch"),
    ],
)
def test_what_the_hub_does_not_have(
    tmp_path: Path, hub: Hub, model: dict[str, str], reason: str
) -> None:
    wanted = deployment({"model": {**model, "served_name": "t"}, "drafter": None})
    bench = Bench.at(tmp_path / "root", wanted)
    with bench.session:
        answers = bench.ask(STEP)
        plan = STEP.plan(wanted, answers)
        assert plan.status == "blocked" and reason in plan.reason
        with pytest.raises(Unanswered, match=reason):
            release_paths(wanted, answers)


def test_a_hub_that_cannot_be_reached_is_unknown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    plan = STEP.plan(bench.wanted, bench.ask(STEP))
    assert plan.status == "unknown" and "refused" in plan.reason.lower()


def test_a_download_that_hangs_is_taken_up_again(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The job's watchdog is to see it, not the client itself.
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "100")
    hub.repositories[TARGET].hang_once_after = 100_000
    build = {"stall": "5s"}
    wanted = deployment({**FROM_HUB, "build": build})
    bench = Bench.at(tmp_path / "root", wanted)
    with bench.session:
        bench.environment(bench.ask(STEP))
        _, evidence = bench.run(STEP)
        assert evidence["model"]["files"] == 6
        assert any("the download stalled" in note for note in bench.notes)


def test_a_damaged_download_never_gets_its_name(bench: Bench, hub: Hub) -> None:
    hub.repositories[TARGET].damaged = "model.safetensors"
    with pytest.raises(StagingFailed) as failed:
        bench.run(STEP)
    assert "SHA-256" in failed.value.why
    assert not (bench.root / "models" / f"toy--target-{COMMIT[:12]}").exists()


def test_a_full_disk_is_known_before(bench: Bench) -> None:
    answers = bench.ask(STEP)
    keys: list[Key[Any]] = [MODEL, facts.DRAFTER, VIEWS, RELEASES]
    values: dict[str, Any] = {key: answers[key] for key in keys}
    values[DISK] = {"path": "/models", "free": 1 << 20}
    plan = STEP.plan(bench.wanted, type(answers)(values))
    assert plan.status == "blocked" and "/models has 1 MiB free" in plan.reason


def test_two_snapshots_of_one_blob(tmp_path: Path) -> None:
    """Case 5: the release's view is edited; the blob and the other snapshot stay."""
    cache = tmp_path / "cache"
    blob = cache / "blobs" / "abc"
    blob.parent.mkdir(parents=True)
    source = bundled_model("tiny-dflash-full")
    shutil.copy(source / "config.json", blob)
    snapshots = [cache / "snapshots" / name for name in ("one", "two")]
    for snapshot in snapshots:
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").symlink_to("../../blobs/abc")
        (snapshot / "model.safetensors").symlink_to(source / "model.safetensors")
    before = blob.read_bytes()
    drafter = {
        "method": "dflash",
        "model": {"path": str(snapshots[0])},
        "num_speculative_tokens": 7,
        "config": {"block_size": 8, "dflash_config": {"mask_token_id": 2}},
    }
    bench = Bench.at(tmp_path / "root", deployment({"drafter": drafter}))
    with bench.session:
        bench.run(STEP)
        _, evidence = bench.run(DrafterStep(), STEP)
        written = view(bench) / "config.json"
        assert json.loads(written.read_text())["dflash_config"]["mask_token_id"] == 2
        assert evidence["mode"] == "0600"
        assert blob.read_bytes() == before
        assert (snapshots[0] / "config.json").is_symlink()
        assert (snapshots[1] / "config.json").read_bytes() == before
        stamp = written.stat()
        assert bench.run(DrafterStep(), STEP)[0].status == "unchanged"
        assert written.stat().st_mtime_ns == stamp.st_mtime_ns


@pytest.mark.parametrize("source", ["hub", "shipped"])
def test_changed_bytes_are_found_when_looking_deep(bench: Bench, source: str) -> None:
    if source == "shipped":
        bench.wanted = deployment()
    bench.run(STEP)
    bench.wanted = replace(bench.wanted, options={"fetch": {"deep": True}})
    plan, evidence = bench.run(STEP)
    assert (plan.status, evidence["model"]["checksums"]) == ("check", "as promised")
    path = Path(evidence["model"]["place"]) / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(StagingFailed) as caught:
        bench.run(STEP)
    assert "model.safetensors: content differs from its source" in caught.value.why
    assert bench.run(STEP)[0].status == "change"
    assert bench.run(STEP)[1]["model"]["checksums"] == "as promised"
