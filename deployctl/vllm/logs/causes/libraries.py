"""Python and shared libraries that do not belong together."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "metadata-missing",
        "importlib.metadata",
        r"PackageNotFoundError: No package metadata was found for (?P<name>\S{1,100})",
        "the environment lacks the metadata of {name}",
        "build it again: deployctl build",
    ),
    cause(
        "extension-broken",
        "ld.so",
        r"undefined symbol: (?P<symbol>\S{1,300})",
        "a compiled module does not fit the torch beside it ({symbol})",
        "build vLLM again for this torch: deployctl build",
    ),
    cause(
        "extension-broken",
        "PyTorch, vLLM",
        r"operator (?P<symbol>\w{1,60}::\w{1,80}) does not exist"
        r"|'_OpNamespace' '(?P<space>\w{1,60})' "
        r"object has no attribute '(?P<name>\w{1,80})'|No module named 'vllm\._\w{1,60}'"
        r"|cannot import name '\w{1,60}' from 'vllm\._C'",
        "a compiled module of vLLM or torchvision does not fit the torch beside it",
        "build the release again, whole: deployctl build",
    ),
    cause(
        "libstdc++",
        "ld.so",
        r"version `(?P<wanted>(?:GLIBCXX|CXXABI|GLIBC)_[\d.]{1,12})' not found",
        "the host's C++ or C library is too old: {wanted} is wanted",
        "remove folders with an older libstdc++ from LD_LIBRARY_PATH in serve.env, "
        "or use a newer system in the container",
    ),
    cause(
        "library-missing",
        "ld.so",
        r"(?P<library>libcuda\.so(?:\.1)?|libnvidia-ml\.so(?:\.1)?): cannot open shared object",
        "the driver's library {library} is not in the container",
        "install the driver's libraries there, of the module's version: deployctl doctor",
    ),
    cause(
        "library-missing",
        "ld.so",
        r"(?P<library>lib\w{1,40}(?:\.[\w-]{1,40})?\.so[.\d]{0,12}): cannot open shared object "
        r"file",
        "{library} is not there: a package was built for another CUDA, or a system package is "
        "missing",
        "compare its number with torch's CUDA (build.torch_backend) and build again; "
        "libGL and libglib come from the system's packages",
        on="line",
    ),
    cause(
        "package-missing",
        "Python",
        r"ModuleNotFoundError: No module named '(?P<name>[^']{1,100})'",
        "the package {name} is not installed",
        "add it to build.extra in the profile, and build again",
    ),
    cause(
        "package-versions",
        "Python",
        r"ImportError: cannot import name '(?P<name>[^']{1,100})' from '(?P<package>[\w.]{1,120})'",
        "{package} has no {name}: its version does not fit the packages beside it",
        "build the release again without build.overrides, or pin {package} in build.extra",
    ),
    cause(
        "package-versions",
        "NumPy, protobuf",
        r"numpy\.dtype size changed|compiled using NumPy 1\.x cannot be run|module 'numpy' has no "
        r"attribute|Descriptors cannot be created directly|AttributeError: module "
        r"'(?P<package>[\w.]{1,80})' has no attribute '(?P<name>\w{1,80})'",
        "packages of the environment do not fit each other",
        "build the release again without build.overrides: deployctl build",
    ),
)
