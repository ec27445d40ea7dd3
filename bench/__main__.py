"""All programs, one after the other.

python -m bench
"""

from bench.arrow import ArrowProgram
from bench.cluster import ClusterProgram
from bench.cluster_failures import ClusterFailuresProgram
from bench.compaction import CompactionProgram
from bench.groups import ManyGroupsProgram, RebalanceProgram
from bench.guarantees import FormatProgram, GuaranteesProgram
from bench.large_answers import EagerReadersProgram, UnreadAnswersProgram
from bench.memory import MemoryProgram
from bench.partitions import PartitionsProgram
from bench.produce_consume import ProduceConsumeProgram
from bench.program import main
from bench.spark import SparkProgram
from bench.start import StartProgram
from bench.transactions import TransactionsProgram
from bench.triggers import LargerTriggersProgram, TriggersProgram

main(
    [
        StartProgram,
        MemoryProgram,
        UnreadAnswersProgram,
        EagerReadersProgram,
        ProduceConsumeProgram,
        TransactionsProgram,
        ClusterProgram,
        ClusterFailuresProgram,
        CompactionProgram,
        GuaranteesProgram,
        FormatProgram,
        RebalanceProgram,
        ManyGroupsProgram,
        ArrowProgram,
        SparkProgram,
        TriggersProgram,
        LargerTriggersProgram,
        PartitionsProgram,
    ]
)
