"""The documentation page of the metrics, written from their table."""

from __future__ import annotations

from oncelog.cluster.metrics import METRICS, Metric

_INTRODUCTION = """\
# Metrics of a broker in a cluster

A member of a cluster that has the setting `prometheus.listener=HOST:PORT` answers `GET http://HOST:PORT/metrics` in the text format
of Prometheus, from when it is ready until it stops. Everybody who reaches the address may read them: there is neither TLS nor a
password, so it belongs where only Prometheus is. A broker that is alone has no metrics.

```sh
oncelog serve --listen 10.0.0.1:9092 --data-dir /var/lib/oncelog --set prometheus.listener=10.0.0.1:9404 \\
  --set zookeeper.connect=10.0.0.9:2181/chroot --set broker.id=1
curl http://10.0.0.1:9404/metrics
```

Each metric is one of Apache Kafka 3.9 with its meaning. Its name is what the JMX exporter makes of Kafka's MBean by the rules of
its example for Kafka, so dashboards and alerts for Kafka find it. Where Kafka has quantiles of times, there are their sum and count
here. Counters begin at 0 with the broker.

Alert on:

- `kafka_server_replicamanager_underminisrpartitioncount` or `kafka_controller_kafkacontroller_offlinepartitionscount` above 0:
  writes are refused.
- `kafka_server_replicamanager_underreplicatedpartitions` above 0 for longer than a restart takes.
- `kafka_controller_kafkacontroller_activecontrollercount` whose sum over all brokers is not 1.
- `kafka_controller_controllerstats_uncleanleaderelections_total` that grows: records are lost.

| metric | type | Kafka's MBean | what it says |
|---|---|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    return _INTRODUCTION + "".join(map(_row, METRICS))


def _row(metric: Metric) -> str:
    return f"| `{metric.name}` | {metric.kind} | `{metric.mbean}` | {metric.help} |\n"
