"""asyncio's streams, and the client that is awaited."""
