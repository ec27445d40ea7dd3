"""Connections to a cluster, what is known of it, and how a call is tried again."""
