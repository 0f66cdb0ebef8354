"""LeaderWorkerSet: one model over several pods, the first of which answers; and its Service.

The controller of leaderworkerset.sigs.k8s.io gives every pod LWS_LEADER_ADDRESS and
LWS_WORKER_INDEX. A pod that restarts has all of its group recreated: ranks start together only.
"""

from __future__ import annotations

from typing import Any

from deployctl.engine.inspect.exporting import HEAD, RANK, Exported
from deployctl.report.export import kubernetes
from deployctl.report.export.interface import dns_label, dump

GIVEN = {HEAD: "$(LWS_LEADER_ADDRESS)", RANK: "$(LWS_WORKER_INDEX)"}
"""What takes the place of the head's address and a pod's rank."""
NAME, LEADER = "leaderworkerset.sigs.k8s.io/name", {"role": "leader"}
PROBES = ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle")
"""What only the pod has that answers."""


def render(one: Exported) -> str:
    """The manifests as one stream of documents."""
    documents = [_set(one), kubernetes.service(one, {NAME: dns_label(one.name), **LEADER})]
    if one.drafter_config is not None:
        documents.insert(0, kubernetes.config_map(one))
    head = "Apply: kubectl apply --filename FILE (LeaderWorkerSet must be installed)"
    if one.secrets:
        named = ", ".join(sorted(one.secrets))
        head += f"\nSecret {kubernetes.secret_name(one)} must exist with the keys: {named}"
    return dump(*documents, head=head)


def _set(one: Exported) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": dns_label(one.name)},
        "spec": {
            "replicas": one.groups,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": one.replicas,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {
                    "metadata": {"labels": dict(LEADER)},
                    "spec": _pod(one, list(one.argv)),
                },
                "workerTemplate": {"spec": _pod(one, list(one.worker), answers=False)},
            },
        },
    }


def _pod(one: Exported, argv: list[str], answers: bool = True) -> dict[str, Any]:
    spec = kubernetes.pod(one)
    (container,) = spec["containers"]
    container["command"] = [GIVEN.get(word, word.replace("$(", "$$(")) for word in argv]
    own = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container["env"] = [own, *container["env"]]
    if not answers:
        for key in PROBES:
            del container[key]
    return spec
