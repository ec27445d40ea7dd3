"""The producer's logic: batches, queues to the leaders, sequences, transactions."""
