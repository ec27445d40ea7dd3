"""The options of source and sink: one table, and what their values mean."""
