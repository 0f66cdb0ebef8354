"""A stand-in for a platform with GPUs: vLLM's CPU build, whose processes Ray places by an invented
number of GPUs. All else is the real one. Every process of a node must find the folder."""

from __future__ import annotations

from pathlib import Path

NAME = "ray_platform_stand_in"
MODULE = """\
from vllm.platforms.cpu import CpuPlatform

def register():
    return "ray_platform_stand_in.CpuForRayStandIn"

class CpuForRayStandIn(CpuPlatform):
    ray_device_key = "GPU"
"""


def install(folder: Path) -> Path:
    """Make the plugin in a folder, which is to be in PYTHONPATH."""
    about = folder / f"{NAME}-0.dist-info"
    about.mkdir(parents=True)
    (folder / f"{NAME}.py").write_text(MODULE, encoding="utf-8")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0\n")
    points = f"[vllm.platform_plugins]\n{NAME} = {NAME}:register\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    return folder
