from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from oncelog.broker import handlers
from oncelog.broker.apis import APIS, ServedApi
from oncelog.cluster import handlers as cluster_handlers
from oncelog.cluster.apis import CLUSTER_APIS


@pytest.mark.parametrize("api", [*APIS.values(), *CLUSTER_APIS.values()], ids=lambda api: f"{api.module}")
def test_every_api_has_a_handler(api: ServedApi) -> None:
    assert callable(api.handle)


def test_every_handler_serves_an_api() -> None:
    serving = {(api.package, api.module) for api in (*APIS.values(), *CLUSTER_APIS.values())}
    found = {
        (package.__name__, path.stem)
        for package in (handlers, cluster_handlers)
        for path in Path(str(package.__file__)).parent.glob("*.py")
        if path.stem != "__init__"
    }
    # The others are what several handlers share.
    assert serving <= found
    assert all(not hasattr(import_module(".".join(other)), "handle") for other in found - serving)


def test_broker_is_imported_without_the_handlers_that_no_request_has_asked_for() -> None:
    """ApiVersions is the one that every connection begins with."""
    program = "import sys, oncelog.server.main; print(*[name for name in sys.modules if '.handlers.' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["oncelog.broker.handlers.api_versions"]
