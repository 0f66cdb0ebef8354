"""Patch files onto an installed wheel, and a build from a folder of wheels without any index."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_profile
from deployctl.errors import ConfigError, StagingFailed
from deployctl.steps.build import BuildStep
from deployctl.steps.interface import Unanswered
from tests.hosts.builds.host import BuildHost

LINES = "".join(f"line_{n} = {n}\n" for n in range(20))
FILES = {"vllm/__init__.py": '__version__ = "1.0.0"\n', "vllm/answer.py": LINES}
PATCH = """\
diff --git a/vllm/answer.py b/vllm/answer.py
--- a/vllm/answer.py
+++ b/vllm/answer.py
@@ -6,5 +6,5 @@ line_4 = 4
 line_5 = 5
 line_6 = 6
-line_7 = 7
+line_7 = 700
 line_8 = 8
 line_9 = 9
"""
SECOND = """\
diff --git a/tests/test_answer.py b/tests/test_answer.py
new file mode 100644
--- /dev/null
+++ b/tests/test_answer.py
@@ -0,0 +1 @@
+assert True
diff --git a/vllm/answer.py b/vllm/answer.py
--- a/vllm/answer.py
+++ b/vllm/answer.py
@@ -7,3 +7,3 @@
 line_6 = 6
-line_7 = 700
+line_7 = 7000
 line_8 = 8
diff --git a/vllm/new.py b/vllm/new.py
new file mode 100644
--- /dev/null
+++ b/vllm/new.py
@@ -0,0 +1 @@
+new = True
"""


def wheel(folder: Path, name: str, files: dict[str, str], *requires: str) -> None:
    """A wheel of version 1.0.0."""
    info = f"{name}-1.0.0.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    inside = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={digest(text)},{len(text)}\n" for path, text in inside.items()]
    inside[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0.0-py3-none-any.whl", "w") as file:
        for path, text in inside.items():
            file.writestr(path, text)


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    wheel(folder, "vllm", FILES, "helper")
    wheel(folder, "helper", {"helper.py": "x = 1\n"})
    return folder


def settings(wheels: Path, *patches: Path, **more: Any) -> dict[str, Any]:
    return {
        "source": {"release": "1.0.0"},
        "target": "empty",
        "wheels_dir": str(wheels),
        "index": "none",
        "patches": [str(patch) for patch in patches],
        # An index that would be asked would fail.
        "env": {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"},
        **more,
    }


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


def site(builder: BuildHost, key: str) -> Path:
    return next((builder.environment(key) / "lib").glob("python3*")) / "site-packages"


def test_from_a_folder_of_wheels_alone(builder: BuildHost, wheels: Path) -> None:
    done = builder.up(builder.wanted(settings(wheels)))
    assert (done["build"]["strategy"], done["build"]["version_imported"]) == ("release", "1.0.0")
    assert (site(builder, done["key"]) / "helper.py").exists()


def test_what_the_folder_lacks_is_named(builder: BuildHost, wheels: Path) -> None:
    next(wheels.glob("helper-*.whl")).unlink()
    with pytest.raises(StagingFailed) as failed:
        builder.up(builder.wanted(settings(wheels)))
    assert "helper" in failed.value.why


def test_patches_in_their_order(builder: BuildHost, wheels: Path, tmp_path: Path) -> None:
    plain = builder.up(builder.wanted(settings(wheels)))
    first = written(tmp_path, "first.patch", PATCH)
    second = written(tmp_path, "second.patch", SECOND)
    wanted = builder.wanted(settings(wheels, first, second))
    plan = BuildStep().plan(wanted, builder.answers(wanted))
    assert "with first.patch, second.patch" in plan.changes[0].why
    done = builder.up(wanted)
    assert done["key"] != plain["key"]
    assert [patch["name"] for patch in done["build"]["patches"]] == ["first.patch", "second.patch"]
    made = site(builder, done["key"])
    assert "line_7 = 7000\n" in (made / "vllm/answer.py").read_text()
    assert (made / "vllm/new.py").exists()
    assert not (made / "tests").exists()
    assert done["verify"]["problems"] == []
    # The plain environment, which shares files with uv's cache, is as it was.
    assert (site(builder, plain["key"]) / "vllm/answer.py").read_text() == LINES
    assert builder.up(wanted)["plans"] == {"build": "unchanged", "verify": "unchanged"}
    first.write_text(PATCH.replace("700", "701"), "utf-8")
    changed = builder.wanted(settings(wheels, first))
    assert BuildStep().plan(changed, builder.answers(changed)).status == "change"


def test_what_does_not_fit_changes_nothing(
    builder: BuildHost, wheels: Path, tmp_path: Path
) -> None:
    wrong = written(tmp_path, "wrong.patch", PATCH.replace("line_6 = 6", "line_6 = 66"))
    with pytest.raises(StagingFailed, match="patch") as failed:
        builder.up(builder.wanted(settings(wheels, wrong)))
    assert "vllm/answer.py" in failed.value.why
    (key,) = (path.name for path in (builder.root / "environments").iterdir())
    assert (site(builder, key) / "vllm/answer.py").read_text() == LINES
    assert builder.seal(key) is None


def test_what_is_there_already_is_passed_over(
    builder: BuildHost, wheels: Path, tmp_path: Path
) -> None:
    first, again = (written(tmp_path, f"{name}.patch", PATCH) for name in ("first", "again"))
    done = builder.up(builder.wanted(settings(wheels, first, again)))
    assert "line_7 = 700\n" in (site(builder, done["key"]) / "vllm/answer.py").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PATCH.replace("vllm/answer.py", "csrc/kernel.cu"), "csrc/kernel.cu, which is compiled"),
        (PATCH.replace("vllm/answer.py", "docs/index.md"), "no file below vllm/"),
    ],
)
def test_what_no_patch_can_change(
    builder: BuildHost, wheels: Path, tmp_path: Path, text: str, words: str
) -> None:
    wanted = builder.wanted(settings(wheels, written(tmp_path, "own.patch", text)))
    plan = BuildStep().plan(wanted, builder.answers(wanted))
    assert plan.status == "blocked"
    assert words in plan.reason


def test_a_patch_leads_nowhere_else(builder: BuildHost, wheels: Path, tmp_path: Path) -> None:
    written(tmp_path, "outside.py", LINES)
    away = "vllm/" + "../" * 20 + str(tmp_path)[1:] + "/outside.py"
    wrong = written(tmp_path, "wrong.patch", PATCH.replace("vllm/answer.py", away))
    with pytest.raises(StagingFailed):
        builder.up(builder.wanted(settings(wheels, wrong)))
    assert (tmp_path / "outside.py").read_text() == LINES


def test_a_patch_that_is_gone(builder: BuildHost, wheels: Path, tmp_path: Path) -> None:
    wanted = builder.wanted(settings(wheels, tmp_path / "gone.patch"))
    with pytest.raises(Unanswered, match=r"gone\.patch"):
        BuildStep().plan(wanted, builder.answers(wanted))


def test_a_path_counts_from_the_profile(tmp_path: Path) -> None:
    written(tmp_path, "fix.patch", PATCH)
    profile = written(tmp_path, "p.yaml", "extends: demo\nbuild: {patches: [fix.patch]}\n")
    loaded = load_profile(str(profile), environ={}).profile
    assert loaded.build.patches == [str(tmp_path / "fix.patch")]
    profile.write_text("extends: demo\nbuild:\n  patches: [none.patch]\n")
    with pytest.raises(ConfigError) as refused:
        load_profile(str(profile), environ={})
    assert "p.yaml:3:13" in str(refused.value)
    profile.write_text("extends: demo\nbuild: {index: none}\n")
    with pytest.raises(ConfigError, match=r"(?s)invalid") as refused:
        load_profile(str(profile), environ={})
    assert "wheels_dir" in str(refused.value)


def test_a_diff_as_git_writes_it(builder: BuildHost, wheels: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "vllm").mkdir(parents=True)

    def git(*argv: str) -> str:
        known = ["-c", "user.name=a", "-c", "user.email=a@b.test"]
        return subprocess.run(
            ["git", "-C", str(tree), *known, *argv], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    for path, text in FILES.items():
        (tree / path).write_text(text)
    git("add", "-A")
    git("commit", "-qm", "before")
    (tree / "vllm/answer.py").rename(tree / "vllm/question.py")
    git("add", "-A")
    patch = written(tmp_path, "rename.patch", git("diff", "--cached", "--no-renames"))
    done = builder.up(builder.wanted(settings(wheels, patch)))
    made = site(builder, done["key"])
    assert (made / "vllm/question.py").read_text() == LINES
    assert not (made / "vllm/answer.py").exists()
