"""Checks with kazoo, Python's ZooKeeper client, whether a server does what kazoo and its users expect.

The tests run it against the embedded server and against a real ZooKeeper; every check holds on the latter (3.8.0, kazoo
2.11.0). It knows nothing of lockkeeper and raises at the first deviation. Each section works under its own node with a
random name and deletes it at the end.

Arguments:   HOSTS [SECTION...]    sections: basic watches multi acl lock (the default)
stdout:      ok SECTION            one line for each section that passed, in the order of the arguments
Exit status: 0; 1 at a deviation (the traceback is on stderr); 2 for bad usage.
"""

import contextlib
import logging
import queue
import re
import sys
import threading
import uuid

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

PATIENCE = 15.0  # seconds to wait for something that must happen, on a loaded machine
SILENCE = 0.15  # seconds to wait for something that must not happen


def basic(main, root):
    path = root + "/a"
    assert main.create(path, b"one") == path
    data, made = main.get(path)
    assert data == b"one"
    assert (made.version, made.cversion, made.aversion, made.ephemeralOwner) == (0, 0, 0, 0)
    assert made.czxid == made.mzxid == made.pzxid and made.ctime == made.mtime > 0
    assert (made.dataLength, made.numChildren) == (3, 0)
    with fails(kz.NodeExistsError):
        main.create(path)
    with fails(kz.NoNodeError):
        main.create(root + "/no/such")
    assert main.create(root + "/no/such/node", makepath=True) == root + "/no/such/node"
    assert main.exists(root + "/absent") is None

    written = main.set(path, b"three", version=0)
    assert written.version == 1 and written.mzxid > written.czxid == made.czxid
    with fails(kz.BadVersionError):
        main.set(path, b"lost", version=0)
    assert main.get(path) == (b"three", written)
    assert main.set(path, b"", version=-1).version == 2 and main.get(path)[0] == b""
    main.set(path, b"\xa5" * (900 * 1024))
    assert main.get(path)[0] == b"\xa5" * (900 * 1024)

    line = root + "/line"
    main.create(line)
    assert main.create(line + "/n-", sequence=True) == line + "/n-0000000000"
    node = main.create(line + "/e-", b"x", ephemeral=True, sequence=True)
    assert node == line + "/e-0000000001"
    path, stat = main.create(line + "/with-stat", b"y", include_data=True)
    assert path == line + "/with-stat" and stat.dataLength == 1
    children, stat = main.get_children(line, include_data=True)
    assert sorted(children) == ["e-0000000001", "n-0000000000", "with-stat"] and stat.numChildren == 3
    assert main.exists(node).ephemeralOwner == main.client_id[0]
    with fails(kz.NoChildrenForEphemeralsError):
        main.create(node + "/x")

    with fails(kz.NotEmptyError):
        main.delete(line)
    with fails(kz.BadVersionError):
        main.delete(node, version=7)
    main.delete(node)
    with fails(kz.NoNodeError):
        main.delete(node)
    assert main.sync(root) == root

    # The server answers pipelined requests in the order in which the client sent them.
    order = []
    sent = [main.get_async(line) for _ in range(300)] + [main.sync_async(root)]
    for i, one in enumerate(sent):
        one.rawlink(lambda _, i=i: order.append(i))
    for one in sent:
        one.get(timeout=PATIENCE)
    wait_for(lambda: len(order) == len(sent))
    assert order == sorted(order)

    # An ephemeral node ends with its session, and other sessions get the event.
    own, gone = root + "/of-a-session", Events()
    with connected(main.hosts_arg) as brief:
        brief.create(own, ephemeral=True)
        main.sync(root)
        assert main.exists(own, watch=gone).ephemeralOwner == brief.client_id[0] != main.client_id[0]
    gone.expect(EventType.DELETED, own)
    assert main.exists(own) is None


def watches(main, root):
    with connected(main.hosts_arg) as writer:
        raw_watches(main, writer, root)

        # kazoo's own wrappers set their watch again after each change.
        path, seen = root + "/wrapped", queue.Queue()
        main.DataWatch(path, lambda data, stat: seen.put(data))
        assert seen.get(timeout=PATIENCE) is None  # the first call: there is no node yet
        writer.create(path, b"1")
        assert seen.get(timeout=PATIENCE) == b"1"
        writer.set(path, b"2")
        assert seen.get(timeout=PATIENCE) == b"2"
        lists = queue.Queue()
        main.ChildrenWatch(path, lambda children: lists.put(sorted(children)))
        assert lists.get(timeout=PATIENCE) == []
        writer.create(path + "/b")
        assert lists.get(timeout=PATIENCE) == ["b"]
        writer.create(path + "/a")
        assert lists.get(timeout=PATIENCE) == ["a", "b"]
        writer.delete(path + "/a")
        assert lists.get(timeout=PATIENCE) == ["b"]
        writer.delete(path, recursive=True)
        assert seen.get(timeout=PATIENCE) is None


def raw_watches(main, writer, root):
    path, seen = root + "/a", Events()
    assert main.exists(path, watch=seen) is None
    writer.create(path, b"0")
    seen.expect(EventType.CREATED, path)
    writer.set(path, b"1")
    seen.expect_nothing(main)  # a watch fires once
    main.get(path, watch=seen)
    writer.create(path + "/c")
    seen.expect_nothing(main)  # a change of the children is no change of the data
    writer.set(path, b"2")
    seen.expect(EventType.CHANGED, path)
    main.get_children(path, watch=seen)
    writer.set(path, b"3")
    seen.expect_nothing(main)  # a change of the data is no change of the children
    writer.delete(path + "/c")
    seen.expect(EventType.CHILD, path)
    with fails(kz.NoNodeError):
        main.get(root + "/absent", watch=seen)  # a failed read sets no watch
    writer.create(root + "/absent")
    seen.expect_nothing(main)

    # Watches fire in the order of the changes.
    names = [root + "/order-" + name for name in "abc"]
    for name in names:
        main.exists(name, watch=seen)
    for name in reversed(names):
        writer.create(name)
    for name in reversed(names):
        seen.expect(EventType.CREATED, name)
    main.get(path, watch=seen)
    writer.delete(path)
    seen.expect(EventType.DELETED, path)


def multi(main, root):
    path = root + "/a"
    t = main.transaction()
    t.create(path, b"1")
    t.check(path, 0)
    t.set_data(path, b"2", 0)
    t.create(path + "/n-", ephemeral=True, sequence=True)
    t.create(path + "/x")
    t.delete(path + "/x")
    results = t.commit()
    assert results[0] == path and results[1] is True and results[2].version == 1, results
    assert results[3] == path + "/n-0000000000" and results[4:] == [path + "/x", True], results
    data, stat = main.get(path)
    assert data == b"2" and stat.czxid == stat.mzxid == stat.pzxid, "one transaction"

    t = main.transaction()
    t.set_data(path, b"lost")
    t.check(path, 9)
    t.delete(root + "/absent")
    kinds = [type(result) for result in t.commit()]
    assert kinds == [kz.RolledBackError, kz.BadVersionError, kz.RuntimeInconsistency], kinds
    assert main.get(path)[0] == b"2", "a failed transaction changes nothing"

    with connected(main.hosts_arg) as writer:
        seen = Events()
        main.get(path, watch=seen)
        main.get_children(path, watch=seen)
        with writer.transaction() as t:
            t.set_data(path, b"3")
            t.create(path + "/y")
        seen.expect(EventType.CHANGED, path)
        seen.expect(EventType.CHILD, path)


def acl(main, root):
    path = root + "/open"
    main.create(path)
    acls, stat = main.get_acls(path)
    assert acls == OPEN_ACL_UNSAFE and stat.aversion == 0, acls
    read_only = [make_acl("world", "anyone", read=True, admin=True)]
    assert main.set_acls(path, read_only, version=0).aversion == 1
    with fails(kz.BadVersionError):
        main.set_acls(path, OPEN_ACL_UNSAFE, version=0)
    assert main.get_acls(path)[0] == read_only
    with fails(kz.NoAuthError):
        main.set(path, b"x")
    with fails(kz.NoAuthError):
        main.create(path + "/c")
    with fails(kz.InvalidACLError):
        main.create(root + "/x", acl=CREATOR_ALL_ACL)  # the client has no identity

    secret = root + "/secret"
    with connected(main.hosts_arg, auth_data=[("digest", "user:secret")]) as owner:
        owner.create(secret, b"s", acl=CREATOR_ALL_ACL)
        assert owner.get_acls(secret)[0] == [make_digest_acl("user", "secret", all=True)]
        main.sync(root)  # no check of exists: it needs no permission up to 3.8.3 and 3.9.1, READ later
        for refused in (main.get, main.get_children, main.get_acls, lambda path: main.set(path, b"x")):
            with fails(kz.NoAuthError):
                refused(secret)
        main.add_auth("digest", "user:guess")
        with fails(kz.NoAuthError):
            main.get(secret)
        with connected(main.hosts_arg) as late:
            late.add_auth("digest", "user:secret")
            assert late.get(secret)[0] == b"s" and late.set(secret, b"t").version == 1
        owner.delete(secret)


def lock(main, root):
    path = root + "/lock"
    with connected(main.hosts_arg) as other:
        first, second = main.Lock(path, "first"), other.Lock(path, "second")
        assert first.acquire(timeout=PATIENCE)
        assert second.acquire(blocking=False) is False
        with fails(kz.LockTimeout):
            second.acquire(timeout=0.3)
        assert re.fullmatch(r"[0-9a-f]{32}__lock__\d{10}", "".join(main.get_children(path)))
        assert other.Lock(path).contenders() == ["first"]

        taken = threading.Event()
        waiter = threading.Thread(target=lambda: second.acquire(timeout=PATIENCE) and taken.set(), daemon=True)
        waiter.start()
        wait_for(lambda: main.Lock(path).contenders() == ["first", "second"])
        assert not taken.is_set()
        first.release()
        assert taken.wait(PATIENCE), "the waiter gets the lock when it is released"
        second.release()
        assert main.get_children(path) == []

        # Both clients increment a counter in a loop. The result is right only if the lock excludes.
        counter = root + "/counter"
        main.create(counter, b"0")

        def rounds(client):
            mine = client.Lock(path)
            for _ in range(10):
                with mine:
                    client.set(counter, b"%d" % (int(client.get(counter)[0]) + 1))

        threads = [threading.Thread(target=rounds, args=(client,), daemon=True) for client in (main, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert main.get(counter)[0] == b"20", main.get(counter)

        # The end of a holder's session releases its lock.
        with connected(main.hosts_arg) as brief:
            assert brief.Lock(path).acquire(timeout=PATIENCE)
            assert main.Lock(path).acquire(blocking=False) is False
        assert main.Lock(path).acquire(timeout=PATIENCE)

        lease = main.Semaphore(root + "/semaphore", max_leases=1)
        assert lease.acquire(timeout=PATIENCE)
        assert other.Semaphore(root + "/semaphore", max_leases=1).acquire(blocking=False) is False
        lease.release()


class Events:
    """A watcher that queues its events, except changes of the connection's state."""

    def __init__(self):
        self.queue = queue.Queue()

    def __call__(self, event):
        if event.type != EventType.NONE:
            self.queue.put(event)

    def expect(self, kind, path):
        event = self.queue.get(timeout=PATIENCE)
        assert (event.type, event.path) == (kind, path), f"expected {kind} {path}, got {event}"

    def expect_nothing(self, client):
        client.sync("/")  # a due event comes before the reply
        try:
            raise AssertionError(f"unexpected: {self.queue.get(timeout=SILENCE)}")
        except queue.Empty:
            pass


@contextlib.contextmanager
def connected(hosts, **options):
    client = KazooClient(hosts=hosts, timeout=10.0, **options)
    client.hosts_arg = hosts
    client.start(timeout=PATIENCE)
    try:
        yield client
        assert client.state == KazooState.CONNECTED
    finally:
        client.stop()
        client.close()


@contextlib.contextmanager
def fails(kind):
    try:
        yield
    except kz.KazooException as error:
        assert type(error) is kind, f"expected {kind.__name__}, got {error!r}"
    else:
        raise AssertionError(f"expected {kind.__name__}, but it succeeded")


def wait_for(condition):
    ticks = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if condition():
            return
        ticks.wait(0.02)
    raise AssertionError("the condition did not become true in time")


SECTIONS = {section.__name__: section for section in (basic, watches, multi, acl, lock)}


def run(sections):
    """Runs the sections that the command line names, or all of them."""
    if len(sys.argv) < 2 or any(name not in sections for name in sys.argv[2:]):
        print(f"usage: {sys.argv[0]} HOSTS [{' | '.join(sections)}]...", file=sys.stderr)
        sys.exit(2)
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    hosts = sys.argv[1]
    for name in sys.argv[2:] or sections:
        with connected(hosts) as client:
            root = f"/kazoo-{name}-{uuid.uuid4()}"
            client.create(root)
            sections[name](client, root)
        with connected(hosts) as client:
            client.delete(root, recursive=True)
        print("ok", name, flush=True)


if __name__ == "__main__":
    run(SECTIONS)
