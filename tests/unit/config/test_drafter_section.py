"""A drafter section says each thing once, and names checks that exist."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from deployctl.config.models import DrafterSettings

DFLASH = {"method": "dflash", "model": {"path": "/d"}, "num_speculative_tokens": 7}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"speculative": {"method": "ngram"}}, "give it once, as drafter.method"),
        ({"speculative": {"num_speculative_tokens": 3}}, "drafter.num_speculative_tokens"),
        ({"warn_only": ["mask_tokens"]}, "did you mean mask_token?"),
    ],
)
def test_what_contradicts_or_does_nothing_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said.replace("?", r"\?")):
        DrafterSettings.model_validate({**DFLASH, **more})


def test_what_is_right_is_taken() -> None:
    more = {"speculative": {"revision": "main"}, "warn_only": ["mask_token"]}
    assert DrafterSettings.model_validate({**DFLASH, **more}).warn_only == ["mask_token"]
