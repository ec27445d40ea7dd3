"""The tests' own Java programs (harness/conformance/java), compiled together once and kept for as long as they are the same."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import jars, requirements

SOURCES = Path(__file__).parent / "conformance" / "java"


def classes() -> Path:
    """The directory of the compiled programs."""
    sources = sorted(SOURCES.glob("*.java"))
    content = b"".join(source.read_bytes() for source in sources) + jars.KAFKA_VERSION.encode()
    compiled = jars.cache_directory() / f"java-programs-{hashlib.sha256(content).hexdigest()[:16]}"
    if compiled.exists():
        return compiled
    compiler = [requirements.javac(), "-nowarn", "-cp", jars.classpath()]
    compiled.parent.mkdir(parents=True, exist_ok=True)
    with open(compiled.parent / "java-programs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled.exists():
            with tempfile.TemporaryDirectory(dir=compiled.parent) as scratch:
                done = subprocess.run(
                    [*compiler, "-d", f"{scratch}/classes", *map(str, sources)],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=180,
                )
                assert done.returncode == 0, done.stdout + done.stderr
                shutil.move(f"{scratch}/classes", compiled)
    return compiled


def command(program: str, *arguments: str, classpath: str | None = None) -> list[str]:
    """What starts such a program, or one of Kafka's, in a small JVM, with the jars of Kafka 4 or others."""
    runtime = [requirements.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF"]
    return [*runtime, "-cp", f"{classes()}:{classpath or jars.classpath()}", program, *arguments]
