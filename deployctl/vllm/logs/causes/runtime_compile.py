"""What is compiled when a server starts: FlashInfer, Triton, torch.compile, DeepGEMM."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

_TOOLKIT = "set CUDA_HOME in serve.env to the CUDA toolkit, or install it on the host"

CAUSES: tuple[Cause, ...] = (
    cause(
        "no-nvcc",
        "FlashInfer, /bin/sh",
        r"(?P<path>:\S{1,200}/bin/nvcc): (?:not found|No such file)",
        "a kernel is compiled at the start, and the path of nvcc is wrong: {path}; "
        "CUDA_HOME begins with a colon",
        _TOOLKIT,
        on="line",
    ),
    cause(
        "no-nvcc",
        "FlashInfer, DeepGEMM, PyTorch",
        r"Could not find nvcc|(?P<path>\S{0,200}nvcc): (?:not found|No such file)"
        r"|No such file or directory: '(?P<file>[^']{0,200}nvcc)'"
        r"|CUDA_HOME (?:environment variable )"
        r"?is not set|NVCC not found|nvcc.{0,40}command not found"
        r"|assert.{0,20}cuda_home is not None"
        r"|Failed to find cuda_home|Cannot find CUDA_HOME",
        "a kernel is compiled at the start, and there is no nvcc",
        _TOOLKIT,
    ),
    cause(
        "nvcc-too-old",
        "nvcc",
        r"nvcc fatal {0,4}: {0,2}(?:Unsupported gpu architecture '(?P<arch>[^']{1,40})'"
        r"|Unknown option '(?P<option>[^']{1,60})')",
        "the CUDA toolkit on the host is too old for what is compiled at the start"
        "[ ({arch/option})]",
        "install a newer CUDA toolkit, or set CUDA_HOME in serve.env to one",
    ),
    cause(
        "ptxas-too-old",
        "Triton (ptxas)",
        r"ptxas (?:fatal|error) {0,4}: {0,2}Value '(?P<arch>[^']{1,40})' is not defined for option "
        r"'gpu-name'",
        "Triton's own ptxas does not know this GPU ({arch})",
        "set TRITON_PTXAS_PATH in serve.env to the ptxas of a newer CUDA toolkit, "
        "such as /usr/local/cuda/bin/ptxas",
    ),
    cause(
        "no-python-headers",
        "gcc, for Triton",
        r"fatal error: Python\.h: No such file or directory",
        "Triton compiles a module at the start, and Python's headers are missing",
        "install them on the host (python3-dev), or use uv's own Python (build.python)",
        on="line",
    ),
    cause(
        "no-compiler",
        "Triton, torch.compile",
        r"Failed to find C compiler|InvalidCxxCompiler|No working C\+\+ compiler found"
        r"|No such file or directory: '(?:[^']{0,100}/)?(?:gcc|cc|g\+\+|c\+\+|clang)'"
        r"|(?:gcc|g\+\+|cc1plus|c\+\+): (?:not found|command not found)",
        "a kernel is compiled at the start, and there is no C compiler",
        "install build-essential on the host",
        on="line",
    ),
    cause(
        "no-libcuda",
        "ld, for Triton",
        r"cannot find -lcuda\b|libcuda\.so cannot found|libcuda\.so(?:\.1)? not found",
        "Triton links a module at the start, and libcuda is not where the linker looks",
        "run ldconfig on the host, or add the driver's folder to LIBRARY_PATH in serve.env",
        on="line",
    ),
    cause(
        "no-ninja",
        "PyTorch, FlashInfer",
        r"Ninja is required to load C\+\+ extensions|No such file or directory: 'ninja'"
        r"|ninja: (?:command )?not found",
        "a kernel is compiled at the start, and there is no ninja",
        "add ninja to build.extra in the profile, and build again",
    ),
    cause(
        "compile-killed",
        "shell, ninja",
        r"^Killed$|exit status (?:137|-9)\b|died with <Signals\.SIGKILL",
        "a compiler at the start was ended by SIGKILL, most likely for want of memory",
        'set MAX_JOBS: "4" in serve.env, or free memory on the host',
    ),
    cause(
        "no-space",
        "kernel",
        r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]",
        "a disk is full",
        "free space where the caches lie (HF_HOME, VLLM_CACHE_ROOT, ~/.cache), then start again",
    ),
    cause(
        "flashinfer-compile",
        "FlashInfer",
        r"Ninja build failed|flashinfer.{0,200}(?:build|compil)\w{0,10} (?:failed|error)",
        "FlashInfer could not compile a kernel at the start",
        'set VLLM_USE_FLASHINFER_SAMPLER: "0" in serve.env, or another serve.attention_backend',
    ),
    cause(
        "triton-resources",
        "Triton",
        r"out of resources?: (?P<what>shared memory|threads|registers|tensor memory|tmem)"
        r"[^\n]{0,40}?Required: (?P<wanted>\d+),? Hardware limit: (?P<limit>\d+)",
        "a Triton kernel wants {wanted} of {what}, the GPU has {limit}",
        "choose another serve.attention_backend or serve.kv_cache_dtype for this GPU",
    ),
    cause(
        "triton-compile",
        "Triton",
        r"triton\.compiler\.errors\.CompilationError|PTXASError|PassManager::run failed"
        r"|Cannot find a working triton installation|RuntimeError: Triton Error \[CUDA\]: "
        r"(?P<why>[^\n]{1,120})",
        "Triton could not compile or load a kernel",
        "set enforce-eager: true in serve.args to see whether torch.compile is the cause; "
        "else another serve.attention_backend",
    ),
    cause(
        "torch-compile",
        "PyTorch",
        r"torch\._dynamo\.exc\.\w{1,60}|torch\._inductor\.exc\.\w{1,60}|BackendCompilerFailed"
        r"|InductorError",
        "torch.compile failed",
        "set enforce-eager: true in serve.args to start without it; "
        "a stale cache goes with: rm -r ~/.cache/vllm/torch_compile_cache",
    ),
)
