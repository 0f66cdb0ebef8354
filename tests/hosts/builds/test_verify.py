"""verify on real environments that are not as they should be."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import RemoteError, StagingFailed
from deployctl.vllm.builds.completeness import record_problems
from tests.hosts.builds import project as projects
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project
from tests.slow import some


def settings(project: Project, ref: str = "v1.0.0", **more: Any) -> dict[str, Any]:
    source = {"url": project.url, "ref": ref, "upstream": project.url}
    return {"source": source, "compile_bytecode": False, **more}


def missing(site: Path) -> None:
    (site / "vllm/answer.py").unlink()


def truncated(site: Path) -> None:
    (site / "vllm/_C.abi3.so").write_bytes(b"\x7fELF")


def cut_off(site: Path) -> None:
    next(site.glob("vllm-*.dist-info/INSTALLER")).unlink()


def without_record(site: Path) -> None:
    next(site.glob("vllm-*.dist-info/RECORD")).unlink()


def twice(site: Path) -> None:
    other = site / "vllm_fork-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-fork\nVersion: 2.0\n")
    (other / "INSTALLER").write_text("pip\n")
    (other / "RECORD").write_text("vllm/__init__.py,,\n")


shares_environment = pytest.mark.xdist_group("verify: one environment")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One sealed environment; each test damages a copy of it."""
    folder = tmp_path_factory.mktemp("verify")
    host = BuildHost(folder / "root")
    done = host.up(host.wanted(settings(projects.make(folder / "project"))))
    yield host, host.environment(done["key"])
    host.close()


@shares_environment
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (missing, "vllm/answer.py is missing"),
        (truncated, "vllm/_C.abi3.so has 4 bytes"),
        (cut_off, "no INSTALLER"),
        (without_record, "no RECORD"),
        (twice, "vllm-fork 2.0"),
    ],
)
def test_damage_is_seen(
    environment: Any, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    host, whole = environment
    copy = tmp_path / "environment"
    shutil.copytree(whole, copy, symlinks=True)
    facts = host.session.call("environment.complete", environment=str(copy))
    assert record_problems(facts, "deployctl") == []
    damage(next((copy / "lib").glob("python3*")) / "site-packages")
    facts = host.session.call("environment.complete", environment=str(copy))
    problems = record_problems(facts, "deployctl")
    assert any(said in problem for problem in problems), problems


@shares_environment
def test_changed_bytes_are_seen_when_looking_deep(environment: Any, tmp_path: Path) -> None:
    host, whole = environment
    copy = tmp_path / "environment"
    shutil.copytree(whole, copy, symlinks=True)
    path = next((copy / "lib").glob("python3*")) / "site-packages/vllm/answer.py"
    path.write_text(path.read_text().replace("line_0 = 0", "line_0 = 1"))

    def problems(deep: bool) -> int:
        found = host.session.call("environment.complete", environment=str(copy), deep=deep)
        return int(found["problem_count"])

    assert (problems(False), problems(True)) == (0, 1)


@shares_environment
def test_imports_tell_each_extension_apart(environment: Any, tmp_path: Path) -> None:
    host, whole = environment
    copy = tmp_path / "environment"
    shutil.copytree(whole, copy, symlinks=True)
    site = next((copy / "lib").glob("python3*")) / "site-packages"
    (site / "vllm/_moe_C.abi3.so").write_bytes(b"not a library")
    found = host.session.call(
        "environment.imports", environment=str(copy), extensions=["vllm._C", "vllm._moe_C"]
    )
    assert found["extensions"]["vllm._C"] is None
    assert "_moe_C" in found["extensions"]["vllm._moe_C"]
    # One that ends its process, and a package that has loaded one before the others are tried.
    (site / "vllm/ends.py").write_text("import os\nos.kill(os.getpid(), 11)\n")
    for loads in ("", "import vllm._C\n"):
        (site / "vllm/__init__.py").write_text(f"__version__ = '1'\n{loads}")
        names = ["vllm._C", "vllm.ends"]
        found = host.session.call("environment.imports", environment=str(copy), extensions=names)
        ended = "the import ended by signal 11"
        assert found["extensions"] == {"vllm._C": None, "vllm.ends": ended}
    (site / "vllm/__init__.py").write_text("raise RuntimeError('undefined symbol: _ZN5torch')\n")
    with pytest.raises(RemoteError) as caught:
        host.session.call("environment.imports", environment=str(copy), extensions=[])
    assert caught.value.kind == "import-failed" and "undefined symbol" in caught.value.message


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a file is gone": missing,
    "a file was cut off": truncated,
    "it does not import": lambda site: written(
        site / "vllm/__init__.py", "raise RuntimeError('x')"
    ),
    "all of it is gone": lambda site: shutil.rmtree(site),
}


def written(path: Path, text: str) -> None:
    """Other bytes of the same size, in place."""
    size = path.stat().st_size
    with path.open("r+", encoding="ascii") as file:
        file.write((text + "\n")[:size].ljust(size, "#"))
    # Bytecode is told from its source by time and size.
    os.utime(path, (0, 0))


@pytest.mark.parametrize("damage", some(DAMAGES, ["a file is gone"]))
def test_damage_breaks_the_seal_and_another_is_built_beside(
    builder: BuildHost, project: Project, damage: str
) -> None:
    wanted = builder.wanted(settings(project))
    asked = replace(wanted, options={"verify": {"always": True}})
    done = builder.up(wanted)
    key = done["key"]
    site = next((builder.environment(key) / "lib").glob("python3*")) / "site-packages"
    assert builder.up(asked)["plans"] == {"build": "unchanged", "verify": "check"}
    DAMAGES[damage](site)
    assert builder.up(wanted)["plans"]["verify"] == "unchanged", "a seal is trusted"
    with pytest.raises(StagingFailed) as caught:
        builder.up(asked)
    assert builder.seal(key) is None
    assert caught.value.next
    assert builder.session.call("releases.state", profile="built", unit="server")["broken"][key]
    damaged = builder.session.call("files.tree_digest", path=f"@/environments/{key}")
    builder.notes.clear()
    again = builder.up(wanted)
    assert again["plans"] == {"build": "change", "verify": "check"}
    assert not any("verified again" in note for note in builder.notes)
    assert again["key"] == f"{key}-2" and builder.seal(f"{key}-2") is not None
    facts = builder.session.call(
        "environment.complete", environment=f"@/environments/{key}-2", deep=True
    )
    assert facts["problems"] == []
    assert builder.session.call("files.tree_digest", path=f"@/environments/{key}") == damaged
    assert builder.up(wanted)["plans"] == {"build": "unchanged", "verify": "unchanged"}


def test_no_environment(builder: BuildHost) -> None:
    with pytest.raises(RemoteError) as caught:
        builder.session.call("environment.complete", environment="@/nowhere")
    assert caught.value.kind == "no-environment"


def test_a_build_for_the_cpu_is_none_for_cuda(builder: BuildHost, project: Project) -> None:
    wanted = builder.wanted(settings(project, target="cuda", strategy="source"))
    with pytest.raises(StagingFailed) as caught:
        builder.up(wanted)
    assert "is a CPU build" in str(caught.value)


def test_a_library_that_the_host_lacks_is_named_and_nothing_is_built_again(
    builder: BuildHost, project: Project, tmp_path: Path
) -> None:
    # Linked against a library that is nowhere where a loader looks.
    library = tmp_path / "lib.so"
    linking = ["gcc", "-shared", "-Wl,-soname,libthere-is-none.so.7", "-o", str(library)]
    subprocess.run([*linking, "-x", "c", "/dev/null"], check=True)
    setup = (project.folder / "setup.py").read_text()
    arguments = f"extra_link_args=['-Wl,--no-as-needed', {str(library)!r}], py_limited_api=True)"
    project.commit("lacks", {"setup.py": setup.replace("py_limited_api=True)", arguments)})
    wanted = builder.wanted(settings(project, "lacks"))
    for _ in range(2):
        with pytest.raises(StagingFailed) as caught:
            builder.up(wanted)
        assert "the host lacks libthere-is-none.so.7" in caught.value.what
        assert caught.value.why.count("vllm._C does not import: ImportError: libthere") == 1
        assert "apt-file search libthere-is-none.so.7" in caught.value.next
    assert any("verified again" in note for note in builder.notes)
    assert builder.session.call("releases.state", profile="built", unit="server")["broken"] == {}


def test_a_required_fix_that_cannot_be_told(builder: BuildHost, project: Project) -> None:
    required = {"fixes": {"require": ["dflash-layer-offset"]}}
    with pytest.raises(StagingFailed) as caught:
        builder.up(builder.wanted(settings(project), **required))
    assert "dflash-layer-offset is unknown" in str(caught.value)
    # Found out from the environment that is there; it is not built a second time for that.
    with pytest.raises(StagingFailed):
        builder.up(builder.wanted(settings(project), **required))
    assert any("verified again" in note for note in builder.notes)
    assert builder.up(builder.wanted(settings(project)))["plans"]["verify"] == "check"


def test_a_preferred_fix_that_is_not_there_is_told_and_nothing_fails(
    builder: BuildHost, project: Project
) -> None:
    preferred = {"fixes": {"prefer": ["dflash-layer-offset"]}}
    done = builder.up(builder.wanted(settings(project), **preferred))
    assert builder.seal(done["key"]) is not None
    (told,) = (note for note in builder.notes if "a preferred fix is missing" in note)
    assert "dflash-layer-offset is unknown" in told
