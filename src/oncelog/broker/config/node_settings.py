"""Settings of who a broker is, where it listens and where its logs are."""

from __future__ import annotations

from oncelog.broker.config.setting import INT, LONG, Setting

NODE_SETTINGS = (
    Setting(name="node.id", default=1, minimum=0, maximum=INT, help="The id of this broker."),
    Setting(
        name="broker.id",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="Another name of node.id; if both are given they are the same.",
    ),
    Setting(
        name="broker.rack", default=None, type="string", help="Where the broker stands: Metadata tells it to clients."
    ),
    Setting(
        name="listeners",
        default="PLAINTEXT://:9092",
        type="list",
        help="Where to listen: NAME://HOST:PORT, one or several, beside those of controller.listener.names, which are left out. "
        "Without a host, or with [::], it is every address of the machine, of IPv4 and IPv6. `--listen HOST:PORT` says the same of "
        "one PLAINTEXT listener.",
    ),
    Setting(
        name="advertised.listeners",
        default=None,
        type="list",
        help="The addresses that clients and other brokers are told, where they are not those of listeners. A listener that is "
        "left out is told to nobody.",
    ),
    Setting(
        name="listener.security.protocol.map",
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        type="string",
        help="Which protocol each listener name stands for: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    Setting(
        name="controller.listener.names",
        default=None,
        type="list",
        help="Listeners of these names are left out: the broker is its own controller.",
    ),
    Setting(
        name="log.dir",
        default=None,
        type="list",
        help="Where the log is kept, if log.dirs has no value. Without either: `--data-dir`, or a temporary directory.",
    ),
    Setting(
        name="log.dirs",
        default=None,
        type="list",
        help="Where the log is kept: one directory or several. A new partition goes to the one that has the fewest, and stays "
        "there until it is moved (`oncelog topics move`). What is kept once for the node is in the first, and stays there however "
        "the list is changed: without that one the broker stops. Another one whose disk fails is offline until the next start, "
        "with its partitions. Every directory must be there when the broker starts. `--data-dir` has precedence.",
    ),
    Setting(
        name="log.dir.reserve.bytes",
        default=8_388_608,
        minimum=0,
        maximum=LONG,
        help="How much room is kept back in each log directory, as the file `oncelog-reserve`, for what ends transactions when "
        "the disk is full. Without any the broker stops, or goes on without the directory, where producers are refused. Kafka "
        "has no such setting.",
        is_own=True,
    ),
)
