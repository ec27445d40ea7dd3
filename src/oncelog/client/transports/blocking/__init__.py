"""Blocking sockets, and the client that works on the calling thread."""
