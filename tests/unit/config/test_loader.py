"""Profiles from files: extending, hosts by name, alternatives, names; playbooks and hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deployctl.config.loader import Loaded, load_host, load_playbook
from deployctl.config.playbook import StepSettings
from deployctl.config.shape import fields
from deployctl.config.step_options import Options
from deployctl.errors import ConfigError, UsageError
from deployctl.steps import registry
from tests.unit.config.conftest import SMALLEST, Folder

Reads = Callable[[str], Loaded]


def test_the_smallest_profile_is_named_after_its_file(folder: Folder) -> None:
    folder.write("work/profiles/smallest.yaml", SMALLEST)
    loaded = folder.load("smallest")
    assert loaded.profile.name == "smallest"
    assert loaded.profile.playbook == "up"
    assert loaded.files == (folder.work / "profiles/smallest.yaml",)
    assert str(loaded.origins["serve.port"]) == "profiles/smallest.yaml:5:15"
    assert str(loaded.origins["serve.host"]) == "default"


def test_a_name_is_not_inherited_and_a_description_is(folder: Folder) -> None:
    folder.write("work/profiles/base.yaml", "name: base\ndescription: B\n" + SMALLEST)
    folder.write("work/profiles/child.yaml", "extends: base\n")
    profile = folder.load("child").profile
    assert (profile.name, profile.description, profile.extends) == ("child", "B", "base")


def test_a_chain_of_three_and_a_path_from_the_file_that_names_it(folder: Folder) -> None:
    folder.write("elsewhere/a.yml", SMALLEST + "description: a\n")
    folder.write(
        "work/profiles/b.yml",
        "extends: ../../elsewhere/a.yml\nfixes: {prefer: [dflash-lookahead]}\n",
    )
    folder.write(
        "work/profiles/c.yaml", "extends: b\nfixes: {prefer: [dflash-lm-head]}\nserve: {port: 9}\n"
    )
    loaded = folder.load("c")
    assert loaded.profile.serve.port == 9
    assert loaded.profile.fixes.prefer == ["dflash-lm-head"]
    assert str(loaded.origins["description"]) == f"{folder.root}/elsewhere/a.yml:6:14"
    assert [file.name for file in loaded.files] == ["c.yaml", "b.yml", "a.yml"]


def test_a_profile_may_extend_the_one_that_it_hides(folder: Folder) -> None:
    folder.write("shipped/profiles/demo.yaml", SMALLEST)
    folder.write("user/profiles/demo.yaml", "extends: demo\nserve: {port: 1}\n")
    folder.write("work/profiles/demo.yaml", "extends: demo\nserve: {dtype: auto}\n")
    serve = folder.load("demo").profile.serve
    assert (serve.port, serve.dtype) == (1, "auto")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": "a"}, "profiles/a.yaml:1:10: extends: no profile is named a"),
        (
            {"a": "b", "b": "a"},
            "profiles/b.yaml:1:10: extends: circular reference: "
            "profiles/a.yaml → profiles/b.yaml → profiles/a.yaml",
        ),
        (
            {"a": "b", "b": "c", "c": "./b.yaml"},
            "profiles/c.yaml:1:10: extends: circular reference: "
            "profiles/a.yaml → profiles/b.yaml → profiles/c.yaml → profiles/b.yaml",
        ),
        (
            {"a": "./x.yaml"},
            "profiles/a.yaml:1:10: extends: there is no file ./x.yaml "
            "(a path counts from the file that names it)",
        ),
    ],
)
def test_circles_and_lost_bases_are_told(folder: Folder, files: dict[str, str], told: str) -> None:
    for name, base in files.items():
        folder.write(f"work/profiles/{name}.yaml", f"extends: {base}\n")
    with pytest.raises(ConfigError) as error:
        folder.load("a")
    assert error.value.why.startswith(told)
    assert "\n" not in error.value.why


def test_lists_are_replaced_and_a_key_without_value_takes_its_default(reads: Reads) -> None:
    profile = reads("""
        build: {max_jobs: null, python:}
        serve: {args:, env: {A: 1}}
        fixes:
        """).profile
    assert profile.build.max_jobs is None
    assert profile.build.python == "3.12"
    assert profile.serve.args == {}
    assert profile.serve.env == {"A": "1"}
    assert profile.fixes.require == []


def test_text_is_kept_as_written(reads: Reads) -> None:
    profile = reads("""
        build: {python: 3.10, env: {A: 0x10, B: true, C: 1.0, D: 007, E: 1e3}}
        """).profile
    assert profile.build.python == "3.10"
    assert profile.build.env == {"A": "0x10", "B": "true", "C": "1.0", "D": "007", "E": "1e3"}


def test_free_values_keep_their_type_and_null(reads: Reads) -> None:
    profile = reads("""
        serve: {args: {a: 1, b: 1.5, c: true, d: x, e: [x, y], f: null}}
        drafter:
          method: dflash
          model: {path: /d}
          num_speculative_tokens: 7
          config: {sliding_window: null, dflash_config.mask_token_id: 3, nested: {a: [1]}}
        """).profile
    assert profile.serve.args == {"a": 1, "b": 1.5, "c": True, "d": "x", "e": ["x", "y"], "f": None}
    assert profile.drafter is not None
    assert profile.drafter.config == {
        "sliding_window": None,
        "dflash_config.mask_token_id": 3,
        "nested": {"a": [1]},
    }


@pytest.mark.parametrize(
    ("over", "release", "pr"),
    [
        ("{pr: 40898}", None, 40898),
        ("{release: 0.32.0}", "0.32.0", None),
        ("{pr: null}", "0.33.0", None),
    ],
)
def test_one_source_replaces_another(
    reads: Reads, over: str, release: str | None, pr: int | None
) -> None:
    source = reads(f"build: {{source: {over}}}\n").profile.build.source
    assert (source.release, source.pr) == (release, pr)


def test_what_belongs_to_a_replaced_alternative_goes_with_it(folder: Folder) -> None:
    folder.profile("base", "model: {repo: a/b, revision: abc}\n")
    folder.write("work/profiles/child.yaml", "extends: base\nmodel: {path: /m}\n")
    model = folder.load("child").profile.model
    assert (model.repo, model.revision, model.path, model.served_name) == (None, None, "/m", "m")


def test_hosts_by_name_beside_the_profile_and_from_later_places(folder: Folder) -> None:
    folder.write("work/profiles/hosts/ct.yaml", "container: {id: 129}\nnode: node\n")
    folder.write("shipped/profiles/hosts/node.yaml", "ssh: {address: pve}\n")
    folder.write("user/profiles/hosts/ct.yaml", "local: true\n")
    folder.profile("p", "hosts: [ct, {name: there, ssh: {address: x}}]\n")
    loaded = folder.load("p")
    ct, there = loaded.profile.hosts
    assert ct.container is not None and ct.container.id == "129"
    assert ct.node is not None and ct.node.name == "node" and ct.node.ssh is not None
    assert there.name == "there"
    assert str(loaded.origins["hosts.0.container.id"]) == "profiles/hosts/ct.yaml:1:17"
    shipped = f"{folder.shipped}/profiles/hosts/node.yaml"
    assert str(loaded.origins["hosts.0.node.ssh.address"]) == f"{shipped}:1:16"


def test_a_host_is_looked_up_beside_the_file_that_names_it(folder: Folder) -> None:
    folder.write("shipped/profiles/hosts/here.yaml", "ssh: {address: shipped}\n")
    folder.write(
        "shipped/profiles/base.yaml", SMALLEST.replace("{name: here, local: true}", "here")
    )
    folder.write("work/profiles/hosts/here.yaml", "ssh: {address: work}\n")
    folder.write("work/profiles/child.yaml", "extends: base\n")
    ssh = folder.load("child").profile.hosts[0].ssh
    assert ssh is not None and ssh.address == "shipped"


def test_hosts_that_name_each_other_are_a_circle(folder: Folder) -> None:
    folder.write("work/profiles/hosts/a.yaml", "ssh: {address: a}\nnode: b\n")
    folder.write("work/profiles/hosts/b.yaml", "ssh: {address: b}\nnode: a\n")
    folder.profile("p", "hosts: [a]\n")
    with pytest.raises(ConfigError) as error:
        folder.load("p")
    assert error.value.why == (
        "profiles/hosts/b.yaml:2:7: hosts.0.node.node: circular reference: "
        "profiles/hosts/a.yaml → profiles/hosts/b.yaml → profiles/hosts/a.yaml"
    )


def test_an_error_in_a_host_file_is_told_there(folder: Folder) -> None:
    folder.write("work/profiles/hosts/h.yaml", "local: true\nrot: /x\n")
    folder.profile("p", "hosts: [h]\n")
    with pytest.raises(ConfigError) as error:
        folder.load("p")
    assert error.value.why == (
        "profiles/hosts/h.yaml:2:1: hosts.0.rot: unknown key; did you mean root?"
    )
    with pytest.raises(ConfigError) as error:
        load_host("h", search=folder.search)
    assert error.value.why == "profiles/hosts/h.yaml:2:1: rot: unknown key; did you mean root?"


def test_a_file_that_holds_no_mapping(folder: Folder) -> None:
    folder.write("work/profiles/p.yaml", "- a\n- b\n")
    with pytest.raises(ConfigError) as error:
        folder.load("p")
    assert error.value.why == (
        "profiles/p.yaml:1:1: the file must hold a mapping: lines of `key: value`"
    )


def test_a_file_of_prompts_counts_from_the_profile(folder: Folder) -> None:
    folder.write("work/profiles/sets/mine.txt", "Hello.\n")
    drafter = "drafter: {method: ngram, num_speculative_tokens: 4}\n"
    folder.profile("p", drafter + "acceptance: {prompts: sets/mine.txt}\n")
    acceptance = folder.load("p").profile.acceptance
    assert acceptance is not None
    assert acceptance.prompts == str(folder.work / "profiles/sets/mine.txt")


def test_prompts_of_a_hub_are_looked_for_where_they_are_asked(folder: Folder) -> None:
    drafter = "drafter: {method: ngram, num_speculative_tokens: 4}\n"
    folder.profile("p", drafter + "acceptance: {prompts: 'hub:openai/openai_humaneval/a.jsonl'}\n")
    acceptance = folder.load("p").profile.acceptance
    assert acceptance is not None
    assert acceptance.prompts == "hub:openai/openai_humaneval/a.jsonl"


def test_an_unknown_name_tells_the_places_and_the_nearest(folder: Folder) -> None:
    folder.write("shipped/profiles/qwen36-dflash.yaml", SMALLEST)
    with pytest.raises(UsageError) as error:
        folder.load("qwen36-dlfash")
    assert error.value.what == ("no profile is named qwen36-dlfash; did you mean qwen36-dflash?")
    assert error.value.why == (
        f"looked in profiles, {folder.user}/profiles, {folder.shipped}/profiles"
    )


def test_a_name_too_long_for_a_file_is_unknown(folder: Folder) -> None:
    with pytest.raises(UsageError, match="no profile is named xxx"):
        folder.load("x" * 300)


def test_a_folder_that_may_not_be_read_is_told(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(ConfigError, match="cannot look into profiles"):
        folder.load("p")


@pytest.mark.parametrize("path", ["./profiles/x.yaml", "x.yaml", "/nowhere/x", "a/b"])
def test_a_path_is_a_file_and_no_name(folder: Folder, path: str) -> None:
    folder.write("user/profiles/x.yaml", SMALLEST)
    with pytest.raises(UsageError, match="there is no profile file"):
        folder.load(path)
    folder.write("work/given.yaml", SMALLEST)
    assert folder.load("given.yaml").profile.name == "given"
    assert folder.load(str(folder.work / "given.yaml")).profile.name == "given"


def known(*names: str) -> Options:
    """These steps and no other."""
    return {name: registry.options()[name] for name in names}


def test_a_playbook_and_its_steps(folder: Folder) -> None:
    folder.write(
        "work/playbooks/mine.yaml",
        "description: D\nsteps:\n- build\n- {step: clean, with: {scope: container}}\n",
    )
    playbook = load_playbook("mine", known("build", "clean"), search=folder.search)
    assert playbook.name == "mine"
    assert [(step.step, step.options) for step in playbook.steps] == [
        ("build", {}),
        ("clean", {"scope": "container"}),
    ]


def test_every_wrong_option_of_a_step_is_told(folder: Folder) -> None:
    folder.write(
        "work/playbooks/p.yaml",
        """\
        steps:
        - {step: build, with: {deep: true}}
        - {step: clean, with: {scop: gpu, reset: "yes"}}
        - {step: bench, with: {concurrencies: [1, 0], compare: slow}}
        - {step: acceptance, with: {tolerance: 0}}
        """,
    )
    with pytest.raises(ConfigError) as error:
        load_playbook("p", known("build", "clean", "bench", "acceptance"), search=folder.search)
    assert error.value.why.splitlines() == [
        "playbooks/p.yaml:2:24: steps.0.with.deep: unknown key; known here: none",
        "playbooks/p.yaml:3:24: steps.1.with.scop: unknown key; did you mean scope?",
        "playbooks/p.yaml:3:42: steps.1.with.reset: needs true or false, not the text 'yes'",
        "playbooks/p.yaml:4:43: steps.2.with.concurrencies.1: "
        "should be greater than or equal to 1, not 0",
        "playbooks/p.yaml:4:56: steps.2.with.compare: should be one of plain, not the text 'slow'",
    ]


def test_every_wrong_step_is_told(folder: Folder) -> None:
    folder.write(
        "work/playbooks/p.yaml",
        "steps:\n- biuld\n- {step: claen}\n- {stp: x}\n- {step: up, with: [1]}\n- 5\nstep: []\n",
    )
    step_keys = ", ".join(fields(StepSettings))
    with pytest.raises(ConfigError) as error:
        load_playbook("p", known("build", "clean"), search=folder.search)
    assert error.value.why.splitlines() == [
        "playbooks/p.yaml:2:3: steps.0: no step is named biuld; did you mean build?",
        "playbooks/p.yaml:3:10: steps.1.step: no step is named claen; did you mean clean?",
        "playbooks/p.yaml:4:4: steps.2.stp: unknown key; did you mean step?",
        "playbooks/p.yaml:5:10: steps.3.step: no step is named up; there are build, clean",
        "playbooks/p.yaml:5:20: steps.3.with: needs a mapping, not a list",
        f"playbooks/p.yaml:6:3: steps.4: needs a mapping with {step_keys}, not 5",
        "playbooks/p.yaml:7:1: step: unknown key; did you mean steps?",
    ]
