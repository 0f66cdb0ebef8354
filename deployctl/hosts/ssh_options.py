"""What becomes of each option that `ssh -G` prints: a table, and what it says of a host. Pure.

Source: ssh_config(5) of OpenSSH 9.2 to 10. An option is honoured by our own connection (paramiko);
harmless, since it changes nothing about how we reach a host or whom we trust; beyond paramiko, so
that the `ssh` program is the transport; or refused, where no host could be reached with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Options = Mapping[str, Sequence[str]]
"""The output of `ssh -G`: values by key in lower case."""
Verdict = Literal["honoured", "harmless", "refused", "unknown"]

HONOURED = frozenset(
    [
        "host",
        "hostname",
        "user",
        "port",
        "identityfile",
        "identitiesonly",
        "identityagent",
        "proxyjump",
        "proxycommand",
        "hostkeyalias",
        "userknownhostsfile",
        "globalknownhostsfile",
        "hashknownhosts",
        "canonicaldomains",
        "canonicalizefallbacklocal",
        "canonicalizehostname",
        "canonicalizemaxdots",
        "canonicalizepermittedcnames",
        "include",
        "match",
        "tag",
    ]
)
HARMLESS = {
    "nothing is asked or shown": "batchmode numberofpasswordprompts passwordauthentication "
    "kbdinteractiveauthentication kbdinteractivedevices challengeresponseauthentication "
    "visualhostkey fingerprinthash loglevel logverbose syslogfacility addkeystoagent "
    "usekeychain enableescapecommandline escapechar askpassgui",
    "no session of a person": "requesttty remotecommand sessiontype stdinnull "
    "forkafterauthentication sendenv setenv permitlocalcommand localcommand xauthlocation "
    "obscurekeystroketiming versionaddendum refuseconnection channeltimeout",
    "nothing is forwarded": "clearallforwardings dynamicforward localforward remoteforward "
    "exitonforwardfailure forwardagent forwardx11 forwardx11timeout forwardx11trusted "
    "gatewayports permitremoteopen streamlocalbindmask streamlocalbindunlink tunnel tunneldevice",
    "limits and signs of life are our own": "connecttimeout connectionattempts "
    "serveralivecountmax serveraliveinterval tcpkeepalive rekeylimit ipqos compression",
    "host keys are checked strictly whatever it says": "stricthostkeychecking checkhostip "
    "updatehostkeys nohostauthenticationforlocalhost warnweakcrypto requiredrsasize rsaminsize "
    "ignoreunknown",
    "no key of another kind is offered": "gssapiauthentication gssapidelegatecredentials "
    "gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapitrustdns "
    "gssapiclientidentity gssapiserveridentity hostbasedacceptedalgorithms hostbasedkeytypes "
    "enablesshkeysign",
    "OpenSSH has left it behind": "rsaauthentication rhostsrsaauthentication compressionlevel "
    "cipher useroaming",
}
_HARMLESS = {key: why for why, keys in HARMLESS.items() for key in keys.split()}
ALGORITHMS = [
    "ciphers",
    "macs",
    "kexalgorithms",
    "hostkeyalgorithms",
    "pubkeyacceptedalgorithms",
    "pubkeyacceptedkeytypes",
    "casignaturealgorithms",
]
"""Lists that matter where they are not OpenSSH's own."""


def _set(*neutral: str) -> Callable[[str], bool]:
    return lambda value: value.lower() not in ("", "none", *neutral)


PROGRAM: dict[str, tuple[Callable[[str], bool], str]] = {
    "certificatefile": (_set(), "paramiko takes a certificate only from beside its key"),
    "revokedhostkeys": (_set(), "paramiko reads no list of revoked keys"),
    "proxyusefdpass": (_set("no", "false"), "paramiko takes no connection from a descriptor"),
    "addressfamily": (_set("any"), "paramiko takes any address family"),
    "bindaddress": (_set(), "paramiko binds to no address"),
    "bindinterface": (_set(), "paramiko binds to no interface"),
    "controlmaster": (_set("false", "no"), "paramiko shares no connection"),
    "controlpath": (_set(), "paramiko shares no connection"),
    "controlpersist": (_set("no", "false"), "paramiko shares no connection"),
    "knownhostscommand": (_set(), "paramiko runs no KnownHostsCommand"),
    "verifyhostkeydns": (_set("no", "false"), "paramiko asks no DNS for keys"),
    "hostbasedauthentication": (_set("no", "false"), "paramiko has no host-based access"),
    "pkcs11provider": (_set(), "paramiko uses no PKCS#11 token"),
    "useprivilegedport": (_set("no", "false"), "paramiko takes no privileged port"),
    "protocol": (_set("2"), "paramiko speaks protocol 2"),
    "securitykeyprovider": (_set("internal", "$ssh_sk_provider"), "paramiko uses no FIDO token"),
}
"""Options beyond paramiko: whether a value is such, and why."""


KEYLESS = {
    "gssapi-with-mic": "gssapiauthentication",
    "gssapi-keyex": "gssapikeyexchange",
    "hostbased": "hostbasedauthentication",
}
"""Authentication methods without a prompt or a key of the user, and the options that allow them."""


@dataclass(frozen=True)
class Judged:
    """What becomes of one option; `by` is who honours it: us, or the `ssh` program."""

    option: str
    value: str
    verdict: Verdict
    why: str = ""
    by: Literal["deployctl", "ssh", ""] = ""

    def tell(self) -> dict[str, Any]:
        """For a document."""
        return asdict(self)


def judge(options: Options, defaults: Options) -> list[Judged]:
    """Every option of `ssh -G`, against what OpenSSH prints without any configuration."""
    keyless = _keyless(options)
    return [_one(key, value, defaults, keyless) for key in options for value in options[key]]


def _keyless(options: Options) -> frozenset[str]:
    """The ways in that need neither a key of the user nor an answer: Kerberos, host-based."""
    preferred = options.get("preferredauthentications", [None])[0]
    on = {
        method
        for method, option in KEYLESS.items()
        if options.get(option, ["no"])[0].lower() in ("yes", "true")
    }
    return frozenset(on if preferred is None else on & set(preferred.lower().split(",")))


def _one(key: str, value: str, defaults: Options, keyless: frozenset[str]) -> Judged:
    refusal = _refusal(key, value)
    if keyless and (refusal or key == "preferredauthentications"):
        why = f"paramiko is given keys alone, {' or '.join(sorted(keyless))} lets in without one"
        return Judged(key, value, "honoured", why, "ssh")
    if refusal:
        return Judged(key, value, "refused", refusal)
    if key in PROGRAM:
        beyond, why = PROGRAM[key]
        if beyond(value):
            return Judged(key, value, "honoured", why, "ssh")
        return Judged(key, value, "harmless", "it asks for nothing")
    if key in ALGORITHMS:
        if list(defaults.get(key, [value])) == [value]:
            return Judged(key, value, "harmless", "OpenSSH's own list")
        return Judged(key, value, "honoured", "paramiko has lists of its own", "ssh")
    if key in HONOURED:
        return Judged(key, value, "honoured", "", "deployctl")
    if key in _HARMLESS:
        return Judged(key, value, "harmless", _HARMLESS[key])
    if key in ("pubkeyauthentication", "preferredauthentications"):
        return Judged(key, value, "honoured", "", "deployctl")
    return Judged(key, value, "unknown", "it is not in our table")


def _refusal(key: str, value: str) -> str:
    """Why no host could be reached with an option; empty where that is not so."""
    low = value.lower()
    if key == "pubkeyauthentication" and low in ("no", "false"):
        return "PubkeyAuthentication no: only keys are offered, since there is no prompt"
    if key == "preferredauthentications" and "publickey" not in low.split(","):
        return f"PreferredAuthentications {value}: publickey is not among them"
    return ""


def beyond(judged: Sequence[Judged]) -> list[Judged]:
    """The options for which the `ssh` program must be the transport."""
    return [one for one in judged if one.by == "ssh"]


def refused(judged: Sequence[Judged]) -> list[Judged]:
    """The options with which the host is not even tried."""
    return [one for one in judged if one.verdict == "refused"]
