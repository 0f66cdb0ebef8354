"""A stand-in for vLLM's repository: a real git repository whose real C extensions uv builds.

It has what a build of vLLM depends on: compiled modules of vLLM's names, a package `vllm` with the
commit in `_version.py`, upstream binaries by commit, and release tags. torch is a stand-in too.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

EXTENSIONS = ("_C", "_moe_C", "cumem_allocator", "_vllm_fa2_C")

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "vllm"
version = "{version}"
requires-python = ">=3.9"
"""

SETUP = '''\
import os, pathlib, subprocess, time, urllib.request
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

here = pathlib.Path(__file__).parent
commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True)
(here / "vllm" / "_version.py").write_text(
    f"__version__ = version = {os.environ.get('STAND_IN_VERSION', '@version@')!r}\\n"
    f"__commit_id__ = commit_id = 'g{commit.stdout.strip()[:9]}'\\n"
)
names = @names@

def sources(name):
    units = sorted(str(p.relative_to(here)) for p in (here / "csrc").glob("unit_*.cpp"))
    return ["csrc/ext.c", *(units if name == "_C" else [])]

class BuildPy(build_py):
    """`_version.py` is made by the build, as setuptools-scm makes vLLM's."""

class Build(build_ext):
    def build_extension(self, extension):
        number = names.index(extension.name.split(".")[-1]) + 1
        print(f"[{number}/{len(names)}] Building {extension.name}", flush=True)
        if os.environ.get("STAND_IN_HOLD"):
            hold(pathlib.Path(os.environ["STAND_IN_HOLD"]))
        if os.environ.get("VLLM_USE_PRECOMPILED"):
            return self.precompiled(extension)
        super().build_extension(extension)

    def precompiled(self, extension):
        index = os.environ["STAND_IN_INDEX"]
        url = f"{index}/{os.environ['VLLM_PRECOMPILED_WHEEL_COMMIT']}/{extension.name}.so"
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(urllib.request.urlopen(url, timeout=120).read())
        except OSError:
            print("WARNING: Using the nightly wheel", flush=True)
            super().build_extension(extension)

def hold(flag):
    """Tell the test that a compiler's parent works, and stay until the flag goes."""
    (flag.parent / "building").write_text(str(os.getpid()))
    child = subprocess.Popen(["sleep", "infinity"])
    try:
        while flag.exists():
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()

setup(
    packages=["vllm", "torch"],
    ext_modules=[Extension(f"vllm.{n}", sources(n), define_macros=[("NAME", n)],
                           py_limited_api=True) for n in names],
    cmdclass={"build_ext": Build, "build_py": BuildPy},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
'''

EXT = """\
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define STR_(a) #a
#define STR(a) STR_(a)
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "vllm." STR(NAME), 0, -1, 0};
PyMODINIT_FUNC CAT(PyInit_, NAME)(void) { return PyModule_Create(&module); }
"""

UNIT = """\
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int unit_{number}(const std::string& text) {{
  static const std::regex pattern("([a-z]+)({number}[0-9]*)-(x|y|z)*");
  std::map<std::string, std::vector<std::function<int(int)>>> made;
  std::smatch found;
  if (std::regex_search(text, found, pattern)) made[found[1]].push_back([](int v) {{ return v; }});
  return static_cast<int>(made.size());
}}
"""

TORCH = """\
import types
__version__ = "0+standin"
version = types.SimpleNamespace(cuda={cuda!r})
cuda = types.SimpleNamespace(get_arch_list=lambda: ["sm_90", "sm_120"])
"""


@dataclass(frozen=True)
class Project:
    """The repository and the commits of its branches."""

    folder: Path

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *arguments: str) -> str:
        """git in the repository."""
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, branch: str, files: dict[str, str], base: str = "main") -> str:
        """A commit on a branch (made from `base` where it is new); gives its 40 digits."""
        exists = branch in self.git("branch", "--format=%(refname:short)").split()
        self.git("checkout", "-q", *([] if exists else ["-B"]), branch, *([] if exists else [base]))
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.git("add", name)
        self.git("commit", "-q", "--allow-empty", "-m", f"{branch}: {', '.join(files)}")
        commit = self.git("rev-parse", "HEAD")
        self.git("checkout", "-q", "main")
        return commit


def make(folder: Path, version: str = "1.0.0", cuda: str | None = None, units: int = 0) -> Project:
    """A repository with one release, tagged, on `main`; each of `units` is a C++ file that takes a
    compiler about two seconds."""
    folder.mkdir(parents=True)
    project = Project(folder)
    project.git("init", "-q", "-b", "main")
    project.git("config", "uploadpack.allowFilter", "true")
    project.git("commit", "-q", "--allow-empty", "-m", "begin")
    setup = SETUP.replace("@names@", repr(list(EXTENSIONS))).replace("@version@", version)
    files = {
        ".gitignore": "build/\ndist/\n*.egg-info/\n*.so\nvllm/_version.py\n",
        "pyproject.toml": PYPROJECT.format(version=version),
        "setup.py": setup,
        "csrc/ext.c": EXT,
        "torch/__init__.py": TORCH.format(cuda=cuda),
        "vllm/__init__.py": "from vllm._version import __version__\n",
        "vllm/answer.py": "\n".join(f"line_{n} = {n}" for n in range(20)) + "\n",
        "vllm/entrypoints/__init__.py": "",
    }
    for number in range(units):
        files[f"csrc/unit_{number:03}.cpp"] = UNIT.format(number=number)
    project.commit("main", files)
    project.git("tag", "-a", f"v{version}", "-m", f"release {version}")
    return project
