"""Three nodes, of which the first is parted from the others."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from oncelog.client.net.flows import Send
from oncelog.client.requests import FIND_COORDINATOR, ApiRequest
from oncelog.client.values import Address
from oncelog.wire import ErrorCode
from tests.client.scripted import SETTINGS, ScriptedTransport

NODES = tuple(Address(name, 9092) for name in ("parted", "one", "other"))
THREE = replace(SETTINGS, bootstrap=NODES)


class PartedCoordinator(ScriptedTransport):
    """The first node has lost the others, and does not hear that another one coordinates since."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.asked = NODES[0]

    def _perform(self, effect):
        if isinstance(effect, Send):
            self.asked = effect.address
        return super()._perform(effect)

    def answer(self, request: ApiRequest) -> SimpleNamespace:
        if request.api is FIND_COORDINATOR:
            coordinator = NODES[0] if self.asked == NODES[0] else NODES[1]
            return SimpleNamespace(error_code=ErrorCode.none, host=coordinator.host, port=coordinator.port)
        is_coordinator = self.asked == NODES[1]
        return SimpleNamespace(error_code=ErrorCode.none if is_coordinator else ErrorCode.not_coordinator)
