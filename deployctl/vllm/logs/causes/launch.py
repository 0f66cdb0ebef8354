"""Ports, permissions, processes that die silently, and containers that do not start."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "port-in-use",
        "kernel (EADDRINUSE)",
        r"\[Errno 98\]|error while attempting to bind on address.{0,120}address already in use"
        r"|bind: address already in use|port is already allocated",
        "the port is in use by another program",
        "find it with: ss -ltnp; stop it, or give the profile another serve.port",
        on="line",
    ),
    cause(
        "address-not-here",
        "kernel (EADDRNOTAVAIL)",
        r"\[Errno 99\]|[Cc]annot assign requested address",
        "the address that the server should listen on is not one of the host's",
        "set serve.host to an address of the host, or to 0.0.0.0",
        on="line",
    ),
    cause(
        "address-unknown",
        "resolver",
        r"gaierror: \[Errno -\d\] (?P<why>[^\n]{1,80})",
        "a name cannot be resolved: {why}",
        "set serve.host to an address; check the host's /etc/hosts for its own name",
    ),
    cause(
        "permission",
        "kernel (EACCES)",
        r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^']{1,300})'"
        r"|PermissionError at (?P<file>\S{1,300})",
        "the server may not use {path/file}",
        "give its user access, or set HF_HOME and VLLM_CACHE_ROOT in serve.env to folders of "
        "its own",
    ),
    cause(
        "permission",
        "kernel (EACCES)",
        r"\[Errno 13\]",
        "the server may not use a file or a port: ports below 1024 need root",
        "choose a serve.port above 1023, or give the server's user access",
        on="line",
    ),
    cause(
        "read-only",
        "kernel (EROFS)",
        r"\[Errno 30\] Read-only file system: '(?P<path>[^']{1,300})'|Read-only file system",
        "a folder that the server writes to is read-only[: {path}]",
        "set HF_HOME and VLLM_CACHE_ROOT in serve.env to folders that can be written",
    ),
    cause(
        "too-many-files",
        "kernel (EMFILE, EAGAIN)",
        r"\[Errno 24\]|Too many open files|can't start new thread|Resource temporarily unavailable"
        r"|pthread_create failed",
        "the server's user has no files or threads left",
        "raise the limits (ulimit -n, ulimit -u, the container's pids limit)",
        on="line",
    ),
    cause(
        "start-timeout",
        "vLLM",
        r"Timed out waiting for engine core processes to start|Did not receive response from "
        r"front-end process within|RPC call to \w{1,60} timed out",
        "an engine did not answer within vLLM's own time limit",
        "raise VLLM_ENGINE_READY_TIMEOUT_S in serve.env; slow weights: see deployctl logs for the "
        "last phase",
    ),
    cause(
        "process-killed",
        "kernel",
        r"Out of memory: Killed process (?P<pid>\d+) \((?P<name>[^)]{1,60})\)"
        r"|oom-kill:|Memory cgroup out of memory|OOMKilled",
        "the kernel killed [{name}|a process] for want of host memory",
        "give the container more memory, or lower what the server keeps on the host "
        "(VLLM_CPU_KVCACHE_SPACE, cpu-offload-gb)",
        on="line",
    ),
    cause(
        "process-killed",
        "vLLM, shell, Ray",
        r"Failed core proc\(s\): \{[^}]{0,200}: -9\b|died, exit code: -9|SIGKILL"
        r"|^Killed$|exit(?:ed with)? (?:code|status):? ?137\b",
        "a process of the server was killed (SIGKILL), most likely for want of host memory",
        "look at dmesg on the node for an out-of-memory kill",
        on="line",
    ),
    cause(
        "process-crashed",
        "vLLM, Python, kernel",
        r"Failed core proc\(s\): \{[^}]{0,200}: -(?:11|6|4|8)\b|died, exit code: -(?:11|6|4)\b"
        r"|Fatal Python error: (?P<why>[^\n]{1,80})|Segmentation fault|Segfault encountered"
        r"|SIGSEGV|^Aborted(?: \(core dumped\))?$|terminate called after throwing",
        "a process of the server crashed in compiled code",
        "look at the frames below it, and at dmesg on the node for an Xid",
        on="line",
    ),
    cause(
        "shared-memory",
        "vLLM",
        r"Failed core proc\(s\): \{[^}]{0,200}: -7\b|died, exit code: -7\b",
        "a process of the server died of a bus error, which a full /dev/shm causes",
        "give the container a larger /dev/shm (lxc.mount.entry with size=)",
        on="line",
    ),
    cause(
        "process-lost",
        "vLLM, Ray",
        r"(?:Worker proc|Engine core proc) \S{1,60} died unexpectedly|Worker \S{1,60} pid \d+ died"
        r"|A worker died or was killed while executing a task|Worker unexpectedly exits",
        "a process of the server ended without an error message: it was most likely killed, or "
        "crashed",
        "look at dmesg on the node for an out-of-memory kill or an Xid",
        on="line",
    ),
    cause(
        "no-gpu-runtime",
        "Docker, NVIDIA container toolkit",
        r"could not select device driver|nvidia-container-cli: (?P<why>[^\n]{1,160})"
        r"|unknown or invalid runtime name: nvidia|failed to discover GPU vendor",
        "the container runtime gives no GPU to containers",
        "install the NVIDIA container toolkit on the host and restart the container service",
        on="line",
    ),
    cause(
        "no-vllm",
        "shell",
        r"vllm: (?:command )?not found|exec: \"vllm\"|No such file or directory: '[^']{0,200}/vllm'"
        r"|No module named vllm",
        "there is no vllm to run",
        "build it: deployctl build",
        on="line",
    ),
)
