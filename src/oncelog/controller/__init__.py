"""The controller of a cluster, as Kafka 3.9's in ZooKeeper mode: events in, writes to ZooKeeper and requests to brokers out."""
