"""How the processes of one server talk: NCCL, shared memory, torch's rendezvous."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

_MORE = "give the container a larger /dev/shm (lxc.mount.entry with size=, --shm-size in Docker)"

CAUSES: tuple[Cause, ...] = (
    # NCCL's own words, before an exception that only says that NCCL failed.
    cause(
        "shared-memory",
        "NCCL (shmutils.cc)",
        r"failed to extend (?P<path>/dev/shm/\S{1,200}) to (?P<bytes>\d+) bytes.{0,80}"
        r"No space left",
        "/dev/shm is too small for NCCL: {bytes} more bytes were wanted",
        _MORE,
        on="nccl",
    ),
    cause(
        "shared-memory",
        "NCCL",
        r"(?:posix_fallocate|fallocate|ftruncate|shm|shared memory).{0,160}No space left",
        "/dev/shm is too small for NCCL",
        _MORE,
        on="nccl",
    ),
    cause(
        "shared-memory-segment",
        "NCCL (shmutils.cc)",
        r"(?:attaching to shared memory segment|Could not open shared memory|failed to open.{0,20})"
        r" ?(?P<path>/dev/shm/\S{1,200}).{0,120}No such file or directory",
        "a rank looked for {path}, which is not there: the ranks do not share one /dev/shm, or the "
        "rank that made it died before",
        "look for an earlier error of another rank; let all ranks run in one container "
        "(one IPC namespace)",
        on="nccl",
    ),
    cause(
        "shared-memory-denied",
        "NCCL",
        r"/dev/shm\S{0,200}.{0,160}(?:Permission denied|Operation not permitted)",
        "NCCL may not use /dev/shm",
        "mount /dev/shm writable for the server's user (mode 1777)",
        on="nccl",
    ),
    cause(
        "nccl-network",
        "NCCL",
        r"no socket interface found|No usable listening interface|no device found (?:matching"
        r"|after)"
        r"|No interface found",
        "NCCL found no network interface to use",
        "set NCCL_SOCKET_IFNAME in serve.env to the interface of the hosts' addresses",
        on="nccl",
    ),
    cause(
        "nccl-network",
        "NCCL",
        r"(?:connect to|Connect to|PollConnect to) (?P<address>\S{1,80}).{0,160}"
        r"(?:Connection refused|timed out|No route to host|Network is unreachable|error retry)",
        "a rank could not reach another one at {address}",
        "check that the address and the ports between the hosts are open; "
        "set NCCL_SOCKET_IFNAME in serve.env where there are several networks",
        on="nccl",
    ),
    cause(
        "nccl-duplicate-gpu",
        "NCCL",
        r"Duplicate GPU detected ?: rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device",
        "ranks {one} and {other} were given the same GPU",
        "set serve.gpus and serve.tensor_parallel_size so that each rank has a GPU of its own",
        on="nccl",
    ),
    cause(
        "gpu-memory",
        "NCCL",
        r"Cuda failure (?:\d+ )?'out of memory'|Failed to (?:CUDA )?(?:malloc|calloc|host alloc)",
        "NCCL found no memory for its buffers",
        "lower serve.gpu_memory_utilization, or see who holds memory: deployctl clean --plan",
        on="nccl",
    ),
    cause(
        "no-driver",
        "NCCL",
        r"Cuda failure (?:\d+ )?'(?P<why>[^']{1,120})'",
        "NCCL could not use CUDA: {why}",
        "look at the device nodes and the driver: deployctl doctor",
        on="nccl",
    ),
    cause(
        "nccl-versions",
        "NCCL",
        r"Mismatched NCCL version detected|NCCL library is (?:too old|not backwards compatible)",
        "the ranks use different NCCL versions",
        "serve all hosts from the same release: deployctl build",
        on="nccl",
    ),
    cause(
        "nccl-infiniband",
        "NCCL",
        r"(?:NET/IB|ibv_\w{1,40}).{0,200}(?:failed|error)",
        "NCCL could not use InfiniBand",
        'set NCCL_IB_DISABLE: "1" in serve.env to see whether it works without',
        on="nccl",
    ),
    cause(
        "nccl-peer-lost",
        "NCCL",
        r"Connection closed by remote peer|socketProgress|recv from .{0,80}failed",
        "another rank closed its connection: it ended before this one",
        "look for the first error of another rank or host",
        on="nccl",
    ),
    # What Python says.
    cause(
        "shared-memory",
        "vLLM (shm_broadcast.py)",
        r"Insufficient space in (?P<path>/dev/shm\S{0,100}) for .{1,120}?: (?P<needed>[\d.]+) MiB "
        r"required, (?P<free>[\d.]+) MiB free",
        "{path} is too small: {needed} MiB are wanted, {free} MiB are free",
        _MORE,
    ),
    cause(
        "shared-memory",
        "Python, PyTorch",
        r"(?:/dev/shm|shared memory|torch_shm|psm_|unable to write to file </torch_).{0,300}"
        r"No space left on device|No space left on device.{0,200}(?:/dev/shm|psm_|shared memory)"
        r"|Unexpected bus error encountered in worker|posix_fallocate failed",
        "/dev/shm is full",
        _MORE,
    ),
    cause(
        "shared-memory",
        "kernel, shell",
        r"^.{0,80}Bus error(?: \(core dumped\))?",
        "a process died of a bus error, which a full /dev/shm causes",
        _MORE,
        on="line",
    ),
    cause(
        "nccl-timeout",
        "PyTorch (ProcessGroupNCCL)",
        r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL"
        r"|NCCL (?:operation|communicator).{0,80}timed out",
        "the GPUs stopped answering each other within the time limit",
        'look for the first error of another rank; set NCCL_P2P_DISABLE: "1" in serve.env to see '
        "whether direct transfers between the GPUs hang",
        on="line",
    ),
    cause(
        "nccl",
        "vLLM (pynccl), PyTorch",
        r"NCCL error(?: in)?: (?P<why>[^\n]{1,200})|ncclUnhandledCudaError|ncclSystemError"
        r"|ncclInternalError",
        "the GPUs could not talk to each other[: NCCL {why}]",
        "set NCCL_DEBUG: INFO in serve.env and run again for its own words",
    ),
    cause(
        "custom-all-reduce",
        "vLLM",
        r"custom_all_reduce\.cuh?:\d+|custom_ar.{0,80}(?:failed|error)"
        r"|open_mem_handle.{0,80}|cudaIpcOpenMemHandle",
        "vLLM's own all-reduce between the GPUs failed",
        "set disable-custom-all-reduce: true in serve.args",
    ),
    cause(
        "rendezvous-port",
        "PyTorch (TCPStore), ZeroMQ",
        r"server socket has failed to (?:listen|bind)|EADDRINUSE"
        r"|ZMQError: Address already in use",
        "a port that the server's processes use among themselves is taken",
        "see who listens: ss -ltnp; an older server of this host may be running: "
        "deployctl clean --plan",
    ),
    cause(
        "rendezvous",
        "PyTorch (TCPStore)",
        r"client socket has (?:timed out|failed to connect).{0,120}?"
        r"(?:to \(?(?P<address>[\w.:\[\], -]{3,80})\)?)?(?=[\s.,;]|$)",
        "a rank could not reach the first one[ ({address})]",
        "check the address and the firewall between the hosts; set VLLM_HOST_IP in serve.env where "
        "a host has several addresses",
    ),
    cause(
        "rendezvous-loopback",
        "PyTorch (Gloo)",
        r"Gloo connectFullMesh failed.{0,400}remote=\[?(?P<address>127\.[\d.]{5,11}|::1)",
        "another rank gave {address} as its address, at which each host reaches itself",
        "give each host address: its IP in the network between them; without a group, set "
        "GLOO_SOCKET_IFNAME in serve.env",
    ),
    cause(
        "rendezvous",
        "PyTorch (store)",
        r"DistStoreError|(?:wait timeout|timed out) after \d+ ?ms|Gloo connectFullMesh failed"
        r"|Timed out after \d+ seconds waiting for clients",
        "the ranks did not find each other within the time limit",
        "look for the first error of another rank; check that all hosts started and reach each "
        "other",
    ),
)
