"""Every strategy by a real uv, from a real repository with C extensions."""

from __future__ import annotations

from pathlib import Path

from deployctl.steps.facts import SOURCE
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project


def source(project: Project, ref: str) -> dict[str, str]:
    return {"url": project.url, "ref": ref, "upstream": project.url}


def test_source_then_reuse_then_unchanged(builder: BuildHost, project: Project) -> None:
    commit = project.commit("feature", {"vllm/more.py": "x = 1\n", "csrc/note.h": "\n"})
    wanted = builder.wanted({"source": source(project, "feature")})
    done = builder.up(wanted)
    build = done["build"]
    assert (build["commit_requested"], build["commit_installed"], build["commit_imported"]) == (
        commit,
        commit,
        commit,
    )
    assert build["strategy"] == "source"
    assert [a["strategy"] for a in build["attempts"]] == ["reuse", "precompiled"]
    assert "compiling" in builder.phases
    assert done["verify"]["extensions"] == dict.fromkeys(
        ["vllm._C", "vllm._moe_C", "vllm._vllm_fa2_C", "vllm.cumem_allocator"]
    )
    seal = builder.seal(done["key"])
    assert seal is not None and seal["evidence"]["build"]["commit_imported"] == commit
    # The same wish again changes nothing.
    again = builder.up(wanted)
    assert again["plans"] == {"build": "unchanged", "verify": "unchanged"}
    # Another environment of the same commit takes the kept wheel.
    other = builder.up(builder.wanted({"source": source(project, "feature"), "extra": ["pip"]}))
    assert other["key"] != done["key"]
    assert other["build"]["strategy"] == "reuse"
    assert other["build"]["commit_imported"] == commit


def test_patch_onto_a_release(builder: BuildHost, project: Project, tmp_path: Path) -> None:
    release = builder.up(builder.wanted({"source": source(project, "v1.0.0")}))
    (wheel,) = builder.session.call("environment.wheels")
    changed = "\n".join(f"line_{n} = {n if n != 7 else 700}" for n in range(20)) + "\n"
    commit = project.commit("python", {"vllm/answer.py": changed, "vllm/new.py": "y = 2\n"})
    settings = {
        "source": source(project, "python"),
        "strategy": "patch",
        "env": {"UV_FIND_LINKS": str(Path(wheel["path"]).parent), "UV_OFFLINE": "1"},
    }
    done = builder.up(builder.wanted(settings))
    assert done["build"]["strategy"] == "patch"
    assert done["build"]["commit_imported"] == commit
    assert done["build"]["files_different"] == []
    site = next((builder.environment(done["key"]) / "lib").glob("python3*")) / "site-packages"
    assert "line_7 = 700" in (site / "vllm/answer.py").read_text()
    # Neither the release's environment nor uv's cache, which share files with it, are changed.
    old = next((builder.environment(release["key"]) / "lib").glob("python3*")) / "site-packages"
    assert "line_7 = 7\n" in (old / "vllm/answer.py").read_text()


def test_checkout_with_changes(builder: BuildHost, project: Project) -> None:
    (project.folder / "vllm/answer.py").write_text("changed = True\n")
    (project.folder / "vllm/untracked.py").write_text("new = True\n")
    (project.folder / "vllm/_C.abi3.so").write_text("left by an earlier build")
    wanted = builder.wanted({"source": {"path": str(project.folder)}})
    first = builder.answers(wanted)[SOURCE]
    done = builder.up(wanted)
    assert done["build"]["dirty"] is True
    site = next((builder.environment(done["key"]) / "lib").glob("python3*")) / "site-packages"
    assert (site / "vllm/answer.py").read_text() == "changed = True\n"
    assert (site / "vllm/untracked.py").exists()
    # Another content is another identity; the checkout itself is as it was.
    (project.folder / "vllm/answer.py").write_text("changed = 2\n")
    assert builder.answers(wanted)[SOURCE]["identity"] != first["identity"]
    assert project.git("status", "--porcelain").split("\n")[0].strip() == "M vllm/answer.py"
