"""`oncelog serve`: one broker as a process, until a signal or an error ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping

from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.server.descriptors import raise_descriptor_limit
from oncelog.server.logs import PROCESS
from oncelog.server.node import Broker
from oncelog.server.process_memory import ShortCollections
from oncelog.server.warm_up import begin_warm_up

said = logging.getLogger(PROCESS)

EXIT_OK, EXIT_FAILED, EXIT_BUG = 0, 5, 70
SWITCH_INTERVAL_S = 0.0005
"""A thread that made a file durable must not wait 5 ms, Python's default, for a busy event loop to let it report."""


def serve(listen: str | None, data_dir: str | None, settings: Mapping[str, str]) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; print one line when it is ready. Return the process's exit status."""
    if not __debug__:
        said.error("python -O switches off the checks that protect the log: start it without -O")
        return EXIT_FAILED
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_descriptor_limit()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_serve(listen, data_dir, settings))
    except (DirectoryInUseError, DiskError) as error:
        said.error("%s", error)
        return EXIT_FAILED


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one, else Python's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _serve(listen: str | None, data_dir: str | None, settings: Mapping[str, str]) -> int:
    broker = Broker(listen=listen, data_dir=data_dir, settings=settings)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, *_hang_up()):
        loop.add_signal_handler(number, stopped.set)
    stop = asyncio.ensure_future(stopped.wait())
    starting = asyncio.ensure_future(broker.start())
    await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may take for ever: a member of a cluster waits for a controller.
        starting.cancel()
        await asyncio.wait((starting,))
        return EXIT_OK
    starting.result()
    ShortCollections().begin()
    try:
        _announce(broker)
    except OSError as error:
        await broker.stop()
        raise OSError(f"cannot write to standard output: {error.strerror}") from error
    begin_warm_up()
    failure = asyncio.ensure_future(broker.failure())
    await asyncio.wait((failure, stop), return_when=asyncio.FIRST_COMPLETED)
    if not failure.done():
        failure.cancel()
        await broker.stop()
    return EXIT_OK if broker.error is None else _report(broker.error)


def _hang_up() -> tuple[signal.Signals, ...]:
    """The signal of a terminal that is closed, as Java has it: a clean stop, but not where nohup has it ignored."""
    return () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)


def _announce(broker: Broker) -> None:
    report = broker.start_report
    where = ", ".join(broker.log_dirs) or "a temporary directory"
    repaired = ""
    if not report.was_clean and report.bytes_read:
        repaired = (
            f" (after a crash: {report.bytes_read} bytes of {report.partitions_read} partitions read again, "
            f"{report.bytes_cut} torn bytes cut off)"
        )
    for damage in report.damage:
        said.warning("a partition is offline: %s", damage)
    sys.stdout.write(f"oncelog is ready on {broker.whereabouts}, data in {where}{repaired}\n")
    sys.stdout.flush()


def _report(error: BaseException) -> int:
    """The broker stops without closing anything: what is not known to be right must not be marked clean."""
    if isinstance(error, DiskError):
        said.error("%s", error)
        return EXIT_FAILED
    said.critical(
        "a bug stopped the broker; what was acknowledged is safe, and the next start repairs the rest", exc_info=error
    )
    return EXIT_BUG
