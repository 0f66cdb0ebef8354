"""OpenSSH as people have it: texts of failures and pieces of ssh_config from public reports, in
our own small form. Each row names its source."""

from __future__ import annotations

import pytest
from paramiko import SSHException

from deployctl.config.host import SshSettings
from deployctl.errors import AccessRefused, HostError, Unreachable
from deployctl.hosts import ssh_keys, ssh_options
from deployctl.hosts.ssh_config import endpoint, parse
from deployctl.hosts.ways.ssh_program import failure

ENDED = "kex_exchange_identification: Connection closed by remote host\r\n"
NOBODY = "Connection closed by UNKNOWN port 65535\r\n"


@pytest.mark.parametrize(
    ("source", "said", "error", "what", "todo"),
    [
        (
            "oschulz/container-env#17",
            "channel 0: open failed: connect failed: Name or service not known\r\n"
            "stdio forwarding failed\r\n" + ENDED,
            Unreachable,
            "the jump host does not reach gpu",
            "AllowTcpForwarding",
        ),
        (
            "azriel91/ssh_jumper#4",
            "channel 0: open failed: administratively prohibited: open failed\r\n"
            "stdio forwarding failed\r\n" + ENDED + NOBODY,
            Unreachable,
            "the jump host does not reach gpu",
            "AllowTcpForwarding",
        ),
        (
            "bryanpkc/corkscrew#19",
            ENDED + NOBODY,
            Unreachable,
            "ProxyCommand or jump host",
            "by hand",
        ),
        (
            "microsoft/vscode-remote-release#6624",
            "Connection timed out during banner exchange\r\n"
            "Connection to UNKNOWN port 65535 timed out\r\n",
            Unreachable,
            "ProxyCommand or jump host",
            "by hand",
        ),
        (
            "pry0cc/axiom#618",
            "Connection timed out during banner exchange\r\n"
            "Connection to 192.0.2.7 port 2266 timed out\r\n",
            Unreachable,
            "does not answer as an SSH server",
            "something else listens",
        ),
        (
            "kryptco/kr#335",
            'sign_and_send_pubkey: signing failed for RSA "/home/u/.ssh/id_rsa" from agent: '
            "agent refused operation\r\nno such identity: /home/u/.ssh/id_dsa: No such file or "
            "directory\r\nroot@192.0.2.7: Permission denied (publickey).\r\n",
            AccessRefused,
            "the key agent did not sign for 192.0.2.7",
            "ssh-add -l",
        ),
        (
            "sekey/sekey#17",
            "sign_and_send_pubkey: signing failed: communication with agent failed\r\n"
            "u@gpu: Permission denied (publickey,password).\r\n",
            AccessRefused,
            "the key agent did not sign for gpu",
            "ssh-add -l",
        ),
        (
            "meolu/walle-web#956",
            "Permissions 0755 for '/root/.ssh/id_rsa' are too open.\r\nThis private key will be "
            'ignored.\r\nLoad key "/root/.ssh/id_rsa": bad permissions\r\n'
            "Permission denied (publickey).\r\n",
            AccessRefused,
            "others may read it",
            "chmod 600",
        ),
        (
            "wlixcc/SFTP-Deploy-Action#48",
            "exec request failed on channel 0\r\n",
            Unreachable,
            "does not start a program",
            "ForceCommand",
        ),
        (
            "coollabsio/coolify#4173",
            "mux_client_request_session: session request failed: Session open refused by peer\r\n"
            "ControlSocket /s/mux already exists, disabling multiplexing\r\n",
            Unreachable,
            "does not start a program",
            "MaxSessions",
        ),
        (
            "coder/coder#15626",
            'unix_listener: path "/home/u/.ssh/masters/u@long:22.IgeNNGyK" too long for Unix '
            "domain socket\r\n",
            HostError,
            "ControlPath",
            "%C",
        ),
        (
            "hammerlab/ketrew#382",
            'ControlPath "/home/u/control-path.ssh.Ry6rGAMQ" too long for Unix domain socket\r\n',
            HostError,
            "ControlPath",
            "%C",
        ),
        (
            "ansible/ansible#80513",
            "Connection to 192.0.2.7 closed by remote host.\r\n",
            Unreachable,
            "closed the connection",
            "MaxStartups",
        ),
        (
            "ansible/ansible#34853",
            "Connection closed by 192.0.2.7\r\n",
            Unreachable,
            "closed the connection",
            "MaxStartups",
        ),
        (
            "github/backup-utils#304",
            "ssh: connect to host 192.0.2.7 port 22: Connection timed out\r\n",
            Unreachable,
            "no connection to 192.0.2.7 port 22",
            "is up",
        ),
        # A jump host: ssh names it, and it is not the host.
        (
            "a jump host that is down: ssh(1), -J",
            "ssh: connect to host bastion port 22: Connection refused\r\n" + ENDED + NOBODY,
            Unreachable,
            "no connection to bastion port 22",
            "is up",
        ),
        (
            "GoogleCloudPlatform/gke-private-cluster-demo#7",
            "ops@bastion: Permission denied (publickey).\r\n" + ENDED + NOBODY,
            AccessRefused,
            "bastion does not let us in",
            "ssh -v gpu",
        ),
        (
            "the same: its name",
            "ssh: Could not resolve hostname bastion: Name or service not known\r\n"
            + ENDED
            + NOBODY,
            Unreachable,
            "the name bastion cannot be resolved",
            "HostName",
        ),
        (
            "connect(2), EACCES of a firewall: ssh's connect",
            "ssh: connect to host gpu port 22: Permission denied\r\n",
            Unreachable,
            "no connection to gpu port 22",
            "is up",
        ),
        (
            "MaxAuthTries: sshd_config(5)",
            "Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures\r\n"
            "Disconnected from 192.0.2.7 port 22\r\n",
            AccessRefused,
            "too many keys",
            "IdentitiesOnly",
        ),
        (
            "packet.c: ssh_dispatch_run_fatal",
            "ssh_dispatch_run_fatal: Connection to 192.0.2.7 port 22: incorrect signature\r\n",
            Unreachable,
            "ssh to gpu failed",
            "ssh -v gpu",
        ),
    ],
)
def test_what_ssh_said_to_people(
    source: str, said: str, error: type[HostError], what: str, todo: str
) -> None:
    found = failure("gpu", "gpu", said)
    assert found is not None, source
    assert type(found) is error and found.why == said
    assert what in found.what and todo in found.next


def way(*lines: str) -> str:
    judged = ssh_options.judge(parse("\n".join(lines)), {})
    assert [one.option for one in judged if one.verdict == "unknown"] == []
    if ssh_options.refused(judged):
        return "refused"
    return "ssh" if ssh_options.beyond(judged) else "deployctl"


@pytest.mark.parametrize(
    ("source", "lines", "expected"),
    [
        (
            "sotashimozono/obsidian-remote-ssh#433: a tunnel and 1Password's agent",
            (
                "identityagent ~/.1password/agent.sock",
                "proxycommand cloudflared access ssh --hostname %h",
            ),
            "deployctl",
        ),
        (
            "cloudflare/cloudflared#574: short-lived certificates",
            (
                "proxycommand /usr/local/bin/cloudflared access ssh --hostname gpu",
                "certificatefile ~/.cloudflared/gpu-cf_key-cert.pub",
            ),
            "ssh",
        ),
        (
            "kghost in coder/coder#15626: one master for all",
            ("controlpath ~/.ssh/masters/%C", "controlmaster auto", "controlpersist 600"),
            "ssh",
        ),
        (
            "ansible/ansible#71190, fabric/fabric#1795: Kerberos before keys",
            (
                "gssapiauthentication yes",
                "gssapidelegatecredentials yes",
                "preferredauthentications gssapi-with-mic,publickey",
            ),
            "ssh",
        ),
        (
            "the same, Kerberos alone",
            ("gssapiauthentication yes", "pubkeyauthentication no"),
            "ssh",
        ),
        (
            "Kerberos is preferred, and switched off",
            ("gssapiauthentication no", "preferredauthentications gssapi-with-mic"),
            "refused",
        ),
        (
            "Debian's own ssh_config: Kerberos is allowed, keys are the rule",
            ("gssapiauthentication yes", "pubkeyauthentication yes"),
            "deployctl",
        ),
        (
            "GoogleCloudPlatform/gke-private-cluster-demo#7: an alias of gcloud's",
            (
                "hostkeyalias compute.1883",
                "checkhostip no",
                "stricthostkeychecking true",
                "userknownhostsfile /root/.ssh/google_compute_known_hosts",
            ),
            "deployctl",
        ),
        (
            "dev-sec/ssh-baseline#196: OpenSSH of 2018 to 2020",
            (
                "challengeresponseauthentication yes",
                "gssapikexalgorithms gss-group14-sha256-,gss-group16-sha512-",
                "hostbasedkeytypes ssh-ed25519,rsa-sha2-512",
                "ipqos lowdelay throughput",
                "syslogfacility USER",
            ),
            "deployctl",
        ),
        (
            "ssh -G of OpenSSH 7.4, CentOS 7",
            (
                "protocol 2",
                "rhostsrsaauthentication no",
                "rsaauthentication yes",
                "useprivilegedport no",
                "compressionlevel 6",
            ),
            "deployctl",
        ),
        ("rsh's port, ssh_config(5) of OpenSSH 7", ("useprivilegedport yes",), "ssh"),
        (
            "tailscale/tailscale#15164: a command of a person's session",
            ("requesttty true", "remotecommand echo done && exit"),
            "deployctl",
        ),
    ],
)
def test_configurations_of_people(source: str, lines: tuple[str, ...], expected: str) -> None:
    assert way(*lines) == expected, source


@pytest.mark.parametrize(
    ("source", "line", "agent", "command"),
    [
        (
            "ansible-collections/community.general#7435",
            "identityagent ~/Library/Group Containers/2BUA8C4S2C.com.1password/t/agent.sock",
            "/home/u/Library/Group Containers/2BUA8C4S2C.com.1password/t/agent.sock",
            None,
        ),
        (
            "the same page of ssh_config(5): a variable",
            "identityagent $GPG_AGENT_SSH",
            "/run/gpg.ssh",
            None,
        ),
        ("the same: one that is not set", "identityagent $NOT_SET", None, None),
        (
            "drduh/YubiKey-Guide#148",
            "identityagent ${GPG_AGENT_SSH}",
            "/run/gpg.ssh",
            None,
        ),
        (
            "gist berga/f2e52ab5: EC2 through SSM",
            "proxycommand ~/.ssh/aws-ssm.sh %h %r %p ~/.ssh/id_rsa.pub",
            None,
            "~/.ssh/aws-ssm.sh gpu me 22 ~/.ssh/id_rsa.pub",
        ),
        (
            "gist HQarroum/3a7d1bae: the same in one line",
            'proxycommand bash -c "aws ssm start-session --target %h --parameters '
            "'portNumber=%p'\"",
            None,
            "bash -c \"aws ssm start-session --target gpu --parameters 'portNumber=22'\"",
        ),
        (
            "a helper in the home folder that is given a URL",
            "proxycommand ~/bin/connect -H http://proxy:3128 %h %p",
            None,
            "~/bin/connect -H http://proxy:3128 gpu 22",
        ),
        (
            "paramiko/paramiko#2551: the rest is the shell's",
            "proxycommand openssl s_client -connect e:443 -servername %h --cert ~/a.p12 "
            "-pass file:$HOME/p",
            None,
            "openssl s_client -connect e:443 -servername gpu --cert ~/a.p12 -pass file:$HOME/p",
        ),
        (
            "bryanpkc/corkscrew#19",
            "proxycommand corkscrew 127.0.0.1 7890 %h %p",
            None,
            "corkscrew 127.0.0.1 7890 gpu 22",
        ),
    ],
)
def test_agents_and_proxies_of_people(
    source: str, line: str, agent: str | None, command: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    said = f"hostname gpu\nuser me\nport 22\n{line}\n"
    found = endpoint(SshSettings(address="gpu"), said, {"GPG_AGENT_SSH": "/run/gpg.ssh"})
    assert (found.agent, found.proxy_command) == (agent, command), source


def test_an_agent_that_paramiko_could_not_sign_with() -> None:
    # paramiko/paramiko#1574, ReproNim/reproman#563
    said = ssh_keys._short(SSHException("key cannot be used for signing"))
    assert "key agent" in said and "unlock" in said
