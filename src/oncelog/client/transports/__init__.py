"""The only two places of the client that touch the machine: blocking sockets, and asyncio."""
