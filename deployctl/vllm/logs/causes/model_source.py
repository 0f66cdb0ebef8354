"""Models: where they are, and who may read them."""

from __future__ import annotations

from deployctl.vllm.logs.causes.cause import Cause, cause

CAUSES: tuple[Cause, ...] = (
    cause(
        "gated-model",
        "huggingface_hub, transformers",
        r"GatedRepoError|[Aa]ccess to (?:model|this model) .{0,200}is restricted|"
        r"You are trying to access a gated repo|Cannot access gated repo|is a gated repository",
        "the model is gated and the token given has no access to it",
        "ask for access on its page, and name the token in serve.secrets: HF_TOKEN",
    ),
    cause(
        "model-token",
        "huggingface_hub",
        r"Invalid (?:username or password|credentials|user token)|401 (?:Client Error: )?"
        r"Unauthorized.{0,300}huggingface|LocalTokenNotFoundError|Token is required"
        r"|User Access Token .{0,80}is expired",
        "the Hub refuses the token",
        "name a valid token in serve.secrets: HF_TOKEN",
    ),
    cause(
        "model-revision",
        "huggingface_hub, transformers",
        r"RevisionNotFoundError|Revision Not Found|(?P<revision>\S{1,120}) is not a valid git "
        r"identifier",
        "the model has no [revision {revision}|such revision]",
        "fix model.revision or drafter.model.revision in the profile",
    ),
    cause(
        "model-offline",
        "huggingface_hub, transformers",
        r"OfflineModeIsEnabled|outgoing traffic has been disabled|LocalEntryNotFoundError.{0,300}"
        r"HF_HUB_OFFLINE|Cannot reach .{0,200}offline mode is enabled"
        r"|Cannot find an appropriate cached snapshot folder",
        "the model is not in the cache, and offline mode keeps it from being fetched",
        "fetch it first: deployctl fetch; or remove HF_HUB_OFFLINE from serve.env",
    ),
    cause(
        "model-network",
        "huggingface_hub, transformers, requests",
        r"We couldn't connect to '(?P<url>[^']{1,200})'|LocalEntryNotFoundError"
        r"|(?:Max retries exceeded|ConnectTimeout|ConnectError|NameResolutionError|ReadTimeout"
        r"|Temporary failure in name resolution).{0,300}huggingface"
        r"|huggingface\.co.{0,300}(?:Max retries exceeded|timed out|Connection refused"
        r"|Name or service not known|SSLError|CERTIFICATE_VERIFY_FAILED)"
        r"|An error happened while trying to locate the files? on the Hub",
        "the model is not in the cache, and the Hub cannot be reached",
        "fetch it first: deployctl fetch; or check the host's network and proxy "
        "(HTTPS_PROXY, HF_ENDPOINT in serve.env)",
    ),
    cause(
        "drafter-path",
        "vLLM",
        r"Invalid repository ID or local directory specified: ?\n? ?'(?P<path>[^']{0,400})'",
        "there is no model in [{path}|an empty path]",
        "fix drafter.model or model in the profile, then run again",
    ),
    cause(
        "model-missing",
        "huggingface_hub, transformers",
        r"RepositoryNotFoundError|Repository Not Found for url: (?P<url>\S{1,200})"
        r"|(?P<name>\S{1,200}) is not a local folder (?:and is not a valid model identifier|or a "
        r"valid repository)|(?P<id>\S{1,200}) is not a valid model identifier listed",
        "there is no model [{name/id/url}|of that name] on the Hub, or it is private",
        "fix model in the profile; a private one needs a token in serve.secrets: HF_TOKEN",
    ),
    cause(
        "model-path",
        "huggingface_hub",
        r"HFValidationError: .{0,300}: '(?P<path>[^']{0,400})'",
        "there is no model in [{path}|an empty path]",
        "fix model in the profile, then run again",
    ),
)
