"""Two manifests side by side, as data."""

from __future__ import annotations

from typing import Any

from deployctl.engine.inspect.compare import differences, launch_options, manifests


def manifest(release: str, **more: Any) -> dict[str, Any]:
    speculative = f'{{"model":"/r/{release}/drafter"}}'
    return {
        "release": release,
        "launch": ["/e/bin/vllm", "serve", "/m", "--port", "1", "--eager", "--spec", speculative],
        "packages": {"torch": "1", "vllm": "2"},
        "wanted": {"name": "a", "serve": {"port": 1}},
        "commits": {"installed": "c1"},
        "evidence": {"acceptance": {"mean_acceptance_length": 7.9, "verdict": "pass"}},
        **more,
    }


def test_a_launch_line_by_option() -> None:
    assert launch_options(manifest("abc")) == {
        "command": "/e/bin/vllm serve /m",
        "--port": "1",
        "--eager": True,
        "--spec": '{"model":"/r/RELEASE/drafter"}',
    }
    assert launch_options({}) == {}


def test_the_path_of_an_environment_is_no_difference() -> None:
    line = ["/root/environments/{}/bin/vllm", "serve", "/m", "--port", "1"]
    one, other = (
        manifest(name, launch=[word.format(key) for word in line], identity={"environment": key})
        for name, key in (("abc", "e1f2"), ("def", "9a8b-2"))
    )
    assert launch_options(one)["command"] == "/root/environments/ENVIRONMENT/bin/vllm serve /m"
    assert not manifests(one, other)["made_from"]


def test_what_vllm_made_of_the_options_is_compared() -> None:
    one = manifest("abc", resolved={"max_model_len": 1024, "dtype": "bfloat16"}, backend="FA")
    other = manifest("def", resolved={"max_model_len": 4096, "dtype": "bfloat16"}, backend="FA")
    assert manifests(one, other)["made_from"] == [
        {"what": "resolved.max_model_len", "old": 1024, "new": 4096}
    ]


def test_the_same_release_twice_differs_in_nothing() -> None:
    found = manifests(manifest("abc"), manifest("def"))
    assert (found["made_from"], found["packages"], found["config"]) == ([], [], [])
    assert [f["what"] for f in found["figures"]] == [
        "acceptance.mean_acceptance_length",
        "acceptance.verdict",
    ]


def test_what_differs_is_told_by_its_path() -> None:
    other = manifest(
        "def",
        packages={"torch": "1", "vllm": "3", "new": "1"},
        wanted={"name": "b", "serve": {"port": 2}},
        commits={"installed": "c2"},
    )
    found = manifests(manifest("abc"), other)
    assert found["made_from"] == [{"what": "commits.installed", "old": "c1", "new": "c2"}]
    assert [p["what"] for p in found["packages"]] == ["new", "vllm"]
    assert found["config"] == [{"what": "serve.port", "old": 1, "new": 2}]


def test_lists_are_compared_whole() -> None:
    (one,) = differences({"a": [1, 2]}, {"a": [1, 3]})
    assert one == {"what": "a", "old": [1, 2], "new": [1, 3]}
