"""A group by Ray as RayService: its fields against those of the API, its pods against Kubernetes.

The API's fields: ray-project/kuberay, ray-operator/apis/ray/v1/{rayservice,raycluster}_types.go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile
from deployctl.engine.inspect.exporting import exported, refuse_group, refuse_other
from deployctl.errors import UsageError
from deployctl.report.export import ray_service
from deployctl.vllm.serving.command import Serve
from deployctl.vllm.serving.engine_arguments import engine_arguments
from tests.unit.report.export.test_leader_worker_set import GROUP, NUMBER, POD, closed

WORDS = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayService"},
    metadata=POD,
    spec=closed(
        ["rayClusterConfig"],
        upgradeStrategy=closed(
            [], type={"enum": ["NewCluster", "NewClusterWithIncrementalUpgrade", "None"]}
        ),
        serveConfigV2={"type": "string"},
        rayClusterConfig=closed(
            ["headGroupSpec"],
            rayVersion={"type": "string"},
            authOptions=closed([], mode={"enum": ["disabled", "token"]}),
            headGroupSpec=closed(["template"], rayStartParams=WORDS, template=POD),
            workerGroupSpecs={
                "type": "array",
                "items": closed(
                    ["groupName", "template"],
                    groupName={"type": "string"},
                    replicas=NUMBER,
                    minReplicas=NUMBER,
                    maxReplicas=NUMBER,
                    rayStartParams=WORDS,
                    template=POD,
                ),
            },
        ),
    ),
)


def loaded(directory: Path, text: str) -> Profile:
    path = directory / "pair.yaml"
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path), environ={}).profile


@pytest.fixture
def pair(tmp_path: Path) -> Profile:
    return loaded(tmp_path, GROUP.replace("group: {", "group: {engine: ray, "))


def test_ranks_of_one_model_and_a_head_without_gpus(pair: Profile) -> None:
    text = ray_service.render(exported(pair, "example/vllm:1"))
    _, whole = yaml.safe_load_all(text)
    jsonschema.validate(whole, SCHEMA)
    cluster = whole["spec"]["rayClusterConfig"]
    (ranks,) = cluster["workerGroupSpecs"]
    assert ranks["replicas"] == 2 and cluster["rayVersion"] == "2.60.0"
    assert cluster["authOptions"] == {"mode": "token"}
    for template in (cluster["headGroupSpec"]["template"], ranks["template"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template}
        kubernetes_validate.validate(pod, "1.31", strict=True)
        (container,) = pod["spec"]["containers"]
        assert "command" not in container, "KubeRay starts Ray"
    (application,) = yaml.safe_load(whole["spec"]["serveConfigV2"])["applications"]
    (llm,) = application["args"]["llm_configs"]
    assert llm["model_loading_config"] == {"model_id": "tiny", "model_source": "/models/target"}
    engine = llm["engine_kwargs"]
    assert engine["tensor_parallel_size"] == 2 and engine["enforce_eager"] is True
    assert engine["speculative_config"]["model"] == "/models/drafter"
    assert not {"host", "port", "served_model_name", "distributed_executor_backend"} & {*engine}


def test_options_are_the_engines_arguments() -> None:
    args: dict[str, Any] = {
        "no-enable-prefix-caching": True,
        "compilation-config.mode": 3,
        "limit-mm-per-prompt": '{"image": 1}',
        "shutdown-timeout": 15,
        "enable-expert-parallel": None,
    }
    serve = Serve("vllm", "/m", "toy", "h", 1, max_model_len=1024, args=args)
    assert engine_arguments(serve) == {
        "tensor_parallel_size": 1,
        "max_model_len": 1024,
        "enable_prefix_caching": False,
        "compilation_config": {"mode": 3},
        "limit_mm_per_prompt": {"image": 1},
    }


def test_what_has_no_form_as_ray_service(pair: Profile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a group of engine ray"):
        refuse_other(pair, "leader-worker-set", "example/vllm:1")
    with pytest.raises(UsageError, match="no container image"):
        refuse_other(pair, "ray-service")
    with pytest.raises(UsageError) as refused:
        refuse_group(pair, "compose")
    assert "ray-service" in refused.value.next
    one = GROUP.replace("  - {name: b, ssh: {address: 10.0.0.2}}\n", "")
    there = loaded(
        tmp_path, one.replace("group: {", "group: {engine: ray, ray: {address: '10.0.0.9:1'}, ")
    )
    with pytest.raises(UsageError, match="there already"):
        refuse_other(there, "ray-service", "example/vllm:1")
