"""Models: whether sizes, quantization and weights fit the GPUs and the config."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "context-too-long",
        "vLLM",
        r"User-specified max_model_len \((?P<wanted>\d+)\) is greater than the derived "
        r"max_model_len \(\w+=(?P<most>\d+)",
        "max_model_len {wanted} is more than the model's {most}",
        "lower serve.max_model_len in the profile",
    ),
    cause(
        "heads",
        "vLLM",
        r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size "
        r"\((?P<size>\d+)\)",
        "{heads} attention heads cannot be divided among {size} GPUs",
        "set serve.tensor_parallel_size to a divisor of {heads}",
    ),
    cause(
        "sizes",
        "vLLM",
        r"(?P<what>\d+) is not divisible by (?P<by>\d+)",
        "a size of the model, {what}, cannot be divided by {by}",
        "choose another serve.tensor_parallel_size",
    ),
    cause(
        "sizes",
        "vLLM (quantisation)",
        r"(?:input|output) size is not aligned with the quantized weight shape"
        r"|input_size_per_partition ?= ?(?P<what>\d+).{0,80}is not divisible by"
        r"|The (?:input|output)_size .{0,40}= ?(?P<other>\d+) is not divisible by .{0,60}"
        r"|weights? (?:quantization )?block_[nk] ?= ?(?P<by>\d+)",
        "the quantised weights cannot be divided among these GPUs",
        "lower serve.tensor_parallel_size; for a mixture of experts set "
        "enable-expert-parallel: true in serve.args",
    ),
    cause(
        "sizes",
        "vLLM",
        r"n_physical_experts=(?P<what>\d+) must be divisible by ep_size=(?P<by>\d+)"
        r"|total_num_heads % tp_size == 0|total_num_kv_heads % tp_size"
        r"|must be divisible by (?:the )?(?:tensor|TP|tp)",
        "a size of the model cannot be divided among the GPUs",
        "choose another serve.tensor_parallel_size",
    ),
    cause(
        "quantization-mismatch",
        "vLLM",
        r"Quantization method specified in the model config \((?P<have>[^)]{1,60})\) does not "
        r"match "
        r"the quantization method specified in the `quantization` argument "
        r"\((?P<want>[^)]{1,60})\)",
        "the model is quantised with {have}, and serve.args asks for {want}",
        "remove quantization from serve.args: vLLM reads it from the config",
    ),
    cause(
        "quantization-dtype",
        "vLLM",
        r"(?P<dtype>torch\.\w{1,20}) is not supported for quantization method (?P<method>\S{1,40}?)"
        r"\. Supported dtypes: (?P<known>[^\n]{1,120})",
        "quantization {method} does not run in {dtype}",
        "set serve.dtype to one of {known}",
    ),
    cause(
        "quantization-unknown",
        "vLLM",
        r"Unknown quantization method: (?P<method>[^.\n]{1,60})|Invalid quantization method: "
        r"(?P<other>[^.\n]{1,60})|Cannot find the config file for (?P<file>[^\n]{1,60})"
        r"|Unknown ModelOpt quant algo|Unsupported quantization config found",
        "this vLLM cannot read the model's quantization[ ({method/other/file})]",
        "build a version that knows it, or serve the model in another format",
    ),
    cause(
        "quantization-package",
        "vLLM",
        r"[Pp]lease install (?P<package>bitsandbytes|auto-gptq|autoawq|compressed[-_]tensors|gguf"
        r"|torchao|vllm-gguf-plugin|deep_?gemm|mistral[-_]common|tiktoken)"
        r"|(?:No module named|requires) '?(?P<module>bitsandbytes|gguf|torchao|gptqmodel)",
        "the model's format needs a package that is not installed: {package/module}",
        "add it to build.extra in the profile, and build again",
    ),
    cause(
        "gguf",
        "transformers, gguf, vLLM",
        r"GGUF model with architecture (?P<name>\S{1,60}) is not supported|Unknown gguf model_type"
        r"|gguf.{0,120}(?:not supported|unsupported|Unsupported)"
        r"|Architecture '?(?P<arch>\w{1,40})'? "
        r"not supported.{0,40}gguf|is not (?:yet )?supported by .{0,20}GGUF|GGUFReader",
        "this GGUF file cannot be served[: architecture {name/arch}]",
        "serve the model in its original format, or another quantization of it",
    ),
    cause(
        "weights-missing",
        "vLLM",
        r"Cannot find any (?:safetensors )?model weights with `(?P<path>[^`]{1,300})`"
        r"|Weight files referenced in index but missing|Could not find checkpoint files",
        "[no weights lie in {path}|weights of the model are missing]",
        "look at the folder: git without LFS leaves pointers, and a download may be incomplete "
        "(deployctl fetch)",
    ),
    cause(
        "weights-damaged",
        "safetensors, PyTorch",
        r"(?:SafetensorError|Error while deserializing header).{0,200}"
        r"|HeaderTooLarge|InvalidHeader\w{0,20}|MetadataIncompleteBuffer|HeaderTooSmall"
        r"|PytorchStreamReader failed|invalid load key, '(?P<key>v)'|unexpected EOF, expected",
        "a weight file is damaged or incomplete",
        "compare its size with the model's page and fetch it again (deployctl fetch); "
        "a file of a few hundred bytes is a Git LFS pointer",
    ),
    cause(
        "weights-mismatch",
        "vLLM",
        r"Tried to load weights of size (?P<have>.{1,80}?)\s{0,4}to a parameter of size "
        r"(?P<want>.{1,80})",
        "the weights do not fit the config: {have} against {want}",
        "look at the drafter's target_layer_ids and sizes: deployctl drafter check",
    ),
    cause(
        "weights-mismatch",
        "vLLM, PyTorch",
        r"Attempted to load weight \((?P<have>[^\n]{1,80}?)\) into parameter "
        r"\((?P<want>[^\n]{1,80})\)"
        r"|The size of tensor a \((?P<a>\d+)\) must match the size of tensor b"
        r"|param_data\.shape == loaded_weight\.shape|size mismatch for (?P<name>\S{1,120}):"
        r"|start \(\d+\) \+ length \(\d+\) exceeds dimension size",
        "the weights do not fit the model that the config describes",
        "compare config.json and the quantization with the model's page",
    ),
    cause(
        "weights-names",
        "vLLM",
        r"There is no module or parameter named (?P<quoted>'[^']{1,200}')"
        r"|Following weights were not initialized from checkpoint"
        r"|^KeyError: '?(?P<name>[\w.]{0,160}\b(?:layers?|experts|proj|mlp|attn|attention"
        r"|embed\w{0,10}"
        r"|norm|lm_head|weight|bias|qweight|scales?|g_idx|weight_scale)[\w.]{0,160})'?",
        "the checkpoint has a weight that the model does not know, or lacks one[: {name/quoted}]",
        "compare the checkpoint's format and quantization with the model's page; "
        "a newer vLLM may know it",
    ),
    cause(
        "lora",
        "vLLM",
        r"LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<most>\d+)"
        r"|Call to add_lora method failed|No free lora slots|is not supported for LoRA"
        r"|expected target modules in .{0,200} but received",
        "an adapter cannot be loaded",
        "raise max-lora-rank or max-loras in serve.args, or look at the adapter's config",
    ),
)
