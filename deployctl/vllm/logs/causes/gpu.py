"""GPU, driver and CUDA: what the hardware and its driver cannot do."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "forward-compatibility",
        "CUDA runtime, error 804",
        r"[Ee]rror 804|forward compatibility was attempted on non supported HW"
        r"|cudaErrorCompatNotSupportedOnDevice",
        "the forward compatibility libraries of a newer CUDA are used on a card that does not "
        "support them (error 804)",
        "remove cuda-compat from the library path (LD_LIBRARY_PATH, /usr/local/cuda/compat), "
        "or install a newer driver",
    ),
    cause(
        "driver-too-old",
        "PyTorch",
        r"NVIDIA driver on your system is too old \(found version (?P<cuda>\d{4,5})\)",
        "the driver knows CUDA {cuda}, and torch was built for a newer one",
        "choose a lower build.torch_backend, or install a newer driver",
    ),
    cause(
        "driver-too-old",
        "CUDA runtime, error 35",
        r"CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver"
        r"|(?:requirement error: )?unsatisfied condition: (?P<wanted>cuda>=[\d.]{1,10})",
        "the driver is older than the CUDA that this build needs",
        "choose a lower build.torch_backend, or install a newer driver",
        on="line",
    ),
    cause(
        "driver-too-old",
        "CUDA driver, error 222",
        r"provided PTX was compiled with an unsupported toolchain"
        r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
        r"|cudaErrorUnsupportedPtxVersion",
        "the code was compiled by a CUDA toolkit that is newer than the driver",
        "install a newer driver, or choose a lower build.torch_backend",
    ),
    cause(
        "driver-mismatch",
        "NVML, kernel module",
        r"Driver/library version mismatch|API mismatch: the client has|NVML_ERROR_LIB_RM_VERSION"
        r"|cudaErrorSystemDriverMismatch|system has unsupported display driver / cuda driver",
        "driver library and kernel module differ on the host",
        "give the container the node's driver version, or reboot after a driver update",
        on="line",
    ),
    cause(
        "no-kernel-image",
        "CUDA runtime, error 209",
        r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice"
        r"|CUDA_ERROR_NO_BINARY_FOR_GPU|(?:device kernel image is invalid)",
        "the compiled code holds nothing for this GPU's compute capability",
        "choose a build.torch_backend whose wheels have this GPU, or build from source "
        "(build.strategy: source); nvidia-smi --query-gpu=compute_cap --format=csv tells which",
    ),
    cause(
        "compute-capability",
        "vLLM",
        r"(?P<what>[Bb]float16|FP8|fp8\w{0,10}|FlashInfer|\S{1,40} quantization) (?:is|are) only "
        r"supported on (?:GPUs|devices?|NVIDIA)[^\n]{0,60}?compute capability (?:of )?(?:at "
        r"least )?"
        r"(?P<wanted>\d+(?:\.\d+)?)",
        "{what} needs compute capability {wanted}, which this GPU does not have",
        "set serve.dtype: half for bfloat16, or serve a model in another format",
    ),
    cause(
        "compute-capability",
        "vLLM",
        r"quantization method (?P<what>\S{1,60}) is not supported for the current GPU\. Minimum "
        r"capability: (?P<wanted>\d+)\. Current capability: (?P<have>\d+)",
        "quantization {what} needs compute capability {wanted}, this GPU has {have}",
        "serve the model in another format, or on a newer GPU",
    ),
    cause(
        "compute-capability",
        "vLLM, FlashInfer",
        r"(?:requires?|needs|only supports?) (?:GPUs? with |a GPU with |device )?(?:compute )?"
        r"(?:capability|SM|sm)[ _]?(?:of )?(?:at least |>= ?)?(?P<wanted>\d[\d.]{0,4}a?)"
        r"|type fp8e4nv not supported in this architecture",
        "this GPU's compute capability is too low for a kernel[ ({wanted} is needed)]",
        "choose another serve.attention_backend, serve.kv_cache_dtype or format of the model",
    ),
    cause(
        "no-driver",
        "PyTorch, CUDA",
        r"Found no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device"
        r"|Torch not compiled with CUDA enabled",
        "CUDA finds no GPU",
        "look at the device nodes and the driver: deployctl doctor",
    ),
    cause(
        "no-driver",
        "CUDA runtime",
        r"CUDA (?:unknown )?error.{0,40}999|CUDA unknown error|cudaErrorUnknown|error code 999"
        r"|CUDA_ERROR_UNKNOWN|initialization error|cudaErrorInitializationError"
        r"|cudaErrorSystemNotReady|system not yet initialized",
        "CUDA does not work on the host",
        "look at the device nodes and the driver: deployctl doctor",
    ),
    cause(
        "no-driver",
        "NVML",
        r"Failed to initialize NVML|NVMLError_\w{1,40}|NVML Shared Library Not Found"
        r"|couldn't communicate with the NVIDIA driver",
        "the NVIDIA driver does not answer",
        "look at the device nodes and the driver: deployctl doctor",
        on="line",
    ),
    cause(
        "no-driver",
        "vLLM",
        r"Failed to infer device type|No platform detected",
        "vLLM found no GPU and no CPU build",
        "look at the driver: deployctl doctor; a CPU needs build.target: cpu",
    ),
    cause(
        "gpu-index",
        "CUDA runtime, error 101",
        r"invalid device ordinal|device >= 0 && device < num_gpus"
        r"|device ordinal (?P<index>\d+) is out of range",
        "a GPU was asked for that the server does not see",
        "compare serve.gpus and serve.tensor_parallel_size with nvidia-smi -L",
    ),
    cause(
        "too-few-gpus",
        "vLLM, Ray",
        r"World size \((?P<wanted>\d+)\) is larger than the number of available GPUs "
        r"\((?P<there>\d+)\)|(?:number of required GPUs|required number of GPUs).{0,80}?exceeds",
        "[{wanted} GPUs are wanted, the server sees {there}|more GPUs are wanted than the "
        "server sees]",
        "lower serve.tensor_parallel_size, or name more in serve.gpus",
    ),
    cause(
        "too-few-gpus",
        "vLLM (mp)",
        r"DP adjusted local rank|please ensure that world_size \((?P<wanted>\d+)\) is less than "
        r"than max local gpu count \((?P<there>\d+)\)",
        "[{wanted} GPUs are wanted, the server sees {there}|more GPUs are wanted than the "
        "server sees]",
        "lower serve.tensor_parallel_size, or name more in serve.gpus",
    ),
    cause(
        "gpu-fault",
        "CUDA runtime",
        r"uncorrectable (?:ECC|NVLink) error|cudaErrorECCUncorrectable|GPU is lost"
        r"|fallen off the bus|unspecified launch failure|cudaErrorHardwareStackError",
        "the GPU or its link failed",
        "look at dmesg on the node for an Xid, and at nvidia-smi -q",
        on="line",
    ),
    cause(
        "gpu-fork",
        "PyTorch",
        r"Cannot re-initialize CUDA in forked subprocess",
        "CUDA was used before the server's processes were forked",
        "set VLLM_WORKER_MULTIPROC_METHOD: spawn in serve.env",
    ),
    cause(
        "gpu-illegal-access",
        "CUDA runtime",
        r"illegal memory access was encountered|cudaErrorIllegalAddress"
        r"|device-side assert triggered"
        r"|misaligned address|illegal instruction was encountered",
        "a kernel accessed memory that it must not: a fault of this vLLM, a kernel or the GPU",
        'set CUDA_LAUNCH_BLOCKING: "1" in serve.env and start again: the last frame then names '
        "the kernel",
    ),
    cause(
        "cublas",
        "cuBLAS, cuDNN",
        r"(?P<status>(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER)_STATUS_\w{1,40})",
        "a CUDA library failed: {status}",
        "see whether the GPU's memory is full (deployctl clean --plan) and whether an "
        "LD_LIBRARY_PATH in serve.env mixes CUDA versions",
    ),
)
