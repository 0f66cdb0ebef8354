"""Variables of whoever started the agent that a child is given; all others stay behind."""

from __future__ import annotations

import re
from typing import Dict, Mapping

SERVER = re.compile(
    r"^(HOME|PATH|USER|LOGNAME|SHELL|TMPDIR|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|CUDA_HOME|CUDA_PATH"
    r"|XDG_CACHE_HOME|HF_HOME|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY)$"
)
BUILD = re.compile(
    SERVER.pattern + r"|^((PIP|UV|CCACHE|SCCACHE)_\w+|HF_ENDPOINT|XDG_(CONFIG|DATA)_HOME"
    r"|SSL_CERT_(FILE|DIR)|(CURL|REQUESTS)_CA_BUNDLE|GIT_SSL_CA(INFO|PATH)"
    r"|CC|CXX|CUDACXX|CUDA_\w+|NVCC\w*|C(XX)?FLAGS|LDFLAGS|CPATH|LIBRARY_PATH|PKG_CONFIG_PATH)$"
)
"""A build may use the host's indexes, caches and compilers; its code is the source's."""
FETCH = re.compile(BUILD.pattern + r"|^SSH_AUTH_SOCK$")
"""git, which runs no code of what it fetches, may use the keys of an agent."""
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|_KEY|CREDENTIALS?|WEBHOOK)(_ID)?$", re.I)


def names_secret(name: str) -> bool:
    """Whether a variable is named like a secret."""
    return _SECRET.search(name) is not None


def kept(environment: Mapping[str, str], allowed: "re.Pattern[str]") -> Dict[str, str]:
    """Those variables that are allowed and are not named like a secret."""
    return {
        name: value
        for name, value in environment.items()
        if allowed.match(name) and not names_secret(name)
    }
