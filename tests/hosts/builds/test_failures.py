"""What can be wrong with a source, a network or a disk: the right answer and the right words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import RemoteError, StagingFailed
from deployctl.steps.build import BuildStep, environment_key
from deployctl.steps.interface import Unanswered, Unknown
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project


def settings(project: Project, ref: str, **more: Any) -> dict[str, Any]:
    source = {"url": project.url, "ref": ref, "upstream": project.url}
    return {"source": source, "compile_bytecode": False, **more}


def unanswered(builder: BuildHost, build: dict[str, Any]) -> Unknown:
    wanted = builder.wanted(build)
    answers = builder.answers(wanted)
    with pytest.raises(Unanswered):
        environment_key(wanted, answers)
    unknown = answers.unknown("source")
    assert unknown is not None
    return unknown


def test_missing_ref_and_pull_request(builder: BuildHost, project: Project) -> None:
    assert unanswered(builder, settings(project, "nowhere")).kind == "no-ref"
    unknown = unanswered(builder, {"source": {"url": project.url, "pr": 4711}})
    assert (unknown.kind, "pull request 4711" in unknown.reason) == ("no-ref", True)


def test_unreachable_and_absent_repository(builder: BuildHost, project: Project) -> None:
    nobody = {"source": {"url": "http://127.0.0.1:9/vllm.git", "ref": "main"}}
    assert unanswered(builder, nobody).kind == "network"
    absent = {"source": {"url": f"{project.url}-not-there", "ref": "main"}}
    assert unanswered(builder, absent).kind == "repository"
    with pytest.raises(RemoteError) as caught:
        builder.session.call(
            "environment.resolve_source", url="http://user:hush@127.0.0.1:9/x.git", ref="main"
        )
    assert "hush" not in f"{caught.value} {caught.value.detail}"


def test_kinds_of_refs(builder: BuildHost, project: Project) -> None:
    commit = project.commit("feature", {"vllm/x.py": ""})
    project.git("update-ref", "refs/pull/7/head", commit)
    project.git("tag", "light", commit)
    project.git("branch", "twice", commit)
    project.git("tag", "twice", commit)

    def resolve(**source: Any) -> Any:
        return builder.session.call("environment.resolve_source", url=project.url, **source)

    assert resolve(ref="feature")["commit"] == commit
    assert resolve(ref="refs/heads/feature")["commit"] == commit
    assert resolve(ref="light")["commit"] == commit
    assert resolve(ref=commit)["commit"] == commit
    assert resolve(ref=commit[:10])["commit"] == commit
    assert resolve(pr=7)["commit"] == commit
    # An annotated tag is followed to its commit.
    assert resolve(ref="v1.0.0")["commit"] == project.git("rev-parse", "v1.0.0^{commit}")
    assert unanswered(builder, settings(project, "twice")).kind == "ambiguous-ref"


def test_branch_force_pushed_between_plan_and_build(builder: BuildHost, project: Project) -> None:
    old = project.commit("moving", {"vllm/x.py": "old = 1\n"})
    wanted = builder.wanted(settings(project, "moving"))
    answers = builder.answers(wanted)
    project.git("branch", "-f", "moving", "main")
    new = project.commit("moving", {"vllm/x.py": "new = 1\n"})
    # What was resolved is what is built, for as long as the server still has it.
    context = builder.context(wanted, answers)
    step = BuildStep()
    step.apply(context, step.plan(wanted, answers))
    assert step.prove(context)["commit_imported"] == old
    # The same branch now is another environment, although the version string is the same.
    done = builder.up(wanted)
    assert done["build"]["commit_imported"] == new
    assert done["key"] != context.release.environment_key
    assert done["build"]["version_installed"] == "1.0.0"
    # Gone for good: an error that says so.
    lost = project.commit("moving", {"vllm/x.py": "lost = 1\n"})
    answers = builder.answers(wanted)
    project.git("branch", "-f", "moving", "main")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")
    with pytest.raises(StagingFailed) as caught:
        step.apply(builder.context(wanted, answers), step.plan(wanted, answers))
    assert caught.value.evidence["kind"] == "no-ref", caught.value
    assert "force-pushed" in str(caught.value) and lost


def test_compile_error_shows_the_first_one(builder: BuildHost, project: Project) -> None:
    project.commit("broken", {"csrc/ext.c": "int wrong = ;\n"})
    with pytest.raises(StagingFailed) as caught:
        builder.up(builder.wanted(settings(project, "broken", strategy="source")))
    assert caught.value.evidence["kind"] == "compile-error"
    assert any("csrc/ext.c:1" in line for line in caught.value.evidence["first_error"])


def test_hunk_that_does_not_fit_leaves_nothing(builder: BuildHost, project: Project) -> None:
    release = builder.up(builder.wanted(settings(project, "v1.0.0")))
    (wheel,) = builder.session.call("environment.wheels")
    # The pull request changes a line that the release has otherwise.
    project.commit("main", {"vllm/answer.py": "line_0 = 'main'\n"})
    project.commit("fix", {"vllm/answer.py": "line_0 = 'fixed'\n", "vllm/also.py": "a = 1\n"})
    env = {"UV_FIND_LINKS": str(Path(wheel["path"]).parent), "UV_OFFLINE": "1"}
    wanted = builder.wanted(settings(project, "fix", strategy="patch", env=env))
    with pytest.raises(StagingFailed) as caught:
        builder.up(wanted)
    assert caught.value.evidence["kind"] == "patch-failed"
    assert "the hunk at line 1 of vllm/answer.py does not fit" in str(caught.value)
    key = environment_key(wanted, builder.answers(wanted))
    site = next((builder.environment(key) / "lib").glob("python3*")) / "site-packages"
    assert "line_0 = 0" in (site / "vllm/answer.py").read_text()
    assert not (site / "vllm/also.py").exists()
    assert builder.seal(key) is None and builder.seal(release["key"]) is not None


def test_same_commit_with_another_torch_is_another_build(
    builder: BuildHost, project: Project
) -> None:
    first = builder.wanted(settings(project, "v1.0.0", torch_backend="cpu"))
    second = builder.wanted(settings(project, "v1.0.0", torch_backend="cu130"))
    answers = builder.answers(first)
    assert environment_key(first, answers) != environment_key(second, answers)


def test_strategy_that_cannot_be(builder: BuildHost, project: Project) -> None:
    project.commit("native", {"csrc/ext.c": "// changed\n"})
    with pytest.raises(StagingFailed) as caught:
        builder.up(builder.wanted(settings(project, "native", strategy="patch")))
    assert "csrc/ext.c" in str(caught.value)
    with pytest.raises(StagingFailed):
        builder.up(builder.wanted({"source": {"release": "1.0.0"}, "strategy": "patch"}))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.lab
def test_disk_full_then_freed(small_disk: Path, project: Project) -> None:
    host = BuildHost(small_disk / "root")
    wanted = host.wanted(settings(project, "v1.0.0", extra=["pip"]))
    with pytest.raises(StagingFailed) as caught:
        host.up(wanted)
    assert caught.value.evidence["kind"] == "no-space", caught.value
    assert host.seal(environment_key(wanted, host.answers(wanted))) is None
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    assert host.up(wanted)["build"]["commit_imported"] is not None
    host.close()
