"""Settings of connections, and of how much a client may ask for on one."""

from __future__ import annotations

from oncelog.broker.config.setting import INT, LONG, Setting

CONNECTION_SETTINGS = (
    Setting(
        name="socket.request.max.bytes",
        default=104_857_600,
        minimum=1,
        maximum=INT,
        help="The largest request that is read; the connection of a larger one is closed.",
    ),
    Setting(
        name="queued.max.request.bytes",
        default=268_435_456,
        minimum=-1,
        maximum=LONG,
        help="Memory for requests of more than 64 KiB that are being read or answered, for answers to Fetch of more than 64 KiB, "
        "for what clients do not take of others, and for fetch sessions, over all connections. When little is left, answers to "
        "Fetch are shorter; when there is none, they wait, and requests are not read further. Only then connections are closed "
        "whose clients have neither sent nor taken a byte for 2 s. -1 is no limit, which is Kafka's default.",
    ),
    Setting(
        name="socket.send.buffer.bytes",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="The send buffer of a connection; -1 leaves it to the operating system.",
    ),
    Setting(
        name="socket.receive.buffer.bytes",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="The receive buffer of a connection; -1 leaves it to the operating system.",
    ),
    Setting(
        name="socket.listen.backlog.size",
        default=511,
        minimum=1,
        maximum=INT,
        help="Connections that may wait to be accepted.",
    ),
    Setting(
        name="max.connections",
        default=INT,
        minimum=0,
        maximum=INT,
        is_dynamic=True,
        help="Connections that are served at a time; a further one waits until another is closed.",
    ),
    Setting(
        name="max.connections.per.ip",
        default=INT,
        minimum=1,
        maximum=INT,
        is_dynamic=True,
        help="Connections from one address; a further one is closed.",
    ),
    Setting(
        name="connections.max.idle.ms",
        default=600_000,
        minimum=-1,
        maximum=LONG,
        help="A connection on which nothing happens for this time is closed; -1 keeps it.",
    ),
    Setting(
        name="fetch.max.bytes",
        default=57_671_680,
        minimum=1024,
        maximum=INT,
        help="The most bytes that one Fetch answers with.",
    ),
    Setting(
        name="max.incremental.fetch.session.cache.slots",
        default=1000,
        minimum=0,
        maximum=INT,
        help="Fetch sessions that the broker remembers at a time. They have at most a partition for each 2 KiB of "
        "queued.max.request.bytes together.",
    ),
    Setting(
        name="max.request.partition.size.limit",
        default=2000,
        minimum=1,
        maximum=INT,
        help="The most partitions that one DescribeTopicPartitions answers with.",
    ),
)
