"""What to serve: the target model and, for speculative decoding, its drafter."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from deployctl.config.base import Settings, misfit
from deployctl.config.suggest import did_you_mean
from deployctl.vllm.drafters import methods
from deployctl.vllm.drafters.drafter_verdicts import CHECKS

_OWN_SETTING = ("method", "model", "num_speculative_tokens")
"""Keys of vLLM's --speculative-config that a drafter section says itself."""


class ModelSource(Settings):
    """Exactly one of `repo` (Hugging Face), `path` (on the host) and `bundled` (ships with us)."""

    alternatives = (("repo", "revision"), ("path",), ("bundled",))

    repo: str | None = None
    """A repository on Hugging Face, OWNER/NAME, downloaded to the host."""
    revision: str | None = None
    """A commit of `repo`; a branch, a tag or (when absent) the head is resolved to one before
    anything is fetched."""
    path: str | None = None
    """A folder that lies on the host."""
    bundled: str | None = None
    """A folder of this project's models, sent to the host."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [n for n in ("repo", "path", "bundled") if getattr(self, n) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one of repo, path, bundled; found {found}")
        if self.revision is not None and self.repo is None:
            raise misfit(("revision",), "a revision belongs to repo")
        return self


class ModelSettings(ModelSource):
    """The target model."""

    served_name: str = Field(min_length=1)
    """The name under which requests ask for it."""


class DrafterSettings(Settings):
    """How tokens are drafted. `model` is absent for methods without one (ngram, suffix)."""

    method: str = Field(pattern=r"^[a-z0-9_]+$")
    """How tokens are drafted, by vLLM's own name; the vLLM that is built decides on others than
    dflash, eagle, eagle3, medusa, mlp_speculator, draft_model, ngram, suffix and mtp."""
    model: ModelSource | None = None
    """Where the drafter comes from; absent for ngram and suffix, and for a target's own mtp."""
    num_speculative_tokens: int = Field(ge=1, le=256)
    """Tokens drafted in each step."""
    config: dict[str, Any] = {}
    """Wanted values in the drafter's config.json, by key path: `dflash_config.mask_token_id: 3`."""
    speculative: dict[str, Any] = {}
    """Further keys of vLLM's --speculative-config."""
    warn_only: list[str] = []
    """Checks by name that shall warn instead of refuse."""

    @model_validator(mode="after")
    def _model_where_needed(self) -> Self:
        takes = methods.of(self.method).model
        if self.model is None and takes == "needed":
            raise misfit(("method",), f"method {self.method} needs a model")
        if self.model is not None and takes == "none":
            raise misfit(("model",), f"method {self.method} takes no model")
        if self.config and self.model is None:
            raise misfit(("config",), "config needs a model whose config.json it changes")
        return self

    def warnings(self) -> list[str]:
        """What may be meant and is not known here: the built vLLM decides on it."""
        if methods.known(self.method):
            return []
        hint = did_you_mean(self.method, sorted(methods.METHODS))
        return [f"drafter.method: {self.method} is not known here{hint}: the built vLLM decides"]

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        for key in self.speculative:
            if key in _OWN_SETTING:
                raise misfit(("speculative", key), f"give it once, as drafter.{key}")
        return self

    @model_validator(mode="after")
    def _known_checks(self) -> Self:
        for name in self.warn_only:
            if name not in CHECKS:
                hint = did_you_mean(name, sorted(CHECKS))
                raise misfit(("warn_only",), f"no check is named {name}{hint}")
        return self
