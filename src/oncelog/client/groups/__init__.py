"""Membership of a consumer group, in the classic protocol and in that of KIP-848."""
