"""Where a directory is, as Hadoop's Path reads it, and so Spark."""

from __future__ import annotations

LOCAL = ("", "file")


def scheme_and_path(location: str) -> tuple[str, str]:
    """A scheme is what stands before a colon that no slash precedes, and an authority what follows on two slashes.

    The rest is the path as it is: a Path has neither query nor fragment, and nothing in it is escaped.
    """
    head, colon, rest = location.partition(":")
    scheme, path = (head, rest) if colon and "/" not in head else ("", location)
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return scheme, path
