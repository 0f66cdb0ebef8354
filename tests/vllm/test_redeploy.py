"""One good release after another on a real vLLM, and the way back, with a client that polls."""

from __future__ import annotations

import pytest

from tests.hosts.served.client import PollingClient

from .conftest import Demo

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def test_there_and_back(deployed: Demo) -> None:
    assert deployed.first is not None
    good = deployed.first.document["hosts"][0]["release"]
    with PollingClient(deployed.port) as client:
        sets = ("serve.args.max-num-seqs=4", "switch.warm=true")
        other = deployed.up(*(word for one in sets for word in ("--set", one)))
    assert other.code == 0, other.err
    # The process that serves is the one that had imported vLLM beside the other.
    launch = other.step("launch")["evidence"]
    assert launch["plain"] is None
    assert (launch["warm"]["method"], launch["warm"]["cuda"]) == ("spawn", False)
    assert launch["warm"]["reason"] == "not a CUDA build" and launch["warm"]["devices"] == []
    assert other.step("ready")["evidence"]["pid"] == launch["pid"]
    assert launch["read_ahead"]["read"] == launch["read_ahead"]["bytes"] > 0
    (host,) = other.document["hosts"]
    assert host["release"] != good
    # A single question without an answer in time is a busy machine's, and no outage.
    (outage,) = (gap for gap in client.gaps if gap)
    (told,) = host["gaps"]
    assert outage <= told == host["without_service"]
    back = deployed.run("rollback", "--json")
    assert back.code == 0, back.err
    assert back.document["hosts"][0]["release"] == good
    assert deployed.up().document["outcome"] == "unchanged"
    difference = deployed.run("diff", "previous", "current", "--json")
    (compared,) = difference.document["hosts"]
    # What was asked for, and what the server made of it.
    made_from = [c["what"] for c in compared["made_from"]]
    assert made_from == ["launch.--max-num-seqs", "resolved.max_num_seqs"]
    assert compared["packages"] == []
