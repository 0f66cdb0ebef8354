"""How much faster than a build from source are a kept wheel, upstream's binaries and a patch?

    python bench/builds.py [--units 40]

Real uv, git and compilers; the project is a stand-in for vLLM (tests/hosts/builds/project.py) with
as many C++ files as asked. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hosts.builds import project as projects
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import EXTENSIONS
from tests.hosts.builds.test_precompiled import Quiet, publish


def timed(action: Callable[[], dict[str, Any]], strategy: str) -> tuple[float, dict[str, Any]]:
    """Seconds of a whole `build` and `verify`, which must have gone by this strategy."""
    began = time.monotonic()
    done = action()
    seconds = time.monotonic() - began
    assert done["build"]["strategy"] == strategy, done["build"]
    return round(seconds, 2), done


def measure(folder: Path, units: int) -> dict[str, Any]:
    project = projects.make(folder / "project", cuda="13.0", units=units)
    base = project.git("rev-parse", "main")
    project.commit("python", {"vllm/answer.py": "better = True\n"})
    index = folder / "index"
    index.mkdir()
    handler = functools.partial(Quiet, directory=str(index))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    host = BuildHost(folder / "root")

    def up(ref: str, **more: Any) -> Callable[[], dict[str, Any]]:
        settings = {
            "source": {"url": project.url, "ref": ref, "upstream": project.url},
            "target": "cuda",
            "precompiled_index": url,
            "env": {"STAND_IN_INDEX": url, **more.pop("env", {})},
            **more,
        }
        return lambda: host.up(host.wanted(settings))

    result: dict[str, Any] = {"units": units}
    result["source"], first = timed(up("v1.0.0"), "source")
    publish(index, base, host.environment(first["key"]), EXTENSIONS)
    (wheel,) = host.session.call("environment.wheels")
    # The same key in another environment.
    result["reuse"], _ = timed(up("v1.0.0", extra=["packaging"]), "reuse")
    result["pr_source"], _ = timed(up("python", strategy="source"), "source")
    result["pr_precompiled"], _ = timed(up("python", strategy="precompiled"), "precompiled")
    offline = {"UV_FIND_LINKS": str(Path(wheel["path"]).parent)}
    result["pr_patch"], _ = timed(up("python", strategy="patch", env=offline), "patch")
    host.close()
    server.shutdown()
    result["reuse_times_faster"] = round(result["source"] / result["reuse"], 1)
    for name in ("precompiled", "patch"):
        ratio = result["pr_source"] / result[f"pr_{name}"]
        result[f"{name}_times_faster"] = round(ratio, 1)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=40)
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(measure(Path(scratch), parser.parse_args().units), indent=1))
