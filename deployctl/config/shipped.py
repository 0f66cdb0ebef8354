"""What comes with deployctl: profiles, playbooks and models.

Installed from a wheel they lie in the package (`deployctl/data`); in a checkout they are the
repository's own folders.
"""

from __future__ import annotations

from pathlib import Path

import deployctl
from deployctl.config.suggest import did_you_mean
from deployctl.errors import ConfigError


def data_directory() -> Path:
    """The folder that holds `profiles`, `playbooks` and `models`."""
    package = Path(deployctl.__file__).parent
    packed = package / "data"
    return packed if packed.is_dir() else package.parent


def bundled_models() -> list[str]:
    """The names that `bundled:` may have here."""
    models = data_directory() / "models"
    return sorted(path.parent.name for path in models.glob("*/config.json"))


def bundled_model(name: str) -> Path:
    """The folder of a model that ships with deployctl; raises `ConfigError` for any other name."""
    known = bundled_models()
    if name not in known:
        raise ConfigError(
            f"no bundled model is named {name}{did_you_mean(name, known)}",
            f"bundled here: {', '.join(known) or 'none'}",
            "Give the model as repo: or path:, or name a bundled one.",
        )
    return data_directory() / "models" / name
