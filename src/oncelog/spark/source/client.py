"""The connections of driver and tasks to the input's cluster, made as the options say."""

from __future__ import annotations

from oncelog.client import Client, Fetcher
from oncelog.spark.options.source_options import ConnectionOptions, FetchOptions


def open_client(connection: ConnectionOptions) -> Client:
    return Client(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        request_timeout_ms=connection.request_timeout_ms,
        connect_timeout_ms=connection.connect_timeout_ms,
        call_timeout_ms=connection.api_timeout_ms,
        security=connection.security,
    )


def open_fetcher(connection: ConnectionOptions, fetch: FetchOptions) -> Fetcher:
    return Fetcher(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        isolation_level=fetch.isolation_level,
        min_bytes=fetch.min_bytes,
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
        partition_bytes=fetch.partition_bytes,
        request_timeout_ms=connection.request_timeout_ms,
        connect_timeout_ms=connection.connect_timeout_ms,
        call_timeout_ms=connection.api_timeout_ms,
        security=connection.security,
    )
