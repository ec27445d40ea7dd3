"""Carries out the decisions of the coordinators: appends their records, waits, and writes markers."""
