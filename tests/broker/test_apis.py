from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, get_args, get_type_hints

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from oncelog.broker import broker, handlers
from oncelog.broker.apis import APIS, ServedApi
from oncelog.broker.broker import BrokerCore
from oncelog.broker.request import Request
from oncelog.cluster import handlers as cluster_handlers
from oncelog.cluster.apis import CLUSTER_APIS

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


PARTS = get_type_hints(BrokerCore, named_while_checked(broker))


@pytest.mark.parametrize("api", ROWS, ids=lambda api: f"{api.package}.{api.module}")
def test_handler_takes_the_request_and_parts_of_the_broker_of_their_own_types(api: ServedApi) -> None:
    handle = api.handle
    hints = get_type_hints(handle, named_while_checked(import_module(handle.__module__)))
    request, *names = signature(handle).parameters
    parts = {name: PARTS[name] for name in names}
    if api.package == cluster_handlers.__name__:
        parts = {name: type_of_member(part) for name, part in parts.items()}
    assert hints.pop(request) is Request
    assert {name: hints[name] for name in names} == parts


def type_of_member(part: Any) -> Any:
    """The type that a part has in a member of a cluster: a broker that is alone may have none there."""
    return get_args(part)[0] if isinstance(part, UnionType) else part


def test_broker_that_is_alone_has_every_part_that_its_handlers_take() -> None:
    alone = BrokerInMemory(SteppedDisk(), ManualClock()).core
    for api in APIS.values():
        assert callable(api.bind(alone))
