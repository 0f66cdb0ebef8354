"""Python's packaging: interpreters, requirements, build backends."""

from __future__ import annotations

from deployctl.vllm.logs.causes.build_host import build
from deployctl.vllm.logs.causes.cause import Cause

CAUSES: tuple[Cause, ...] = (
    build(
        "no-python",
        "uv",
        r"no interpreter found for|no python installations? found|no download found for request"
        r"|python interpreter not found at"
        r"|no virtual environment (?:found|or system python)|broken virtual environment",
        "the wanted Python is not there and cannot be downloaded",
        "install it on the host, or change build.python",
    ),
    build(
        "python-version",
        "pip, uv",
        r"requires a different python: (?P<have>[\d.]{1,10}) not in '(?P<want>[^']{1,40})'"
        r"|current python version \((?P<now>[\d.]{1,10})\) does not satisfy python(?P<needs>[^\s,]"
        r"{1,30})|requires-python.{0,60}(?:but|does not)"
        r"|requires python (?P<need>[^\s,]{1,30}),? but"
        r"|no wheels with a matching python (?:version|implementation|abi) tag",
        "[Python {have/now}|Python's version] does not fit[: {want/needs/need} is wanted]",
        "change build.python in the profile",
    ),
    build(
        "externally-managed",
        "pip, uv",
        r"externally[- ]managed",
        "pip refuses to change the system's Python",
        "build into an environment: deployctl build makes one",
    ),
    build(
        "no-solution",
        "uv, pip",
        r"no solution found when resolving|resolutionimpossible|conflicting dependencies"
        r"|could not find a version that satisfies the requirement (?P<what>\S{1,100})"
        r"|no matching distribution found for (?P<name>\S{1,100})"
        r"|was not found in the (?:package )?"
        r"registry|no wheels with a matching platform tag"
        r"|is not a supported wheel on this platform",
        "the requirements contradict each other, or a version does not exist for this platform",
        "check build.source, build.torch_backend, build.python and build.overrides",
    ),
    build(
        "undefined-symbol",
        "ld.so",
        r"undefined symbol: (?P<symbol>\S{1,300})|undefined symbol",
        "compiled modules and torch do not belong together",
        "build by strategy source, or choose the torch that the wheel was built for",
    ),
    build(
        "no-version",
        "setuptools-scm",
        r"setuptools-scm was unable to detect version|unable to detect version for"
        r"|setuptools_scm.{0,120}(?:unable|failed)",
        "the version cannot be read: no git metadata",
        "set SETUPTOOLS_SCM_PRETEND_VERSION in build.env",
    ),
    build(
        "no-project",
        "uv, pip",
        r"does not appear to be a python project|neither 'setup\.py' nor 'pyproject\.toml' found"
        r"|`?pyproject\.toml`? does not match the required schema"
        r"|failed to parse:? .{0,80}pyproject"
        r"|invalid `pyproject\.toml`|distribution not found at",
        "what should be built is not a Python project",
        "check build.source: its url, ref or path",
    ),
    build(
        "build-requirement",
        "setuptools, pip, uv",
        r"modulenotfounderror: no module named '(?P<name>[^']{1,80})'"
        r"|backendunavailable|cannot import '(?P<backend>[\w.]{1,80})'",
        "the build needs the package [{name/backend}|that builds it], which is not in its "
        "environment",
        "add it to build.extra; without build isolation the environment must have all build "
        "requirements",
    ),
    build(
        "generator-target",
        "ninja",
        r"ninja: error: unknown target '(?P<name>[^']{1,100})'"
        r"|ninja: error: '(?P<file>[^']{1,300})', "
        r"needed by",
        "ninja has no target {name/file}: the build folder is of another configuration",
        "remove the build folder of the checkout (build/, .deps/) and run again",
    ),
    build(
        "stale-build",
        "CMake",
        r"does not match the source .{0,300}used to generate cache"
        r"|cmakecache\.txt directory .{0,300}"
        r"is different|generator : \w{1,40}\s{1,20}does not match the generator used previously",
        "the build folder was made elsewhere or with another generator",
        "remove the build folder of the checkout (build/, .deps/) and run again",
    ),
)
