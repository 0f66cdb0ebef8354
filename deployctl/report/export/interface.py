"""What the formats share: names that they take, and YAML as people read it."""

from __future__ import annotations

import re

import yaml

from deployctl.engine.inspect.exporting import Folder

START_LIMIT = 3600
"""Seconds for the first start: weights are loaded and graphs compiled."""


def dns_label(name: str) -> str:
    """A name as Kubernetes takes it (RFC 1123: lower case, digits, dashes, 63 characters)."""
    label = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:63].strip("-")
    return label if label[:1].isalpha() else f"m-{label}".strip("-")


def volume_name(folder: Folder) -> str:
    """The volume of one model."""
    return folder.place.rpartition("/")[2]


def dump(*documents: object, head: str = "") -> str:
    """YAML documents in the order of their keys, texts of several lines as blocks."""
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100)
    return "".join(f"# {line}\n" for line in head.splitlines()) + text


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
