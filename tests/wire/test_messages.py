"""Finding the classes of messages, which are imported when the first of their kind is needed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import threading

from oncelog.broker.apis import APIS
from oncelog.wire import message_class

sys.setswitchinterval(1e-6)
both = threading.Barrier(2)
errors = []

def load(kind):
    for api in APIS.values():
        for version in range(api.minimum, api.maximum + 1):
            both.wait()
            try:
                message_class(api.key, version, kind)
            except BaseException as error:
                errors.append(error)

threads = [threading.Thread(target=load, args=(kind,)) for kind in ("request", "response")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(errors), errors[:1])
"""


def test_request_and_answer_that_two_threads_need_first_at_the_same_moment_are_there_for_both():
    """A package of kio imports both, and each of them its package: Python ends one of two imports that wait for each other."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "0 []\n"
