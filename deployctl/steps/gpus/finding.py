"""What `preflight` and `doctor` find: a condition, what was measured against what is needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["ok", "warning", "failed", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One condition on a host. `say` is what is wrong and what to do, empty where it is ok;
    `lines` are what to put into the file, or to run on the machine, that `where` names."""

    check: str
    verdict: Verdict
    measured: Any
    needed: Any
    say: str = ""
    where: str = ""
    lines: tuple[str, ...] = ()

    def tell(self) -> dict[str, Any]:
        """As evidence."""
        return {**asdict(self), "lines": list(self.lines)}
