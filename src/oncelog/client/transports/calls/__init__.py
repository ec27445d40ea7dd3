"""The calls of users: written once, for asyncio and for threads."""
