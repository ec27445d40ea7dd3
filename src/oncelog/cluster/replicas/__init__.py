"""Replicas of this broker: what the controller orders, leading and following, and changes of in-sync sets."""
