"""An exactly-once event log that speaks the Kafka protocol, and exactly-once PySpark pipelines on it."""
