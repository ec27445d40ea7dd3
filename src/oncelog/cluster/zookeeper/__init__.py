"""ZooKeeper as a cluster's metadata store: what may be asked of it, and what Kafka keeps there."""
