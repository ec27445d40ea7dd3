"""Record batches to Arrow and back. No record becomes a Python object on the way.

Needs the extra [spark]. Importing this loads numba; the loops themselves are in `oncelog.records.kernels`.
"""

from oncelog.records.from_arrow import arrow_to_batches
from oncelog.records.to_arrow import HEADERS_TYPE, batches_to_arrow, record_schema

__all__ = ["HEADERS_TYPE", "arrow_to_batches", "batches_to_arrow", "record_schema"]
