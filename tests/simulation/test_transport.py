"""The transport of the simulated clients."""

from __future__ import annotations

from random import Random

from oncelog.client.net.flows import Now, Wait
from oncelog.client.net.settings import ClientSettings
from oncelog.simulation.events import EventQueue, Process
from oncelog.simulation.network import Network
from oncelog.simulation.on_the_way import OnTheWay
from oncelog.simulation.transport import SimulatedTransport


def test_who_waits_for_no_time_again_and_again_does_not_stop_the_clock() -> None:
    queue = EventQueue()
    process = Process(queue, "client", lambda error: None)
    on_the_way = OnTheWay("client", lambda error: None)
    transport = SimulatedTransport(process, Network(queue, Random(1)), ClientSettings(()), Random(1), on_the_way)
    ends: list[float] = []

    async def play() -> float:
        while await Now() < 1:
            await Wait((), 0.0)
        return await Now()

    transport.run(play(), lambda value, _: ends.append(value))
    while queue.step(10) is not None:
        pass
    assert ends
    assert 1 <= ends[0] < 1.1
