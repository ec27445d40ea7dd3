"""Topics and partitions, what changes them, and what is on disk beside the logs."""
