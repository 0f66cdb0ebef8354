"""What a host lacks for a build: room, memory, time, compilers, the right versions of them."""

from __future__ import annotations

import re
from functools import partial

from deployctl.vllm.logs.causes.cause import Cause, cause

build = partial(cause, flags=re.IGNORECASE | re.MULTILINE)
"""An entry of a table about builds: several programs write one thing in several cases."""
_CUDA_HOME = (
    "set CUDA_HOME in build.env to a toolkit of torch's version, or choose the "
    "build.torch_backend of "
    "the host's toolkit"
)
_JOBS = "set build.max_jobs lower, or free memory on the host"

CAUSES: tuple[Cause, ...] = (
    build(
        "no-space",
        "kernel (ENOSPC), uv, git",
        r"no space left on device|\(os error 28\)|disk quota exceeded|\(os error 122\)"
        r"|out of diskspace|not enough (?:free )?(?:disk )?space",
        "the disk is full",
        "free space below the host's root, then run again",
    ),
    build(
        "stopped",
        "shell, make, CI services",
        r"interrupted by (?:the )?user|operation was canceled|keyboardinterrupt$"
        r"|exit(?:ed with)? (?:code|status):? ?(?:130|143)\b|returned non-zero exit status -?15\b"
        r"|died with <signals\.sig(?:int|term)|^\s{0,40}terminated$|timeout: sending signal",
        "the build was stopped from outside",
        "retry: the work continues",
    ),
    build(
        "out-of-memory",
        "gcc, clang, nvcc, ld",
        r"killed signal terminated program|fatal error: killed|internal compiler error: killed"
        r"|unable to execute command: killed|terminated with signal 9"
        r"|died due to signal 9|std::bad_alloc|virtual memory exhausted|cannot allocate memory"
        r"|\(os error 12\)|out of memory allocating|out of memory: killed process|oom-kill",
        "a compiler ran out of memory, or was ended for it (SIGKILL)",
        _JOBS,
    ),
    build(
        "out-of-memory",
        "shell, ninja, make, cargo, CMake, Python",
        r"^\s{0,40}(?:/bin/sh: line \d+: +\d+ )?killed\b(?: +\(core dumped\))?(?: {2,}.{0,400})?$"
        r"|\[code=(?:137|9|-9)\]|exit(?:ed with)?(?: code| status)?:? ?\(?(?:137|-9)\b"
        r"|non-zero exit status (?:137|-9|9)\.?$|exit status 9\b|\berror 137\b"
        r"|signal: 9, sigkill|died with <signals\.sigkill|\*\*\* \[.{1,300}\] killed"
        r"|(?:cmake|ninja|nvcc|cicc|cc1plus).{0,200}(?:signal 9|died with.{0,20}9)",
        "a compiler was ended by SIGKILL (137, -9 or 9), most likely for want of memory",
        _JOBS,
    ),
    build(
        "compiler-crashed",
        "gcc, nvcc",
        r"internal compiler error|died due to signal (?P<signal>11|6|4|7)\b|segmentation fault"
        r"|signal: 11, sigsegv|\[code=(?:139|-11)\]|non-zero exit status (?:139|-11)\.?$",
        "a compiler crashed",
        "run again with a lower build.max_jobs; if it crashes in the same file, use another "
        "version of the compiler",
    ),
    build(
        "too-many-processes",
        "kernel (EAGAIN, EMFILE)",
        r"posix_spawn: resource temporarily unavailable|fork: (?:retry: )?resource temporarily"
        r"|too many open files|\(os error 24\)|\(os error 11\)|cannot fork\b|pthread_create failed",
        "the build's user has no processes or files left",
        "raise the limits (ulimit -u, ulimit -n, the container's pids limit), or lower "
        "build.max_jobs",
    ),
    build(
        "wrong-binaries",
        "vLLM's setup.py",
        r"refused: .{0,400}nightly",
        "the build took nightly binaries, which do not match this commit",
        "set build.strategy: source",
    ),
    build(
        "patch-failed",
        "deployctl, git",
        r"the hunk at line \d+ of|patch does not apply|error: patch failed",
        "the change does not fit onto the release; nothing was changed",
        "set build.strategy: source, or choose a ref nearer to a release",
    ),
    build(
        "permission",
        "kernel (EACCES, EROFS)",
        r"permission denied(?! \(publickey)|\(os error 13\)|read-only file system"
        r"|\(os error 30\)|\[errno 13\]|detected dubious ownership in repository at '(?P<path>"
        r"[^']{1,300})'",
        "the build may not write or read a file",
        "look at the path in the log: its owner must be the user who builds",
    ),
    build(
        "compiler-too-old",
        "nvcc",
        r"(?:nvcc fatal {0,4}: {0,2})?unsupported gpu architecture '(?P<arch>[^']{1,40})'"
        r"|nvcc fatal {0,4}: {0,2}(?!unsupported|unknown).{0,80}(?:arch|compute_|sm_)"
        r"|value '(?P<value>sm_\w{1,10})' is not defined for option 'gpu-name'",
        "the CUDA compiler is too old for this GPU[ ({arch/value})]",
        "install a newer CUDA toolkit on the host, or set TORCH_CUDA_ARCH_LIST in build.env",
    ),
    build(
        "compiler-too-old",
        "nvcc",
        r"nvcc fatal {0,4}: {0,2}unknown option '(?P<option>[^']{1,60})'",
        "the CUDA compiler does not know the option {option}: it is older than the sources expect",
        "install a newer CUDA toolkit on the host, or set CUDA_HOME in build.env to one",
    ),
    build(
        "host-compiler",
        "nvcc (host_config.h)",
        r"unsupported gnu version! gcc versions later than (?P<most>\d+)|unsupported clang version"
        r"|unsupported (?:microsoft )?visual studio version",
        "nvcc does not take the host's [gcc: {most} is the newest that it knows|compiler]",
        "install [gcc-{most} and g++-{most}|a compiler that it knows], and set CUDAHOSTCXX in "
        "build.env to it",
    ),
    build(
        "host-compiler",
        "setup.py, CMake",
        r"(?:gcc|g\+\+|c\+\+|compiler).{0,80}(?:is too old|or (?:newer|later|higher) is required)"
        r"|c\+\+ ?(?:17|20) (?:or later )?(?:compatible compiler )?is required"
        r"|unrecognized command[- ]line option '?(?P<option>[^' ]{1,40})",
        "the host's C++ compiler is too old",
        "install a newer g++ on the host, and set CC and CXX in build.env to it",
    ),
    build(
        "cuda-mismatch",
        "PyTorch (cpp_extension), CMake",
        r"detected cuda version \((?P<have>[\d.]{1,8})\)\s{1,40}mismatches the version that was "
        r"used to\s{1,40}compile\s{1,40}pytorch \((?P<want>[\d.]{1,8})\)",
        "the host's CUDA toolkit is {have}, torch was built with {want}",
        _CUDA_HOME,
    ),
    build(
        "cuda-mismatch",
        "PyTorch from 2.9, whose sentence is not put together",
        r"detected cuda version \(%s\).{0,300}?'(?P<have>[\d.]{1,8})', '(?P<want>[\d.]{1,8})'",
        "the host's CUDA toolkit is {have}, torch was built with {want}",
        _CUDA_HOME,
    ),
    build(
        "cuda-mismatch",
        "CMake",
        r"FindCUDA says CUDA version is (?P<have>[\d.]{1,8}).{0,200}\s{0,40}.{0,200}headers say",
        "CMake found a CUDA toolkit of version {have} and headers of another",
        _CUDA_HOME,
    ),
    build(
        "cuda-architectures",
        "PyTorch's CMake files",
        r"unknown cuda architecture name (?P<arch>\S{1,20})"
        r"|unknown cuda arch \((?P<other>[^)]{1,20})"
        r"\)|arch_bin wasn't set|none of the cuda architectures|invalid value '?sm_",
        "TORCH_CUDA_ARCH_LIST names an architecture that this torch does not know[: {arch/other}]",
        "set TORCH_CUDA_ARCH_LIST in build.env to the GPU's compute capability, such as 9.0",
    ),
    build(
        "no-cuda",
        "CMake, PyTorch, vLLM's setup.py",
        r"cuda_home.{0,60}(?:not set|is none)|could not find nvcc|nvcc.{0,20}not found"
        r"|no such file or directory: '[^']{0,200}nvcc'|no cmake_cuda_compiler"
        r"|failed to (?:detect|find).{0,40}(?:cuda architecture|nvcc)"
        r"|cuda_toolkit_root_dir not found"
        r"|could not find (?:cuda\b|cudatoolkit)|couldn't find cuda library root"
        r"|caffe2: cuda cannot be found|your installed caffe2 version uses cuda but"
        r"|compiling the cuda compiler identification source file"
        r"|cuda compiler identification is unknown|nvcc was not found",
        "the host has no CUDA toolkit that works, or CUDA_HOME does not name it",
        "install the CUDA toolkit on the host, or set CUDA_HOME in build.env to it",
    ),
    build(
        "no-compiler",
        "CMake, setuptools, cargo",
        r"no cmake_(?:cxx|c)_compiler|command '[^']{0,200}(?:gcc|g\+\+|cc|clang)(?:-[\d.]{1,4})?' "
        r"failed: no such file|linker [`'](?P<linker>[\w+-]{1,20})['`] not found"
        r"|(?:gcc|g\+\+|cc|c\+\+|clang): (?:command )?not found|unable to execute '(?:gcc|cc"
        r"|x86_64-"
        r"linux-gnu-gcc)'|no such file or directory: '(?:[^']{0,100}/)?(?:gcc|g\+\+|cc|c\+\+)'"
        r"|c compiler cannot create executables|no acceptable c compiler",
        "the host has no C or C++ compiler",
        "install build-essential on the host",
    ),
    build(
        "no-cmake",
        "setuptools, uv, shell",
        r"cmake: (?:command )?not found|no such file or directory: 'cmake'|cmake must be installed"
        r"|cannot find cmake executable",
        "there is no cmake for the build",
        "add cmake to the build's requirements, or install it on the host",
    ),
    build(
        "cmake-version",
        "CMake",
        r"cmake (?P<want>[\d.]{1,8}) or higher is required\.\s{1,40}you are running version "
        r"(?P<have>[\d.]{1,12})|compatibility with cmake < (?P<old>[\d.]{1,6}) has been removed",
        "cmake's version does not fit the sources[: {have}, {want} is wanted]",
        "install another cmake on the host; for sources that are too old set "
        'CMAKE_POLICY_VERSION_MINIMUM: "3.5" in build.env',
    ),
    build(
        "no-ninja",
        "CMake, PyTorch",
        r"unable to find a build program corresponding to \"?ninja|ninja: (?:command )?not found"
        r"|no such file or directory: 'ninja'|ninja is required to load",
        "there is no ninja for the build",
        "add ninja to the build's requirements, or install it on the host",
    ),
    build(
        "no-rust",
        "setuptools-rust, maturin",
        r"can't find rust compiler|rust toolchain .{0,80}not installed"
        r"|cargo: (?:command )?not found"
        r"|rustc: (?:command )?not found|no such file or directory: '(?:cargo|rustc)'"
        r"|cargo, the rust package manager, is not installed",
        "there is no Rust compiler for the build",
        "install rustup on the host (https://rustup.rs)",
    ),
    build(
        "rust-too-old",
        "cargo",
        r"requires rustc (?P<want>[\d.]{1,10})|rustc (?P<have>[\d.]{1,10}) is not supported by"
        r"|feature `edition(?P<edition>\d+)` is required|lock file version.{0,80}not understood"
        r"|lock file version `?\d+`? requires",
        "the host's Rust is too old[: {want} is wanted]",
        "run rustup update on the host",
    ),
    build(
        "header-missing",
        "gcc, nvcc",
        r"fatal error: (?P<file>Python\.h): no such file",
        "Python's headers are missing",
        "install them on the host (python3-dev), or use uv's own Python (build.python)",
    ),
    build(
        "header-missing",
        "gcc, nvcc, clang",
        r"fatal error: '?(?P<file>[^\s:']{1,160})'?(?:: no such file or directory| file not found)"
        r"|cannot open source file \"(?P<source>[^\"]{1,160})\"",
        "a header is missing: {file/source}",
        "install the package that has it: parts of the CUDA toolkit (cuda_runtime.h, cublas_v2.h, "
        "nvrtc.h), libnuma-dev (numa.h), or a submodule that was not checked out",
    ),
    build(
        "library-missing",
        "ld",
        r"cannot find -l(?P<name>[\w+.-]{1,60})",
        "the linker does not find the library {name}",
        "install it on the host, or add its folder to LIBRARY_PATH in build.env",
    ),
    build(
        "system-package",
        "pkg-config, cargo, CMake",
        r"(?:package|library) ['`]?(?P<name>[\w.+-]{1,60})['`]? (?:was )?not found"
        r"|no package '(?P<package>[\w.+-]{1,60})' found"
        r"|could not find directory of (?P<ssl>openssl)"
        r"|could not find `(?P<tool>protoc)`|pkg-config (?:exited|could not|command)"
        r"|could not find (?:a package configuration file provided by )?\"?(?P<cmake>numa|openssl"
        r"|openmp|mpi|zeromq|libzmq|protobuf|nccl)\b",
        "a system package for the build is missing[: {name/package/ssl/tool/cmake}]",
        "install it on the host with its development files",
    ),
)
