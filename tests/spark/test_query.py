"""Spark Connect: the source works over it, and a sink is refused before anything is written."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from harness import requirements
from harness.names import unique
from harness.processes import free_port
from oncelog.client import BrokerRefused, Client
from oncelog.spark.query import SENTENCE, QueryError, SparkConnectError, refuse, refuse_remote
from oncelog.spark.session.session import build_session
from oncelog.spark.sink.exactly_once import exactly_once
from tests.spark import topics

HOME = Path(pyspark.__file__).parent
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
COUNT = 100

CLIENT = """
import json, os, sys
from pyspark.sql import SparkSession
from oncelog.spark import exactly_once, run_stateless

remote, servers, source, target, directory = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
options = {"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"}
seen = {"batch": spark.read.format("oncelog").options(**options).load().count()}

stream = spark.readStream.format("oncelog").options(**options).load().selectExpr("cast(value as string) value")
to_files = stream.writeStream.format("parquet").option("path", directory + "/out")
query = to_files.option("checkpointLocation", directory + "/files").trigger(availableNow=True).start()
assert query.awaitTermination(120)
seen["stream"] = spark.read.parquet(directory + "/out").count()

def made_here():
    return exactly_once(topic=target, transactional_id=target, bootstrap_servers=servers)

def write_with_a_sink_of_the_server(rows, batch_id):
    from oncelog.spark import exactly_once
    exactly_once(topic=target, transactional_id=target, bootstrap_servers=servers)(rows, batch_id)

def refusal(function):
    try:
        writer = stream.writeStream.option("checkpointLocation", directory + "/refused")
        writer.foreachBatch(function).trigger(availableNow=True).start().awaitTermination(120)
    except Exception as error:
        return [type(error).__name__, str(error)]

sink = made_here()
seen["sink"] = refusal(sink)
seen["closure"] = refusal(lambda rows, batch_id: sink(rows, batch_id))
seen["has_begun"] = os.path.exists(directory + "/refused")
seen["of_the_server"] = refusal(write_with_a_sink_of_the_server)
try:
    settings = {"from_topic": source, "to_topic": target, "bootstrap_servers": servers, "transactional_id": target}
    run_stateless(spark, lambda rows: rows, once=True, **settings)
except Exception as error:
    seen["stateless"] = [type(error).__name__, str(error)]
print(json.dumps(seen))
"""


@pytest.fixture
def connect_server(tmp_path):
    """A Spark Connect server in a process of its own; the address that a session is given."""
    java, port = requirements.java(), free_port()
    command = [str(HOME / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2]"]
    conf = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
    }
    command += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_HOME", None)
    with (tmp_path / "server.txt").open("wb") as log:
        server = subprocess.Popen([*command, "spark-internal"], env=environment, stdout=log, stderr=log, cwd=tmp_path)
    yield f"sc://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(16)
def test_source_works_over_connect_and_a_sink_is_refused(connect_server, oncelog_broker, tmp_path):
    servers = oncelog_broker.bootstrap_servers
    source, target = topics.create(servers, unique("in")), topics.create(servers, unique("out"))
    topics.produce(servers, source, topics.keyed_records(COUNT))
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect_server, servers, source, target, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["batch"], seen["stream"]) == (COUNT, COUNT)
    for made in ("sink", "closure", "stateless"):
        assert seen[made] == ["SparkConnectError", SENTENCE]
    assert not seen["has_begun"], "a query that starts makes its checkpoint first"
    assert SENTENCE in seen["of_the_server"][1]
    assert topics.values(topics.read(servers, target)) == []
    with Client(servers) as client, pytest.raises(BrokerRefused, match="TRANSACTIONAL_ID_NOT_FOUND"):
        client.describe_transactions([target])


@pytest.mark.parametrize(
    ("environment", "settings"),
    [({"SPARK_REMOTE": "sc://there"}, {}), ({"SPARK_CONNECT_MODE_ENABLED": "1"}, {}), ({}, {"spark.remote": "local"})],
)
def test_session_over_connect_is_not_built(environment, settings, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SparkConnectError):
        build_session(master="local[2]", settings=settings)


def test_session_of_the_drivers_own_is_not_refused():
    refuse_remote({"SPARK_REMOTE": "", "PATH": "/bin"}, {"spark.master": "local"})


def test_sink_stays_in_its_process():
    sink = exactly_once(topic="out", transactional_id="out", bootstrap_servers="localhost:9092")
    with pytest.raises(SparkConnectError):
        pickle.dumps(sink)


class Query:
    """What the sink asks of a query."""

    trigger = "ProcessingTimeTrigger"
    tracks_progress_asynchronously = False
    has_temporary_checkpoint = False

    def __init__(self, **facts):
        for name, value in facts.items():
            setattr(self, name, value)


def test_an_ordinary_query_is_not_refused():
    refuse(Query())
    refuse(Query(trigger="AvailableNowTrigger"))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"trigger": "ContinuousTrigger"}, "ContinuousTrigger.*Use processingTime"),
        ({"trigger": "RealTimeTrigger"}, "RealTimeTrigger.*Use processingTime"),
        ({"tracks_progress_asynchronously": True}, "asyncProgressTrackingEnabled"),
        ({"has_temporary_checkpoint": True}, "checkpointLocation"),
    ],
)
def test_offsets_that_are_logged_after_the_output_or_nowhere_are_refused(facts, words):
    with pytest.raises(QueryError, match=words):
        refuse(Query(**facts))
