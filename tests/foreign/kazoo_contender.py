"""kazoo's Lock as a contender, with the arguments, output lines and exit statuses of CuratorContender.java.

Arguments: HOSTS LOCK_PATH COUNTER_PATH CONTENDERS ROUNDS HOLD_MS NAMES
HOLD_MS may be "line": the (one) contender holds the lock until it reads a line.
NAMES sets the names of kazoo's nodes, and which other nodes kazoo waits for:
    curator    `-lock-`, and it waits for all nodes with that name: with this setting it can share a path
    kazoo      `__lock__`, its default: it waits for no other implementation's nodes
    both       `__lock__`, and it waits for nodes with either name: kazoo's option `extra_lock_patterns`
"""

import logging
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock


class CuratorsLock(Lock):
    """kazoo's lock with Curator's names."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def both(client, path):
    """kazoo's lock with its own names, which also waits for the nodes of others."""
    return Lock(client, path, extra_lock_patterns=["-lock-"])


KINDS = {"curator": CuratorsLock, "kazoo": Lock, "both": both}


def contend(name, client, lock, counter, rounds, hold):
    for _ in range(rounds):
        with lock:
            start = now()
            value = int(client.get(counter)[0]) + 1
            if hold is None:
                sys.stdin.readline()
            else:
                time.sleep(hold)
            client.set(counter, str(value).encode())
            say("held", name, value, start, now())


def now():
    """ms since 1970, rounded down like in the other contenders."""
    return time.time_ns() // 1_000_000


def say(*words):
    with PRINTING:
        print(*words, flush=True)


PRINTING = threading.Lock()


def main():
    if len(sys.argv) != 8 or sys.argv[7] not in KINDS:
        print("usage: " + __doc__, file=sys.stderr)
        return 2
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    hosts, path, counter = sys.argv[1:4]
    contenders, rounds = map(int, sys.argv[4:6])
    hold = None if sys.argv[6] == "line" else int(sys.argv[6]) / 1000
    kind = KINDS[sys.argv[7]]

    clients = [KazooClient(hosts=hosts) for _ in range(contenders)]
    for client in clients:
        client.start()
    say("ready")
    if sys.stdin.readline() != "go\n":
        print('expected the line "go" on stdin', file=sys.stderr)
        return 2

    failures = []

    def run(name, client):
        try:
            contend(name, client, kind(client, path), counter, rounds, hold)
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=one) for one in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.stop()
        client.close()
    if failures:
        print("\n".join(failures), file=sys.stderr)
        return 1
    say("done", contenders * rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
