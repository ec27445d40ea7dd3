"""Figures: what oncelog does beside Apache Kafka and beside Spark's own Kafka connector, on the same machine in the same run.

`python -m bench` runs them all, `python -m bench.NAME` one of them. They say how fast, and prove nothing.
"""
