"""A profile: one YAML file that says what to serve, where, and what must be true of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from deployctl.config import replicas as replicated
from deployctl.config import routed
from deployctl.config.base import NAME, Settings, collected, misfit, refuse
from deployctl.config.build import BuildSettings
from deployctl.config.checks import AcceptanceSettings, SmokeSettings
from deployctl.config.clean import CleanSettings
from deployctl.config.group import GroupSettings, reserved
from deployctl.config.hooks import NotifySettings
from deployctl.config.host import HostSettings
from deployctl.config.inventory import InventorySettings
from deployctl.config.marks import trusts_remote_code
from deployctl.config.models import DrafterSettings, ModelSettings
from deployctl.config.ray import other_ray, with_ray
from deployctl.config.router import ReplicasSettings, RollSettings, RouterSettings
from deployctl.config.serve import ServeSettings
from deployctl.config.share import ShareSettings
from deployctl.config.switch import SwitchSettings


class FixesSettings(Settings):
    """Known defects of vLLM that the build must not have, by name."""

    require: list[str] = []
    """Fixes, by name, without which a build is refused; `deployctl fixes` lists them."""
    prefer: list[str] = []
    """Fixes worth having: `verify` reports those that are missing, and nothing fails."""


class Profile(Settings):
    """What is wanted. Validated once, completely; nothing reads YAML after that.

    `extends` is resolved by the loader before validation and kept as a record.
    """

    name: str = Field(pattern=NAME)
    """The profile's name, under which the host keeps its releases; the file's when absent."""
    description: str = ""
    """A line about the profile for `deployctl profile list`."""
    extends: str | None = None
    """Another profile, by name or file, that this one changes; mappings are merged, all else
    replaced."""
    playbook: str = "up"
    """The playbook that `deployctl up` runs."""
    hosts: list[HostSettings] = Field(min_length=1)
    """Names of host files, groups or hosts of the inventory, or hosts in place."""
    inventory: InventorySettings | None = None
    """Another tool's list of hosts; without `hosts`, all of it."""
    model: ModelSettings
    """The target model, and the name under which it is served."""
    drafter: DrafterSettings | None = None
    """The drafter; no speculation when absent."""
    build: BuildSettings
    """Where vLLM comes from, and how its environment is made."""
    fixes: FixesSettings = FixesSettings()
    """Known defects of vLLM that the build must not have."""
    clean: CleanSettings = CleanSettings()
    """What may be stopped before the launch, and when a GPU counts as free."""
    serve: ServeSettings
    """How the server is launched, supervised and found ready."""
    smoke: SmokeSettings = SmokeSettings()
    """The smoke gate: requests with checks on the answers."""
    acceptance: AcceptanceSettings | None = None
    """The gate on what the drafter is worth; none when absent."""
    group: GroupSettings | None = None
    """One model over all hosts together; a server on each of them when absent."""
    switch: SwitchSettings = SwitchSettings()
    """How a new release takes over from the one that serves."""
    replicas: ReplicasSettings = ReplicasSettings()
    """The server of each host as one of several of the same model."""
    router: RouterSettings | None = None
    """What clients ask instead of one of the replicas; none when absent."""
    roll: RollSettings = RollSettings()
    """How a new release goes over the replicas; giving it makes the strategy rolling."""
    share: ShareSettings = ShareSettings()
    """How hosts get what one of them makes or fetches."""
    notify: list[NotifySettings] = []
    """Webhooks that are notified how a run ended."""

    _whole: tuple[HostSettings, ...] = PrivateAttr(())
    _serve: ServeSettings | None = PrivateAttr(None)

    @property
    def everywhere(self) -> tuple[HostSettings, ...]:
        """All hosts of the profile, those too that a run leaves out."""
        return self._whole or tuple(self.hosts)

    def grouped(self, name: str) -> tuple[HostSettings, ...]:
        """The hosts of the group that has a host, the head's first; of itself alone without
        `group`."""
        hosts = self.everywhere
        at = [host.name for host in hosts].index(name)
        size = 1 if self.group is None else self.group.size or len(hosts)
        return hosts[at - at % size : at - at % size + size]

    @property
    def heads(self) -> tuple[HostSettings, ...]:
        """The first host of each group."""
        size = 1 if self.group is None else self.group.size or len(self.everywhere)
        return self.everywhere[::size]

    @property
    def ray_version(self) -> str | None:
        """The Ray that must be installed beside vLLM; None where none is needed."""
        by_ray = self.group is not None and self.group.engine == "ray"
        return self.group.ray.version if self.group is not None and by_ray else None

    @property
    def router_host(self) -> HostSettings:
        """The host that runs the router."""
        return routed.router_host(self.router, self.everywhere)

    def address_of(self, host: HostSettings) -> str | None:
        """Where the router reaches the replica on a host; None where nothing says that."""
        return routed.address_of(host, self.router_host, self.serve)

    @property
    def written_serve(self) -> ServeSettings:
        """`serve` as the profile has it, where this is what one of several replicas makes of it."""
        return self._serve or self.serve

    def spread(self) -> Profile:
        """This profile with each host once for each of its replicas, HOST/1, HOST/2 and so on."""
        found = self.model_copy(
            update={"hosts": replicated.spread(self.hosts, self.replicas.per_host)}
        )
        found._whole = tuple(replicated.spread(self.everywhere, self.replicas.per_host))
        return found

    def by_machine(self) -> Profile:
        """This profile with each host once, whatever replicas are on it."""
        found = self.model_copy(update={"hosts": replicated.machines(self.hosts)})
        found._whole = tuple(replicated.machines(self.everywhere))
        return found

    def on_hosts_of(self, other: Profile) -> Profile:
        """This profile with the hosts of another one."""
        found = self.model_copy(update={"hosts": other.hosts})
        found._whole = other.everywhere
        return found

    def of_replica(self, host: HostSettings) -> Profile:
        """This profile as it is for one replica of a host, with the port and GPUs of that."""
        if self.replicas.per_host == 1:
            return self
        number = host.replica
        gpus = replicated.gpus_of(self.serve, self.build.target, self.replicas, number)
        own = {"port": self.serve.port + number - 1, "gpus": gpus}
        found = self.model_copy(update={"serve": self.serve.model_copy(update=own)})
        found._serve = self.serve
        return found

    @model_validator(mode="before")
    @classmethod
    def _rolls(cls, value: Any) -> Any:
        """Replicas behind a router switch one after the other, unless something else is asked."""
        if not isinstance(value, dict):
            return value
        replicas = value.get("replicas")
        several = isinstance(replicas, dict) and replicas.get("per_host", 1) != 1
        if value.get("router") is None and not value.get("roll") and not several:
            return value
        switch = value.get("switch") or {}
        if not isinstance(switch, dict) or "strategy" in switch:
            return value
        return {**value, "switch": {**switch, "strategy": "rolling"}}

    @model_validator(mode="before")
    @classmethod
    def _has_ray(cls, value: Any) -> Any:
        """What a group's engine needs is built with vLLM."""
        return with_ray(value) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found: list[PydanticCustomError] = []
        rules: list[Callable[[], None]] = [self._accepts, self._slots_apart]
        rules += [self._pinned_where_trusted, self._hosts_apart]
        if self.switch.strategy == "sleep":
            rules.append(self._able_to_sleep)
        if self.group is not None:
            rules.append(partial(self._one_over_all, self.group))
        for rule in rules:
            with collected(found):
                rule()
        self._whole = tuple(self.hosts)
        several = self.replicas, self.switch.strategy, self.serve
        whole = self.router, self.replicas, self.switch.strategy, self.serve, self.hosts
        refused = next(chain(replicated.misfits(*several), routed.misfits(*whole)), None)
        if refused is not None:
            found.append(misfit(*refused))
        refuse(found)
        return self

    def _accepts(self) -> None:
        """What acceptance needs."""
        if self.acceptance is not None and self.drafter is None:
            raise misfit(
                ("acceptance",),
                "acceptance needs a drafter: without speculation nothing is accepted",
            )

    def _slots_apart(self) -> None:
        """The slots' ports are none of the front's."""
        slots = [slot for slot in (self.switch.blue, self.switch.green) if slot is not None]
        if any(slot.port == self.serve.port for slot in slots):
            raise misfit(
                ("switch",), "serve.port is the front's, the slots need ports of their own"
            )

    def _hosts_apart(self) -> None:
        """Each host once, and this machine once."""
        names = [host.name for host in self.hosts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise misfit(("hosts",), f"hosts named twice: {', '.join(twice)}")
        here = [index for index, host in enumerate(self.hosts) if host.local]
        if len(here) > 1:
            first, second = (self.hosts[index].name for index in here[:2])
            said = (
                f"{second} and {first} are both this machine, where one port, {self.serve.port},"
                " serves one of them: name it once; replicas.per_host puts several servers on it"
            )
            raise misfit(("hosts", here[1]), said)

    def _able_to_sleep(self) -> None:
        """What vLLM's sleep mode asks of the rest of the profile."""
        if self.build.target == "cpu":
            raise misfit(
                ("switch", "strategy"), "sleep needs a CUDA build: vLLM's CPU build cannot sleep"
            )
        if self.switch.blue is None and self.serve.port > 65533:
            raise misfit(
                ("switch",), "the slots' ports would be above 65535: give both, blue and green"
            )
        for name in ("middleware", "enable-sleep-mode", "uds"):
            if any(key.replace("_", "-") == name for key in self.serve.args):
                raise misfit(
                    ("serve", "args"),
                    f"{name} is deployctl's own with strategy sleep: leave it out",
                )
        if "VLLM_SERVER_DEV_MODE" in self.serve.env:
            raise misfit(
                ("serve", "env", "VLLM_SERVER_DEV_MODE"),
                "it is deployctl's own with strategy sleep: leave it out",
            )

    def _one_over_all(self, group: GroupSettings) -> None:
        """What a group asks of the rest of the profile."""
        count = len(self.hosts)
        if count < 2 and not group.elsewhere:
            raise misfit(("hosts",), "a group needs two hosts or more; leave out group for one")
        if group.engine == "ray":
            self._by_ray(group)
        if self.replicas.per_host > 1:
            raise misfit(("replicas", "per_host"), "a group has one rank on each host")
        if group.size is not None and count % group.size:
            said = f"the {count} hosts are no groups of {group.size}"
            raise misfit(("group", "size"), said)
        self._one_or_more_groups(count // (group.size or count))
        if self.serve.tensor_parallel_size != 1:
            raise misfit(
                ("serve", "tensor_parallel_size"), "with group, set group.tensor_parallel_size"
            )
        named = reserved(self.serve.args)
        if named is not None:
            raise misfit(("serve", "args", named[0]), named[1])
        if group.elsewhere:
            return
        count = group.size or count
        if group.world % count:
            sizes = " * ".join(group.sizes)
            raise misfit(("group",), f"{sizes} is {group.world}: no multiple of {count} hosts")
        meets, watch = group.own_ports.values()
        if len({self.serve.port, meets, watch}) < 3:
            keys = [*group.own_ports]
            key = keys[1] if watch in (self.serve.port, meets) else keys[0]
            said = " and ".join(f"group.{name}" for name in keys)
            raise misfit(("group", *key.split(".")), f"serve.port, {said} need ports of their own")
        each = group.world // count
        if self.serve.gpus and len(self.serve.gpus) != each:
            said = f"each host has {each} of the group's processes, each with a GPU of its own"
            raise misfit(("serve", "gpus"), said)
        for index, host in enumerate(self.hosts):
            if host.member_address is None:
                given = host.address or (host.ssh.address if host.ssh is not None else "")
                but = f", not {given!r}" if given else ""
                said = f"in a group, address: is the IP at which the other hosts reach it{but}"
                raise misfit(("hosts", index), said)

    def _one_or_more_groups(self, groups: int) -> None:
        """What does not go with one group alone."""
        if groups == 1 and self.router is not None:
            said = "one group over all hosts has no replicas: set group.size, or leave out router"
            raise misfit(("router",), said)
        if groups == 1 and "roll" in self.model_fields_set:
            raise misfit(("roll",), "a group is switched as one: leave out roll")
        if groups == 1 and self.switch.strategy != "recreate":
            raise misfit(("switch", "strategy"), "a group is switched by recreate alone")

    def _by_ray(self, group: GroupSettings) -> None:
        """What a Ray cluster asks of the rest of the profile."""
        if group.data_parallel_size != 1:
            said = "engine ray has no data parallelism here: use engine nodes, or replicas"
            raise misfit(("group", "data_parallel_size"), said)
        for one in other_ray(group.ray, self.build.extra):
            said = f"{one} and group.ray.version {group.ray.version}: name one of them alone"
            raise misfit(("build", "extra"), said)
        if group.elsewhere and len(self.hosts) != 1:
            said = "with group.ray.address, the one host that runs vLLM, a node of that cluster"
            raise misfit(("hosts",), said)
        first, last = group.ray.span
        for key, port in (("serve", self.serve.port), ("group", group.watch_port)):
            if not group.elsewhere and first <= port <= last:
                at = ("port",) if key == "serve" else ("watch_port",)
                raise misfit((key, *at), f"it is one of group.ray.ports, {group.ray.ports}")

    def _pinned_where_trusted(self) -> None:
        """Code of a model may run that was looked at: a branch is other code tomorrow."""
        if not trusts_remote_code(self.serve.args):
            return
        drafter = self.drafter.model if self.drafter else None
        for place, source in ((("model",), self.model), (("drafter", "model"), drafter)):
            if source is None or source.repo is None:
                continue
            if not re.fullmatch(r"[0-9a-f]{40}", source.revision or ""):
                raise misfit(
                    (*place, "repo" if source.revision is None else "revision"),
                    "serve.args.trust-remote-code runs code of this repository: pin it with"
                    " revision: COMMIT (40 digits), or leave trust-remote-code out",
                )
