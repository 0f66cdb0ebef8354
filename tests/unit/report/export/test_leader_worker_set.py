"""A group as LeaderWorkerSet: its own fields against those of the API, its pods against Kubernetes.

The API's fields: kubernetes-sigs/lws, api/leaderworkerset/v1/leaderworkerset_types.go.
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
from deployctl.report.export import leader_worker_set


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


NUMBER, POD = {"type": "integer", "minimum": 0}, {"type": "object"}
SCHEMA = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "leaderworkerset.x-k8s.io/v1"},
    kind={"const": "LeaderWorkerSet"},
    metadata=POD,
    spec=closed(
        ["leaderWorkerTemplate"],
        replicas=NUMBER,
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        rolloutStrategy=closed(
            ["type"],
            type={"const": "RollingUpdate"},
            rollingUpdateConfiguration=closed(
                [], partition=NUMBER, maxUnavailable=NUMBER, maxSurge=NUMBER
            ),
        ),
        networkConfig=POD,
        leaderWorkerTemplate=closed(
            ["workerTemplate"],
            leaderTemplate=POD,
            workerTemplate=POD,
            size={"type": "integer", "minimum": 1},
            restartPolicy={
                "enum": ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
            },
        ),
    ),
)
GROUP = """\
extends: demo
name: pair
hosts:
  - {name: a, ssh: {address: 10.0.0.1}}
  - {name: b, ssh: {address: 10.0.0.2}}
group: {tensor_parallel_size: 2}
serve: {secrets: {HF_TOKEN: {env: MY_TOKEN}}}
"""


@pytest.fixture
def pair(tmp_path: Path) -> Profile:
    path = tmp_path / "pair.yaml"
    path.write_text(GROUP, encoding="utf-8")
    return load_profile(str(path), environ={}).profile


def test_two_pods_of_one_model(pair: Profile) -> None:
    text = leader_worker_set.render(exported(pair, "example/vllm:1"))
    _, whole, service = yaml.safe_load_all(text)
    jsonschema.validate(whole, SCHEMA)
    kubernetes_validate.validate(service, "1.31", strict=True)
    template = whole["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2 and template["restartPolicy"] == "RecreateGroupOnPodRestart"
    argv = []
    for name in ("leaderTemplate", "workerTemplate"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod"},
            "spec": template[name]["spec"],
        }
        kubernetes_validate.validate(pod, "1.31", strict=True)
        (container,) = pod["spec"]["containers"]
        argv.append(container["command"])
        assert container["command"][container["command"].index("--master-addr") + 1] == (
            "$(LWS_LEADER_ADDRESS)"
        )
    head, worker = argv
    assert head[head.index("--node-rank") + 1] == "0" and "--headless" not in head
    assert worker[worker.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
    assert "--headless" in worker and "--port" not in worker
    assert "readinessProbe" not in template["workerTemplate"]["spec"]["containers"][0]
    assert service["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": "pair",
        "role": "leader",
    }


def test_a_group_has_one_format_and_others_have_the_rest(pair: Profile) -> None:
    with pytest.raises(UsageError, match="one model over 2 hosts"):
        refuse_group(pair, "compose")
    with pytest.raises(UsageError, match="has no group"):
        refuse_other(load_profile("demo", environ={}).profile, "leader-worker-set")
    with pytest.raises(UsageError, match="a group of engine nodes"):
        refuse_other(pair, "ray-service", "example/vllm:1")
