"""What the agent says about GPUs: their state, who holds them, what a container gets of them."""

from __future__ import annotations

from typing import Dict, List, Optional, TypedDict


class GpuRow(TypedDict):
    """One GPU as its driver describes it, memory in MiB; `unknown` holds the driver's words for
    each value that is None, by the driver's name of it."""

    index: int
    uuid: str
    name: Optional[str]
    bus: Optional[str]
    memory_total: Optional[int]
    memory_used: Optional[int]
    driver: Optional[str]
    persistence: Optional[bool]
    mig: Optional[bool]
    compute_cap: Optional[str]
    unknown: Dict[str, str]


class Gpu(GpuRow, total=False):
    """One GPU: `minor` is its /dev/nvidiaN, `unified` whether its memory is the machine's,
    `memory_available` how much of that can be had, `remarks` what nvidia-smi printed besides."""

    minor: Optional[int]
    unified: bool
    memory_available: Optional[int]
    remarks: List[str]


class GpuProcess(TypedDict):
    """A compute process on a GPU; memory in MiB, `instance` the UUID of its MIG instance."""

    uuid: Optional[str]
    pid: int
    instance: Optional[str]
    name: Optional[str]
    memory: Optional[int]


class GpuState(TypedDict):
    """The GPUs of a machine; `gpu.state` describes it."""

    present: bool
    reason: Optional[str]
    gpus: List[Gpu]
    unknown: Optional[str]
    incomplete: Optional[str]
    remarks: List[str]
    apps: List[GpuProcess]
    apps_unknown: Optional[str]
    graphics: List[int]


class Container(TypedDict):
    """A container as its control group names it."""

    kind: str
    name: str


class Mark(TypedDict):
    """What ties a process to something below the root, and how that shows."""

    kind: str
    name: str
    how: str


class HolderFacts(TypedDict):
    """What is known of a process that may hold a GPU; `unreadable` names its tables that could not
    be read, `inner_pids` are its pids from the outermost namespace inwards."""

    pid: int
    start: int
    comm: str
    state: str
    parent: int
    group: int
    session: int
    zombie: bool
    uid: Optional[int]
    user: Optional[str]
    inner_pids: List[int]
    container: Optional[Container]
    service: Optional[str]
    frozen: bool
    namespaces: List[int]
    executable: Optional[str]
    devices: List[str]
    mapped: List[str]
    marks: List[Mark]
    command: List[str]
    unreadable: List[str]


class Holder(HolderFacts, total=False):
    """The same of a process that matters, with the Unix time at which it started."""

    started: float


class UnreadableProcess(TypedDict):
    """A process whose tables could not be read: what it holds is unknown."""

    pid: int
    comm: str
    user: Optional[str]
    unreadable: List[str]


class Processes(TypedDict):
    """The processes that matter to the GPUs; `survey` describes it."""

    processes: List[Holder]
    unreadable: List[UnreadableProcess]
    unreadable_count: int
    hidden: Optional[str]
    contained: Optional[str]
    namespace: int
    namespaces: List[int]
    own: List[int]


class Holders(Processes):
    """The same, and the majors of the NVIDIA drivers by name."""

    devices: Dict[str, int]


class StuckThread(TypedDict):
    """Where in the kernel a thread is."""

    thread: int
    state: str
    channel: Optional[str]
    stack: List[str]


class Stuck(TypedDict):
    """Where in the kernel each thread of a process is."""

    pid: int
    stuck: List[StuckThread]


class Target(TypedDict):
    """A process to be ended; `device`: its GPU is its only tie to us."""

    pid: int
    start: int
    device: bool


class EndedProcess(TypedDict):
    """What became of a process that was to be ended, in one word and in a sentence."""

    pid: int
    start: int
    fate: str
    why: str


class Fate(EndedProcess, total=False):
    """The same; one that survives SIGKILL has its threads."""

    stuck: List[StuckThread]


class MemoryAt(TypedDict):
    """Memory in use in MiB by UUID after some seconds; None where it is not known."""

    seconds: float
    memory: Dict[str, Optional[int]]


class Settled(MemoryAt):
    """How memory in use came to rest; `gpu.settle` describes it."""

    free: bool
    course: List[MemoryAt]
    unknown: Optional[str]


class Links(TypedDict):
    """NVLink peers of every GPU by its index in decimal; `unknown` says why there are none."""

    peers: Dict[str, List[int]]
    unknown: Optional[str]


class Reset(TypedDict):
    """The GPUs that were reset, and nvidia-smi's words."""

    reset: List[int]
    said: str


class DeviceFile(TypedDict):
    """A file of a device; `kind` is device or file, `major` and `minor` a device's."""

    path: str
    kind: str
    major: Optional[int]
    minor: Optional[int]
    mode: int
    uid: int
    gid: int


class ContainerConf(TypedDict):
    """A container's configuration; `includes` has the text of each file, None where unreadable."""

    path: str
    text: str
    includes: Dict[str, Optional[str]]


class Passthrough(TypedDict):
    """What a machine has of its GPUs; `passthrough.look` describes it."""

    majors: Dict[str, int]
    devices: List[DeviceFile]
    module: Optional[str]
    libraries: Dict[str, Optional[str]]
    shm: Optional[int]
    uid: int
    contained: Optional[str]
    cgroup: Optional[int]
    conf: Optional[ContainerConf]


class CudaError(TypedDict):
    """A driver call that failed."""

    call: str
    code: Optional[int]
    name: str


class Cuda(TypedDict):
    """What CUDA answered; `unknown` says why it did not, and then the rest is empty. `opened` has
    the error's name for each device file, None where it can be opened."""

    unknown: Optional[str]
    opened: Dict[str, Optional[str]]
    version: Optional[int]
    count: Optional[int]
    library: Optional[str]
    contexts: List[int]
    error: Optional[CudaError]
