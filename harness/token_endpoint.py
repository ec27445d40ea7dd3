"""An authorization server on loopback, which gives tokens that nobody has signed: Kafka takes them where it is told no better."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

LIFE_S = 3600
ISSUED_BEFORE_S = 60
"""Kafka refuses a token that was issued in its future, be it by a clock that was set back in between."""


class TokenEndpoint(ThreadingHTTPServer):
    """Gives a token for one client, and counts how many it gave."""

    daemon_threads = True

    def __init__(self, client_id: str, client_secret: str, told_life_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.credentials = f"{client_id}:{client_secret}"
        self.client_id = client_id
        self.told_life_s = told_life_s
        self.given: list[dict[str, list[str]]] = []
        self.scheme = "http"
        self.refusal: tuple[int, dict[str, str]] | None = None
        """A status and headers to answer with instead."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}/token"

    def encrypt(self, certificate_file: Path) -> None:
        """Speak TLS from now on, with the certificate and key in this file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate_file)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"


class _Answer(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.server.refusal is not None:
            self._answer(self.server.refusal[0], {}, self.server.refusal[1])
            return
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic" or b64decode(credentials).decode() != self.server.credentials:
            self._answer(401, {"error": "invalid_client", "error_description": "no such client"})
        elif fields.get("grant_type") != ["client_credentials"]:
            self._answer(400, {"error": "unsupported_grant_type"})
        else:
            self.server.given.append(fields)
            token = unsigned_token(self.server.client_id, LIFE_S)
            self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": self.server.told_life_s})

    def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def unsigned_token(subject: str, life_s: float) -> str:
    """A JSON web token without a signature (RFC 7519 §6)."""
    now_s = time.time()
    parts = {"alg": "none"}, {"sub": subject, "iat": now_s - ISSUED_BEFORE_S, "exp": now_s + life_s, "scope": "kafka"}
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@contextmanager
def token_endpoint(client_id: str, client_secret: str, told_life_s: float = LIFE_S) -> Iterator[TokenEndpoint]:
    """`told_life_s` is for how long a token is good by the answer; by itself, for an hour."""
    with TokenEndpoint(client_id, client_secret, told_life_s) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
