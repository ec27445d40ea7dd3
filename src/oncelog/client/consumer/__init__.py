"""The consumer's logic: fetching, positions, committed offsets, lag."""
