"""Judges of what came out of a log: `check` finds anomalies in a history, `compare` compares an output with its input.

Both are given what was seen. Neither opens a file nor asks a broker.
"""
