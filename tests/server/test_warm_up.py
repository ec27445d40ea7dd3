"""What a broker loads beside its first requests."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys
from oncelog.server.warm_up import warm_up

warm_up()
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("oncelog.broker.handlers.")))
"""


def test_warm_up_loads_what_clients_ask_for_and_leaves_the_rest_to_who_needs_it() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert not ended.stderr
    loaded = set(ended.stdout.split())
    assert loaded >= {"produce", "fetch", "end_txn", "join_group", "consumer_group_heartbeat", "offset_commit"}
    assert not loaded & {"create_acls", "describe_log_dirs", "alter_configs", "delete_groups"}
