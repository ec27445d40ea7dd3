"""Whether what was written since the machine booted can be relied on, after a power cut too."""

from __future__ import annotations

from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.journal import BootTrusted, Journal


class Boot:
    """While a boot is not trusted no stop is a clean one: the next start has to fence every producer again."""

    def __init__(self, boot_id: str, journal: Journal, transactions: Transactions, *, is_trusted: bool) -> None:
        self.is_trusted = is_trusted
        self._id = boot_id
        self._journal = journal
        self._transactions = transactions

    async def trust(self) -> None:
        """Write down that nothing since this boot is lost; after a power cut, once every producer is fenced."""
        if not self.is_trusted:
            await self._transactions.fence_all()
            if not self._transactions.knows_every_id():
                # Those whose log is damaged are fenced by the start that can read it: until then no stop is a clean one.
                return
        self.is_trusted = True
        await self._journal.write([BootTrusted(boot_id=self._id)])
