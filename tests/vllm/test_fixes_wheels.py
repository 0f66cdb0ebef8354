"""The verdicts over real wheels of vLLM, downloaded once; of each only its Python files are kept.

Six releases by default, all that are named here with DEPLOYCTL_TEST_ALL_WHEELS=1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path
from uv import find_uv_bin

from tests.unit.vllm.fixes.test_probes import examine

P, A, V2, R, N = "present", "absent", "v2-only", "rejected", "unsupported"
NAMES = (
    "dflash-layer-offset",
    "dflash-sliding-window",
    "dflash-cache-drop",
    "dflash-lookahead",
    "dflash-lm-head",
)
TABLE = {
    "0.19.1": (N, N, N, N, N),
    "0.20.0": (A, A, A, A, N),
    "0.20.1": (A, A, A, A, N),
    "0.21.0": (A, A, A, A, N),
    "0.22.0": (P, A, A, A, N),
    "0.22.1": (P, A, A, A, N),
    "0.23.0": (P, A, A, P, N),
    "0.24.0": (P, A, A, P, A),
    "0.25.0": (P, R, A, P, A),
    "0.25.1": (P, R, A, P, A),
    "0.26.0": (P, V2, A, P, P),
    "0.27.0": (P, V2, A, P, P),
    "0.28.0": (P, V2, A, P, P),
    "0.29.0": (P, V2, A, P, P),
    "0.30.0": (P, V2, A, P, P),
    "0.31.0": (P, V2, A, P, P),
    "0.32.0": (P, V2, A, P, P),
    "0.33.0": (P, V2, P, P, P),
}
SIX = ("0.19.1", "0.20.1", "0.22.0", "0.25.0", "0.30.0", "0.33.0")
CACHE = Path(os.environ.get("DEPLOYCTL_TEST_CACHE") or user_cache_path("deployctl-tests"))

pytestmark = [pytest.mark.wheels, pytest.mark.slow]


def tree(version: str) -> Path:
    """The Python files of a release, from the cache or a download."""
    kept = CACHE / "vllm-trees" / version
    if not kept.exists():
        scratch = kept.with_suffix(f".{os.getpid()}")
        fetched = scratch / "whole"
        argv = [find_uv_bin(), "pip", "install", "--quiet", "--no-cache", "--no-deps"]
        argv += ["--python-platform", "x86_64-manylinux_2_35", "--target", str(fetched)]
        subprocess.run([*argv, f"vllm=={version}"], check=True)
        for path in fetched.rglob("*"):
            if path.is_file() and path.suffix != ".py":
                path.unlink()
        try:
            fetched.rename(kept)
        except OSError:
            if not kept.exists():  # another run was faster
                raise
        shutil.rmtree(scratch)
    return kept


def verdicts(folder: Path) -> dict[str, str]:
    return {entry["fix"]: entry["verdict"] for entry in examine(folder)["fixes"]}


def each_once(versions: Iterable[str]) -> list[Any]:
    """These releases, each downloaded by one worker alone."""
    return [
        pytest.param(version, marks=pytest.mark.xdist_group(f"wheel of {version}"))
        for version in versions
    ]


@pytest.mark.parametrize(
    "version", each_once(TABLE if os.environ.get("DEPLOYCTL_TEST_ALL_WHEELS") else SIX)
)
def test_table(version: str) -> None:
    report = examine(tree(version))
    assert report["version"] == version
    found = {entry["fix"]: entry["verdict"] for entry in report["fixes"]}
    assert found == dict(zip(NAMES, TABLE[version], strict=True)), json.dumps(report, indent=1)


def copied(version: str, folder: Path) -> Path:
    shutil.copytree(tree(version), folder)
    return folder


def changed(folder: Path, old: str, new: str) -> None:
    """Rename something in every file."""
    for path in folder.rglob("*.py"):
        text = path.read_text(errors="surrogateescape")
        if old in text:
            path.write_text(text.replace(old, new), errors="surrogateescape")


def never_less(found: dict[str, str], version: str, *, same: tuple[str, ...] = ()) -> None:
    """Right or unknown; those named must be right."""
    for name, wanted in zip(NAMES, TABLE[version], strict=True):
        allowed: tuple[Any, ...] = (wanted,) if name in same else (wanted, "unknown", N)
        assert found[name] in allowed, (name, found[name], wanted)


@pytest.mark.parametrize("version", each_once(["0.20.1", "0.33.0"]))
def test_moved_and_renamed(version: str, tmp_path: Path) -> None:
    folder = copied(version, tmp_path / "tree")
    changed(folder, "get_eagle3_aux_layers_from_config", "drafter_taps")
    changed(folder, "DFlashQwen3Attention", "DFlashQwen3BlockAttention")
    changed(folder, "_resolve_layer_attention", "_attention_of_layer")
    changed(folder, "use_eagle_block_drop", "drops_last_block")
    models = folder / "vllm/model_executor/models"
    (models / "drafters").mkdir()
    (models / "qwen3_dflash.py").rename(models / "drafters/dflash_for_qwen.py")
    core = folder / "vllm/v1/core"
    (core / "sched/scheduler.py").rename(core / "sched/the_scheduler.py")
    never_less(verdicts(folder), version, same=NAMES[:3])


@pytest.mark.parametrize("version", each_once(["0.20.1", "0.33.0"]))
def test_gone(version: str, tmp_path: Path) -> None:
    folder = copied(version, tmp_path / "tree")
    for name in ("gpu_model_runner.py", "scheduler.py", "qwen3_dflash.py", "eagle3_utils.py"):
        for path in folder.rglob(name):
            path.unlink()
    found = verdicts(folder)
    assert {found[name] for name in NAMES[:4]} == {"unknown"}
