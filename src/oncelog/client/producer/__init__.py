"""The producer's logic: batches, lanes to the leaders, sequences, transactions."""
