"""Arrow arrays out of buffers.

`pa.array` and `pa.scalar` import pandas to look at what they are given: a quarter of a second in each of Spark's workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def integer_array(values: NDArray[Any] | Sequence[int], kind: pa.DataType) -> pa.Array:
    """Numbers of the Arrow type `kind`, a signed integer. Shares the memory of a numpy array that is of this type already."""
    numbers = np.ascontiguousarray(values, f"int{kind.bit_width}")
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers.data)], 0)


def binary_array(items: Sequence[bytes]) -> pa.Array:
    """Bytes, at most 2 GiB in all."""
    offsets = np.zeros(len(items) + 1, np.int32)
    np.cumsum([len(item) for item in items], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(items), [None, pa.py_buffer(offsets.data), pa.py_buffer(b"".join(items))]
    )


def repeated_text(text: str, count: int) -> pa.Array:
    """The same string `count` times."""
    content = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(content))
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(content * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers, 0)
