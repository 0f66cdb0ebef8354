"""What a build fetches and does not get: names, certificates, proxies, refs, submodules, files."""

from __future__ import annotations

from deployctl.vllm.logs.causes.build_host import build
from deployctl.vllm.logs.causes.cause import Cause

CAUSES: tuple[Cause, ...] = (
    build(
        "untrusted-certificate",
        "uv (rustls), git (curl), pip, cargo",
        r"invalid peer certificate|unknownissuer|ssl certificate problem|certificate[_ ]verify"
        r"[_ ]failed|self[- ]signed certificate|unable to get (?:local )?issuer certificate"
        r"|server certificate verification failed|certificate (?:has expired|is not trusted|is not "
        r"valid|verification failed)|sslcertverificationerror|the ssl certificate is invalid"
        r"|caused by.{0,80}certificate|unable to verify the (?:first )?certificate",
        "the server's certificate is not trusted here: a proxy opens TLS with a certificate of its "
        "own, or the host's authorities or clock are old",
        'give the proxy\'s authority in build.env: SSL_CERT_FILE or UV_NATIVE_TLS: "1" (uv), '
        "PIP_CERT (pip), GIT_SSL_CAINFO or http.sslCAInfo (git)",
    ),
    build(
        "proxy",
        "curl, pip, uv",
        r"received http code (?P<code>\d{3}) from proxy|could not resolve proxy|proxyerror"
        r"|proxy authentication required|cannot connect to proxy|tunnel connection failed"
        r"|connect tunnel failed|unable to connect to proxy|tunnel error|unsuccessful tunnel"
        r"|proxy connect aborted|failed to connect to .{0,80}proxy|unsupported proxy (?:scheme"
        r"|syntax)"
        r"|407 proxy|unknown proxy scheme",
        "the proxy refuses or cannot be reached",
        "check HTTPS_PROXY and NO_PROXY in build.env, with user and password where it wants them",
    ),
    build(
        "submodule",
        "git",
        r"fatal: clone of '(?P<url>[^']{1,300})' into submodule path"
        r"|failed to recurse into submodule"
        r"|no url found for submodule path|unable to (?:checkout|find current revision).{0,40}in "
        r"submodule path|did not contain [0-9a-f]{7,40}\. direct fetching"
        r"|no submodule mapping found"
        r"|failed to clone '(?P<path>[^']{1,200})' a second time",
        "a git submodule cannot be checked out[: {url/path}]",
        "check that the host reaches its URL; set build.submodules: false if the build does not "
        "need it",
    ),
    build(
        "lfs",
        "git-lfs, uv",
        r"git[- ]lfs.{0,80}(?:not found|is not installed|command not found)"
        r"|smudge filter lfs failed"
        r"|this repository (?:is over its data quota|exceeded its lfs budget)"
        r"|missing git lfs artifacts"
        r"|git lfs extension not found"
        r"|batch response: |error downloading object|lfs: .{0,80}(?:failed|error)"
        r"|external filter 'git-lfs",
        "a file in Git LFS cannot be fetched",
        'install git-lfs on the host; set GIT_LFS_SKIP_SMUDGE: "1" in build.env if the build does '
        "not need the files",
    ),
    build(
        "no-ref",
        "git, deployctl",
        r"\(no-ref\)|couldn't find remote ref|not our ref|has no branch or tag|no pull request"
        r"|the server lost it|remote (?:branch|revision) \S{1,200} not found"
        r"|pathspec '[^']{1,200}' "
        r"did not match|reference is not a tree|unknown revision or path|invalid reference:"
        r"|server does not allow request for unadvertised object|failed to (?:find|resolve) "
        r"(?:branch|ref|revision)",
        "the ref or commit is not there (any more)",
        "check build.source: was the branch renamed, deleted or force-pushed?",
    ),
    build(
        "rate-limit",
        "HTTP 429, GitHub",
        r"\b429 (?:too many requests|client error)|status(?: code)?:? \(?429|returned error: 429"
        r"|rate limit(?:ed)?(?: exceeded| by)|api rate limit",
        "the server wants fewer requests",
        "wait and run again, or give a token",
    ),
    build(
        "host-key",
        "OpenSSH",
        r"remote host identification has changed|host key verification failed"
        r"|no \S{1,40} host key is known for",
        "ssh does not accept the server's host key",
        "compare the key with the one that the server's owner publishes; only where they agree, "
        "replace it in known_hosts (ssh-keygen -R HOST)",
    ),
    build(
        "access",
        "git, HTTP 401 and 403, ssh",
        r"authentication failed for '(?P<url>[^']{1,300})'|could not read (?:username|password) for"
        r"|terminal prompts disabled|permission denied \(publickey|returned error: 40[13]\b"
        r"|status(?: code)?:? \(?40[13]\b|\b40[13] (?:client error|forbidden|unauthorized)"
        r"|could not read from remote repository"
        r"|an index url \(\S{1,200}\) returned a 40[13]",
        "the server refuses access",
        "give the host credentials for it: a deploy key, or a token in its git credentials; for an "
        "index name it in build.env",
    ),
    build(
        "repository",
        "git, deployctl",
        r"\(repository\)|repository '[^']{0,300}' (?:not found|does not exist)"
        r"|remote: repository not "
        r"found|does not appear to be a git repository|not a git repository|repository not found",
        "the repository is not there, or refuses us",
        "check build.source.url and the host's access to it",
    ),
    build(
        "no-python",
        "uv",
        r"failed to download .{0,80}/python-build-standalone/",
        "the wanted Python is not there and cannot be downloaded",
        "install it on the host, or change build.python",
    ),
    build(
        "time-out",
        "uv, pip, git, curl",
        r"due to network timeout|operation timed out|read timed out|readtimeouterror"
        r"|connection timed "
        r"out|connecttimeout|timed out after \d+|operation too slow|timeouterror"
        r"|deadline has elapsed"
        r"|gateway time-?out|\(errno 110\)|\(os error 110\)",
        "a server did not answer in time",
        "run again; for a slow line set UV_HTTP_TIMEOUT (uv) or PIP_DEFAULT_TIMEOUT (pip) in "
        "build.env to more seconds",
    ),
    build(
        "damaged-download",
        "uv, pip, git, zip",
        r"hash(?:es)? (?:mismatch|do not match)|do not match the hashes|sha256 mismatch"
        r"|expected hash"
        r"|bad crc|invalid zip|invalid gzip|corrupt deflate stream|bad uncompressed size"
        r"|failed to unzip|badzipfile|index-pack failed|pack is corrupted|object .{0,60}is corrupt"
        r"|incompleteread|unexpected eof while reading|does not match expected",
        "what was fetched is damaged or not what was expected",
        "run again; if it stays, clear the cache (uv cache clean) or ask what the proxy changes",
    ),
    build(
        "no-network",
        "uv, pip, git, cargo",
        r"could not resolve host|couldn't resolve host|dns error|name or service not known"
        r"|temporary "
        r"failure in name resolution|failed to connect|couldn't connect to server"
        r"|connection refused"
        r"|network is unreachable|error sending request|tcp connect error|no route to host"
        r"|\(network\)|connection reset|newconnectionerror|max retries exceeded|rpc failed"
        r"|early eof|remote end hung up|unexpected disconnect while reading|connection broken"
        r"|network failure seems to have happened|spurious network error"
        r"|error decoding response body"
        r"|network connectivity is disabled|failed to (?:fetch|download)[^\n]{0,200}(?:50[0234])"
        r"|returned error: 50\d|\b50[0234] (?:server error|bad gateway|service unavailable)"
        r"|gnutls_handshake|ssl_error_syscall|ssl: (?:wrong_version|unexpected_eof)"
        r"|failed to clone repository",
        "a server could not be reached, or the connection broke",
        "check the host's network, proxy and the source's URL, then run again",
    ),
    build(
        "not-found",
        "HTTP 404, uv",
        r"returned error: 404|status(?: code)?:? \(?404|\b404 (?:client error|not found)"
        r"|http status client error \(404",
        "a file is not where it was looked for (404)",
        "check build.source, build.precompiled_index and the indexes in build.env",
    ),
)
