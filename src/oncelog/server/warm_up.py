"""Imports the code of frequent requests beside the event loop, so that the first of each kind does not wait for it.

The first requests of fourteen kinds took 24 ms together, and 79 ms without it; each keeps all others waiting meanwhile. What
administrators ask for is loaded when they do: it took 3 of the 45 MB of an idle broker.

Not at once: a broker that a test starts has first to serve that test, and is often gone before the rest is of use.
"""

from __future__ import annotations

import threading
from importlib import import_module

from oncelog.broker.apis import APIS
from oncelog.server.process_memory import keep_freed_memory
from oncelog.wire import prepare

WHAT_CLIENTS_ASK = (
    "ApiVersions",
    "Metadata",
    "Produce",
    "Fetch",
    "ListOffsets",
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
)
"""In the order in which a client asks."""
CONSUMER_GROUPS = "oncelog.groups.consumer"
BEGIN_S = 1.0


def begin_warm_up() -> None:
    """Import the parts that a start leaves out. What a request asks for meanwhile is imported for it at once."""
    thread = threading.Timer(BEGIN_S, warm_up)
    thread.name, thread.daemon = "oncelog-warm-up", True
    thread.start()


def warm_up() -> None:
    keep_freed_memory()
    import_module(CONSUMER_GROUPS)
    served = {api.name: api for api in APIS.values()}
    for name in WHAT_CLIENTS_ASK:
        api = served[name]
        assert api.handle is not None
        # Most clients have the latest.
        prepare(api.key, api.maximum)
