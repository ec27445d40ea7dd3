"""Plants small changes in the source, one at a time, and says which of them no test finds: `python -m tools.mutants`."""
