"""Loading what the first request of its kind would otherwise wait for, beside the event loop, once the broker is ready."""

from __future__ import annotations

import threading
from importlib import import_module

from oncelog.broker.apis import APIS
from oncelog.wire import prepare

CONSUMER_GROUPS = "oncelog.groups.consumer"


def begin_warm_up() -> None:
    """Import the parts that a start leaves out. What a request asks for meanwhile is imported for it at once."""
    threading.Thread(target=_warm_up, name="oncelog-warm-up", daemon=True).start()


def _warm_up() -> None:
    import_module(CONSUMER_GROUPS)
    for api in APIS.values():
        assert api.handle is not None
        # Most clients have the latest.
        prepare(api.key, api.maximum)
