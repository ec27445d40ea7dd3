"""Commands for a cluster: `oncelog cluster` and `oncelog zookeeper`."""
