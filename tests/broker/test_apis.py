from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.broker import broker, handlers
from oncelog.broker.apis import APIS, ServedApi
from oncelog.broker.broker import BrokerCore
from oncelog.broker.journal_metadata import JournalMetadata
from oncelog.broker.request import Request
from oncelog.cluster import handlers as cluster_handlers
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.cluster.zookeeper_metadata import ZooKeeperMetadata

ROWS = [*APIS.values(), *CLUSTER_APIS.values()]


@pytest.mark.parametrize("api", ROWS, ids=lambda api: f"{api.module}")
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


def named_while_checked(module: ModuleType) -> dict[str, Any]:
    """The names of a module, with what it imports for the types alone."""
    names = dict(vars(module))
    for node in ast.parse(Path(str(module.__file__)).read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), str(module.__file__), "exec"), names)
    return names


def parts_of(metadata: type) -> dict[str, Any]:
    """The types of the parts that handlers may take."""
    behind = get_type_hints(metadata, named_while_checked(sys.modules[metadata.__module__]))
    return behind | get_type_hints(BrokerCore, named_while_checked(broker))


ALONE, MEMBER = parts_of(JournalMetadata), parts_of(ZooKeeperMetadata)


@pytest.mark.parametrize("api", ROWS, ids=lambda api: f"{api.package}.{api.module}")
def test_handler_takes_the_request_and_parts_of_the_broker_of_their_own_types(api: ServedApi) -> None:
    handle = api.handle
    hints = get_type_hints(handle, named_while_checked(import_module(handle.__module__)))
    request, *names = signature(handle).parameters
    assert hints.pop(request) is Request
    for apis, parts in ((APIS, ALONE), (CLUSTER_APIS, MEMBER)):
        if api in apis.values():
            assert {name: hints[name] for name in names} == {name: parts[name] for name in names}


def test_broker_that_is_alone_has_every_part_that_its_handlers_take() -> None:
    alone = BrokerInMemory(SteppedDisk(), ManualClock()).core
    for api in APIS.values():
        assert callable(api.bind((alone, alone.metadata)))
