"""GPU and host memory: what it was wanted for decides what helps."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

_FULL = (
    r"CUDA (?:error: )?out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory"
)
_TORCH = "PyTorch"


def _full(id: str, phase: str, sentence: str, next: str) -> Cause:
    return cause(id, _TORCH, _FULL, sentence, next, phase=phase)


CAUSES: tuple[Cause, ...] = (
    cause(
        "gpu-memory-held",
        "vLLM",
        r"Free memory on device (?P<device>\S{1,40}) \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on "
        r"startup is less than",
        "only {free} of {total} GiB are free on {device} before anything was loaded",
        "see who holds it: deployctl clean --plan; or lower serve.gpu_memory_utilization",
    ),
    cause(
        "gpu-memory-held",
        "vLLM",
        r"Error in memory profiling\. Initial (?:free|used) memory",
        "another program took or returned GPU memory while vLLM measured it",
        "see who uses the GPU: deployctl clean --plan; then start again",
    ),
    cause(
        "host-memory",
        "vLLM (CPU)",
        r"Available memory on node \d+ \((?P<free>[\d.]+)/[\d.]+ GiB\).{0,300}?"
        r"(?:less than requested memory for kv|desired CPU memory)",
        "the host has not enough free memory: {free} GiB",
        "lower VLLM_CPU_KVCACHE_SPACE in serve.env, or free memory on the host",
    ),
    cause(
        "kv-cache",
        "vLLM",
        r"max seq len \((?P<length>\d+)\),? \(?(?P<needed>[\d.]+ GiB) KV cache is needed, which is "
        r"larger than the available KV cache memory \((?P<there>[\d.]+ GiB)\)",
        "the KV cache is too small for {length} tokens: {there} of {needed}",
        "lower serve.max_model_len or raise serve.gpu_memory_utilization "
        "(VLLM_CPU_KVCACHE_SPACE on a CPU)",
    ),
    cause(
        "kv-cache",
        "vLLM before 0.10",
        r"model's max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that "
        r"can be stored in KV cache \((?P<there>\d+)\)",
        "the KV cache is too small for {length} tokens: it holds {there}",
        "lower serve.max_model_len or raise serve.gpu_memory_utilization",
    ),
    cause(
        "no-kv-cache",
        "vLLM",
        r"No available memory for the cache blocks|Cannot auto-fit max_model_len",
        "the weights leave no memory for the KV cache",
        "raise serve.gpu_memory_utilization, or use more GPUs (serve.tensor_parallel_size)",
    ),
    cause(
        "mamba-cache",
        "vLLM",
        r"max_num_seqs \((?P<wanted>\d+)\) exceeds available Mamba cache blocks \((?P<there>\d+)\)",
        "the Mamba cache holds {there} sequences, max-num-seqs is {wanted}",
        "lower max-num-seqs in serve.args to {there} or less",
    ),
    cause(
        "gpu-memory-sampler",
        "vLLM",
        r"out of memory occurred when warming up (?P<what>sampler|pooler) with (?P<requests>\d+) "
        r"dummy requests",
        "the GPU ran out of memory while warming up the {what} with {requests} dummy requests",
        "lower max-num-seqs in serve.args, or serve.gpu_memory_utilization",
    ),
    cause(
        "gpu-memory-weights",
        "vLLM",
        r"Failed to load model - not enough GPU memory|Unable to (?:load"
        r"|allocate).{0,80}model.{0,40}"
        r"out of memory",
        "the GPU ran out of memory while loading the weights",
        "use more GPUs (serve.tensor_parallel_size) or a quantized model; "
        "see who else holds memory: deployctl clean --plan",
    ),
    _full(
        "gpu-memory-weights",
        "weights",
        "the GPU ran out of memory while loading the weights",
        "use more GPUs (serve.tensor_parallel_size) or a quantized model; "
        "see who else holds memory: deployctl clean --plan",
    ),
    _full(
        "gpu-memory-profiling",
        "profiling",
        "the GPU ran out of memory in the profiling run, which fills one batch",
        "lower max-num-batched-tokens or max-num-seqs in serve.args, or serve.max_model_len",
    ),
    _full(
        "gpu-memory-cache",
        "cache",
        "the GPU ran out of memory while allocating the KV cache",
        "lower serve.gpu_memory_utilization, or see who else took memory: deployctl clean --plan",
    ),
    _full(
        "gpu-memory-graphs",
        "graphs",
        "the GPU ran out of memory while capturing graphs",
        "lower serve.gpu_memory_utilization or max-num-seqs, or set enforce-eager: true",
    ),
    _full(
        "gpu-memory-sampler",
        "sampler",
        "the GPU ran out of memory after the graphs were captured, while warming up the sampler",
        "lower max-num-seqs in serve.args, or serve.gpu_memory_utilization",
    ),
    _full(
        "gpu-memory-serving",
        "serving",
        "the GPU ran out of memory while serving, after the start was complete",
        "lower serve.gpu_memory_utilization or max-num-batched-tokens, so that requests have room; "
        "see who else holds memory: deployctl clean --plan",
    ),
    _full(
        "gpu-memory",
        "",
        "the GPU ran out of memory",
        "lower serve.max_model_len, use more GPUs, or see who holds memory: deployctl clean --plan",
    ),
    cause(
        "host-memory",
        "PyTorch, Python",
        r"DefaultCPUAllocator: (?:can't|not enough memory)|^MemoryError|Cannot allocate memory"
        r"|unable to mmap \d+ bytes.{0,200}Cannot allocate|cudaHostAlloc|pinned memory",
        "the host ran out of memory",
        "free memory on the host, or give the container more",
    ),
)
