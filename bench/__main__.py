"""All programs, one after the other.

python -m bench
"""

from bench.arrow import ArrowProgram
from bench.groups import ManyGroupsProgram, RebalanceProgram
from bench.memory import MemoryProgram
from bench.produce_consume import ProduceConsumeProgram
from bench.program import main
from bench.spark import SparkProgram
from bench.start import StartProgram
from bench.transactions import TransactionsProgram

main(
    [
        StartProgram,
        MemoryProgram,
        ProduceConsumeProgram,
        TransactionsProgram,
        RebalanceProgram,
        ManyGroupsProgram,
        ArrowProgram,
        SparkProgram,
    ]
)
