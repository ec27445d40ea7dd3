"""Durations as the codec hands them over."""

from __future__ import annotations

from datetime import timedelta

MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    return duration // MILLISECOND
