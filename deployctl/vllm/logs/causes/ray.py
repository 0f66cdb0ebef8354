"""Ray: nodes that do not join, versions and tokens that differ, GPUs that are not there."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "ray-version",
        "Ray",
        r"Version mismatch: The cluster was started with:\s{1,80}Ray: (?P<ray>\S{1,40})\s{1,80}"
        r"Python: (?P<python>\S{1,40})|Version mismatch: The cluster was started with",
        "the Ray cluster has another version of Ray or Python[: Ray {ray}, Python {python}]",
        "give all nodes one environment: the same build.python (to its patch version) and "
        "group.ray.version",
        on="line",
    ),
    cause(
        "ray-token",
        "Ray",
        r"InvalidAuthToken|Authentication token is (?:missing|incorrect|invalid)"
        r"|Token authentication is enabled but no authentication token was found"
        r"|Ray failed: the token of the cluster is missing",
        "the token of the Ray cluster is missing or another one",
        "name the variable that holds the token of the cluster: group.ray.token: env: VARIABLE",
        on="line",
    ),
    cause(
        "ray-node",
        "deployctl",
        r"Ray failed: (?P<why>[^\n]{1,300})",
        "the Ray cluster did not come up: {why}",
        "see the logs of all ranks: deployctl logs; the hosts must reach each other on "
        "group.ray.port and group.ray.ports",
        on="line",
    ),
    cause(
        "ray-gpus",
        "vLLM",
        r"Cannot provide a placement group|The number of required \w{1,10}s exceeds the total "
        r"number of available",
        "the Ray cluster has too few free GPUs",
        "see what holds them: ray status, on a node of the cluster",
        on="line",
    ),
    cause(
        "ray-platform",
        "vLLM",
        r"current platform (?P<platform>\w{1,40}) does not support ray",
        "vLLM on {platform} does not run by Ray",
        "use group.engine: nodes",
    ),
    cause(
        "ray-address",
        "Ray",
        r"Failed to connect to GCS(?: at address (?P<address>\S{1,80}))?",
        "the Ray cluster[ at {address}] does not answer",
        "check its address and that this host reaches it",
        on="line",
    ),
)
