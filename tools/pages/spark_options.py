"""The documentation page of the options, written from their rows."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.spark.options.rows import SINK_ROWS, SOURCE_ROWS
from oncelog.spark.options.table import Option, Treatment

_INTRODUCTION = """\
# Options of source and sink

`format("oncelog")` takes the options of Spark's Kafka source and sink, and the settings of Kafka's Java consumer and producer with
the prefix `kafka.`. The sink takes them also as `exactly_once(options={...})` and `write_exactly_once(options={...})`. Case does
not count. Every option of Spark's guide and every setting of the two clients of Kafka 4.3.1 is in one of the three tables. Any
other name is an error, and so is a wrong value. The source says most of them at `load()`, and those that depend on whether a stream
or a batch is read at `start()` or in the first action.

## Supported

| option | default | for | what it does |
|---|---|---|---|
"""

_REFUSED = """
## Refused

Each is an error that says why.

| option | for | why |
|---|---|---|
"""

_INERT = """
## Accepted without effect

They tune Kafka's Java clients. One warning names those that a program sets. Settings of the session that Spark's
guide names (`spark.kafka.consumer.cache.*` and the like) are not seen, and change nothing either.

| option | for | why |
|---|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "".join(
        (
            _INTRODUCTION,
            _rows(
                (_code(row.name), _code(row.default), row.scope.value, row.meaning) for row in _of(Treatment.SUPPORTED)
            ),
            _REFUSED,
            _rows((_code(row.name), row.scope.value, row.meaning) for row in _of(Treatment.REFUSED)),
            _INERT,
            _rows((_code(row.name), row.scope.value, row.meaning) for row in _of(Treatment.INERT)),
        )
    )


def _of(treatment: Treatment) -> list[Option]:
    return [row for row in (*SOURCE_ROWS, *SINK_ROWS) if row.treatment is treatment]


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _code(text: str | None) -> str:
    """Names and values as code; a default that takes words to say, as it is."""
    if not text:
        return ""
    return text if " " in text else f"`{text}`"
