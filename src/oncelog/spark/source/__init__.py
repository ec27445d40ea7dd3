"""The streaming and the batch source."""
