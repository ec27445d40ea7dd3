from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.broker import handlers
from oncelog.broker.apis import APIS, CLUSTER_APIS, ServedApi


@pytest.mark.parametrize("api", [*APIS.values(), *CLUSTER_APIS.values()], ids=lambda api: f"{api.module}")
def test_every_api_has_a_handler(api: ServedApi) -> None:
    assert callable(api.handle)


def test_every_handler_serves_an_api() -> None:
    assert handlers.__file__ is not None
    folder = Path(handlers.__file__).parent
    found = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py") if path.stem != "__init__"]
    modules = {".".join(path.parts) for path in found}
    serving = {api.module for api in (*APIS.values(), *CLUSTER_APIS.values())}
    # The others are what several handlers share.
    assert serving <= modules
    assert all(
        not hasattr(__import__(f"oncelog.broker.handlers.{name}", fromlist=["x"]), "handle")
        for name in modules - serving
    )


def test_broker_is_imported_without_the_handlers_that_no_request_has_asked_for() -> None:
    """ApiVersions is the one that every connection begins with."""
    program = "import sys, oncelog.server.main; print(*[name for name in sys.modules if '.handlers.' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["oncelog.broker.handlers.api_versions"]
