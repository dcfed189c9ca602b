"""Checks kazoo's recipes and the rest of its client against a server: what kazoo's documentation promises of one server.

The list follows kazoo's own tests, as far as they need a single server and no internals of kazoo. The code is new and
follows the documentation. Every check holds on a real ZooKeeper (3.8.0, kazoo 2.11.0). Nodes, watches, transactions,
ACLs and locks are in kazoo_client.py.

Arguments, stdout and exit status are those of kazoo_client.py.
Sections:    paths asynchronous retry suspended expired counter queues parties barriers elections leases read_write caches partitions
"""

import contextlib
import datetime
import queue
import socket
import struct
import threading

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.serialization import Close
from kazoo.protocol.states import EventType, KazooState
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.watchers import PatientChildrenWatch
from kazoo.retry import KazooRetry

from kazoo_client import PATIENCE, Events, connected, fails, run, wait_for


def paths(main, root):
    deep = root + "/a/b/c"
    main.ensure_path(deep)
    main.ensure_path(deep)  # a second call is no error
    assert main.exists(deep) and main.exists(root + "/a/b")
    with fails(kz.NotEmptyError):
        main.delete(root + "/a")
    main.delete(root + "/a", recursive=True)
    assert main.exists(root + "/a") is None
    main.delete(root + "/a", recursive=True)  # deleting a missing node is no error

    # A client with a chroot names all nodes relative to it.
    inside = KazooClient(hosts=main.hosts_arg + root)
    inside.start(timeout=PATIENCE)
    seen = Events()
    assert inside.exists("/x", watch=seen) is None
    assert inside.create("/x", b"1") == "/x"
    seen.expect(EventType.CREATED, "/x")
    assert inside.get_children("/") == ["x"] and main.get(root + "/x")[0] == b"1"
    assert inside.create("/n-", sequence=True) == "/n-0000000002"
    t = inside.transaction()
    t.create("/t")
    t.check("/x", 0)
    assert t.commit() == ["/t", True]
    inside.stop()
    inside.close()

    # Unusual but valid names work; an invalid name does not.
    for name in ("\u00e9t\u00e9", "a b", "...", "with:colon", "\u4e2d\u6587"):
        assert main.create(f"{root}/{name}", b"x") == f"{root}/{name}"
        assert name in main.get_children(root)
    with fails(kz.BadArgumentsError):
        main.create(root + "/nul\0")


def asynchronous(main, root):
    made = [main.create_async(f"{root}/n{i:03}", b"%d" % i) for i in range(200)]
    assert [one.get(timeout=PATIENCE) for one in made] == [f"{root}/n{i:03}" for i in range(200)]
    read = [main.get_async(f"{root}/n{i:03}") for i in range(200)]
    assert [one.get(timeout=PATIENCE)[0] for one in read] == [b"%d" % i for i in range(200)]
    missing = main.get_async(root + "/missing")
    missing.wait(PATIENCE)
    assert isinstance(missing.exception, kz.NoNodeError)
    assert main.exists_async(root + "/missing").get(timeout=PATIENCE) is None
    assert len(main.get_children_async(root).get(timeout=PATIENCE)) == 200
    with fails(kz.NodeExistsError):
        main.create_async(root + "/n000").get(timeout=PATIENCE)
    done = queue.Queue()
    main.set_async(root + "/n000", b"x").rawlink(done.put)
    assert done.get(timeout=PATIENCE).get_nowait().version == 1
    gone = [main.delete_async(f"{root}/n{i:03}") for i in range(200)]
    assert all(one.get(timeout=PATIENCE) for one in gone) and main.get_children(root) == []


def retry(main, root):
    assert main.retry(main.create, root + "/a", b"1") == root + "/a"
    with fails(kz.NodeExistsError):
        main.retry(main.create, root + "/a")  # not a connection error, so no retry
    tries = []

    def fails_twice():
        tries.append(1)
        if len(tries) < 3:
            raise kz.ConnectionLoss()
        return main.get(root + "/a")[0]

    assert KazooRetry(max_tries=5, delay=0.01)(fails_twice) == b"1" and len(tries) == 3
    # The connection breaks while the request is on its way.
    for _ in range(5):
        drop(main, wait=False)
        assert KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2)(main.get, root + "/a")[0] == b"1"


def suspended(main, root):
    """After a lost connection the session, its nodes and its watches are the same."""
    session, own = main.client_id[0], root + "/own"
    main.create(own, ephemeral=True)
    data, lists = queue.Queue(), queue.Queue()
    main.DataWatch(own, lambda value, stat: data.put(value))
    main.ChildrenWatch(root, lambda children: lists.put(sorted(children)))
    assert data.get(timeout=PATIENCE) == b"" and lists.get(timeout=PATIENCE) == ["own"]
    with connected(main.hosts_arg) as writer:  # (kazoo does not set plain watches again after a reconnect)
        names = ["own"]
        for value in (b"1", b"2", b"3"):
            drop(main)
            assert main.client_id[0] == session and writer.exists(own).ephemeralOwner == session
            writer.set(own, value)
            names.insert(0, "a" + value.decode())
            writer.create(root + "/" + names[0])
            while data.get(timeout=PATIENCE) != value:  # (kazoo's watcher may first report the old value again)
                pass
            # Both watchers must be back before the next cut. If the reply to a watcher's read comes just before a cut,
            # the watcher takes its watch for set and never gets another event.
            while lists.get(timeout=PATIENCE) != sorted(names):
                pass


def expired(main, root):
    """A session ends without its client's doing: kazoo reports the loss, gets a new session, and the node is gone."""
    own, states, gone = root + "/own", queue.Queue(), Events()
    main.create(own, ephemeral=True)
    main.add_listener(states.put)
    session = main.client_id
    with connected(main.hosts_arg) as other:
        other.exists(own, watch=gone)
        # The main client may take its session back before it is ended. Then it is taken over again.
        for _ in range(10):
            end(main.hosts_arg, session)
            other.sync("/")  # the event comes before the reply
            if not gone.queue.empty():
                break
        gone.expect(EventType.DELETED, own)
        while states.get(timeout=PATIENCE) != KazooState.LOST:
            pass
        while states.get(timeout=PATIENCE) != KazooState.CONNECTED:
            pass
        wait_for(lambda: main.connected)
        assert main.client_id[0] != session[0] and main.exists(own) is None
        main.create(own, ephemeral=True)
        assert other.exists(own).ephemeralOwner == main.client_id[0]
    main.remove_listener(states.put)


def end(hosts, session):
    """Takes a session over and asks for its end with one write: then its client has hardly time to take it back."""
    host, port = hosts.split(",")[0].split(":")
    number, password = session
    handshake = struct.pack(">iqiqi16sx", 0, 0, 10_000, number, len(password), password)
    close = struct.pack(">ii", 1, Close.type)
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in (handshake, close)))
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):  # until the server has handled both
                pass


def counter(main, root):
    with connected(main.hosts_arg) as other:
        one, two = main.Counter(root + "/int"), other.Counter(root + "/int")
        one += 2
        one -= 1
        two += 5
        assert one.value == two.value == 6
        weight = main.Counter(root + "/float", default=1.5)
        weight += 0.25
        assert weight.value == 1.75

        def count(client):
            mine = client.Counter(root + "/int")
            for _ in range(25):
                mine += 1

        together([lambda: count(main), lambda: count(other)])
        assert one.value == 56


def queues(main, root):
    with connected(main.hosts_arg) as other:
        plain, same = main.Queue(root + "/plain"), other.Queue(root + "/plain")
        assert len(plain) == 0 and plain.get() is None
        for value, priority in ((b"late", 200), (b"first", 100), (b"second", 100)):
            plain.put(value, priority)
        assert len(same) == 3
        assert [same.get(), plain.get(), same.get(), same.get()] == [b"first", b"second", b"late", None]

        locking, rival = main.LockingQueue(root + "/locking"), other.LockingQueue(root + "/locking")
        locking.put_all([b"one", b"two"])
        locking.put(b"urgent", priority=10)
        assert locking.get(timeout=PATIENCE) == b"urgent" and locking.holds_lock()
        assert locking.get(timeout=PATIENCE) == b"urgent"  # the entry is held until it is consumed
        assert rival.get(timeout=PATIENCE) == b"one"
        assert rival.release() and not rival.holds_lock()
        assert locking.consume() and locking.get(timeout=PATIENCE) == b"one" and locking.consume()
        # A waiting client gets an entry that is put later.
        got = queue.Queue()
        assert rival.get(timeout=PATIENCE) == b"two" and rival.consume()
        waiter = threading.Thread(target=lambda: got.put(rival.get(timeout=PATIENCE)), daemon=True)
        waiter.start()
        locking.put(b"three")
        assert got.get(timeout=PATIENCE) == b"three" and rival.consume() and len(locking) == 0


def parties(main, root):
    with connected(main.hosts_arg) as other:
        for kind in ("Party", "ShallowParty"):
            path = root + "/" + kind
            one, two = getattr(main, kind)(path, "p1"), getattr(other, kind)(path, "p2")
            one.join()
            two.join()
            assert sorted(one) == sorted(two) == ["p1", "p2"] and len(one) == 2
            one.leave()
            assert list(two) == ["p2"] and len(two) == 1
            two.leave()
        with connected(main.hosts_arg) as brief:
            brief.Party(root + "/Party", "brief").join()
            assert list(main.Party(root + "/Party")) == ["brief"]
        assert len(main.Party(root + "/Party")) == 0  # the member's node ended with its session


def barriers(main, root):
    with connected(main.hosts_arg) as other:
        barrier = main.Barrier(root + "/barrier")
        assert barrier.wait(0) is True  # there is no barrier yet
        barrier.create()
        assert other.Barrier(root + "/barrier").wait(0.2) is False
        passed = threading.Event()

        def wait():
            if other.Barrier(root + "/barrier").wait(PATIENCE):
                passed.set()

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        assert not passed.wait(0.2)
        assert barrier.remove() and passed.wait(PATIENCE)
        assert not barrier.remove()

        entered, left = [], []
        # A client of kazoo that has not come so far waits for ever, if another one leaves and deletes what it waits for.
        all_inside = threading.Barrier(2)

        def both(client):
            mine = client.DoubleBarrier(root + "/double", 2)
            mine.enter()
            entered.append(client)
            all_inside.wait(PATIENCE)
            mine.leave()
            left.append(client)

        together([lambda: both(main), lambda: both(other)])
        assert len(entered) == len(left) == 2
        wait_for(lambda: not main.exists(root + "/double") or main.get_children(root + "/double") == [])


def elections(main, root):
    path = root + "/election"
    with connected(main.hosts_arg) as other:
        leads, resign, order = threading.Event(), threading.Event(), []

        def lead(name, wait):
            order.append(name)
            leads.set()
            assert wait is None or wait.wait(PATIENCE)

        first, second = main.Election(path, "first"), other.Election(path, "second")
        one = threading.Thread(target=lambda: first.run(lead, "first", resign), daemon=True)
        one.start()
        assert leads.wait(PATIENCE)
        two = threading.Thread(target=lambda: second.run(lead, "second", None), daemon=True)
        two.start()
        wait_for(lambda: first.contenders() == ["first", "second"])
        assert order == ["first"]
        resign.set()
        for thread in (one, two):
            thread.join(PATIENCE)
        assert order == ["first", "second"]

        # A waiting candidate can be cancelled.
        leads.clear()
        resign.clear()
        one = threading.Thread(target=lambda: first.run(lead, "again", resign), daemon=True)
        one.start()
        assert leads.wait(PATIENCE)
        two = threading.Thread(target=lambda: second.run(lead, "never", None), daemon=True)
        two.start()
        wait_for(lambda: first.contenders() == ["first", "second"])
        second.cancel()
        two.join(PATIENCE)
        assert first.contenders() == ["first"]
        resign.set()
        one.join(PATIENCE)
        assert order == ["first", "second", "again"]


def leases(main, root):
    minute = datetime.timedelta(minutes=1)
    with connected(main.hosts_arg) as other:
        path = root + "/lease"
        assert main.NonBlockingLease(path, minute, identifier="one")
        assert not other.NonBlockingLease(path, minute, identifier="two")
        assert main.NonBlockingLease(path, minute, identifier="one")  # renewed

        def later():
            return datetime.datetime.utcnow() + 2 * minute

        assert other.NonBlockingLease(path, minute, identifier="two", utcnow=later)
        several = root + "/leases"
        taken = [main.MultiNonBlockingLease(2, several, minute, identifier=name) for name in ("a", "b", "c")]
        assert [bool(lease) for lease in taken] == [True, True, False]


def read_write(main, root):
    path = root + "/lock"
    with connected(main.hosts_arg) as other:
        reading, also, writing = main.ReadLock(path, "r1"), other.ReadLock(path, "r2"), other.WriteLock(path, "w")
        assert reading.acquire(timeout=PATIENCE) and also.acquire(timeout=PATIENCE)
        assert writing.acquire(blocking=False) is False
        also.release()
        got = threading.Event()
        waiter = threading.Thread(target=lambda: writing.acquire(timeout=PATIENCE) and got.set(), daemon=True)
        waiter.start()
        wait_for(lambda: len(main.get_children(path)) == 2)
        assert main.ReadLock(path, "r3").acquire(blocking=False) is False  # behind the waiting writer
        reading.release()
        assert got.wait(PATIENCE)
        writing.release()

        semaphore = main.Semaphore(root + "/semaphore", "one", max_leases=2)
        rival = other.Semaphore(root + "/semaphore", "two", max_leases=2)
        third = other.Semaphore(root + "/semaphore", "three", max_leases=2)
        assert semaphore.acquire(timeout=PATIENCE) and rival.acquire(timeout=PATIENCE)
        assert sorted(semaphore.lease_holders()) == ["one", "two"]
        assert third.acquire(blocking=False) is False
        semaphore.release()
        assert third.acquire(timeout=PATIENCE)
        for lease in (rival, third):
            lease.release()
        try:
            other.Semaphore(root + "/semaphore", max_leases=3).acquire(blocking=False)
            raise AssertionError("another limit is an error")
        except ValueError:
            pass


def caches(main, root):
    seen = queue.Queue()
    with connected(main.hosts_arg) as writer:
        writer.create(root + "/a", b"1")
        cache = TreeCache(main, root)
        cache.listen(lambda event: seen.put((event.event_type, event.event_data and event.event_data.path)))
        cache.start()

        def expect(kind, path=None):
            while (event := seen.get(timeout=PATIENCE)) != (kind, path):
                assert event[0] in (TreeEvent.NODE_ADDED, TreeEvent.NODE_UPDATED), event

        expect(TreeEvent.INITIALIZED)
        assert cache.get_data(root + "/a").data == b"1" and cache.get_children(root) == frozenset(["a"])
        writer.set(root + "/a", b"2")
        expect(TreeEvent.NODE_UPDATED, root + "/a")
        writer.create(root + "/a/b/c", makepath=True)
        expect(TreeEvent.NODE_ADDED, root + "/a/b/c")
        writer.delete(root + "/a/b", recursive=True)
        removed = set()
        while removed != {root + "/a/b", root + "/a/b/c"}:
            kind, path = seen.get(timeout=PATIENCE)
            if kind == TreeEvent.NODE_REMOVED:
                removed.add(path)
        assert cache.get_data(root + "/a").data == b"2" and cache.get_children(root + "/a") == frozenset()
        cache.close()

        patient = PatientChildrenWatch(main, root, time_boundary=0.3).start()
        children, changed = patient.get(timeout=PATIENCE)
        assert children == ["a"] and not changed.ready()
        writer.create(root + "/z")
        changed.get(timeout=PATIENCE)


def partitions(main, root):
    path, parts = root + "/partitions", ("a", "b", "c")
    with connected(main.hosts_arg) as other:
        both = [
            client.SetPartitioner(path, parts, identifier=name, time_boundary=0.3)
            for client, name in ((main, "one"), (other, "two"))
        ]
        together([lambda: both[0].wait_for_acquire(PATIENCE), lambda: both[1].wait_for_acquire(PATIENCE)])
        wait_for(lambda: all(each.acquired for each in both))
        shares = [list(each) for each in both]
        assert sorted(shares[0] + shares[1]) == list(parts) and all(shares), shares
        both[1].finish()
        wait_for(lambda: both[0].release)
        both[0].release_set()
        wait_for(lambda: both[0].wait_for_acquire(1) or both[0].acquired)
        assert sorted(both[0]) == list(parts)
        both[0].finish()


def drop(client, wait=True):
    """Cuts a client's connection. With `wait`, waits until the client has noticed and is connected again."""
    states = queue.Queue()
    client.add_listener(states.put)
    client._call(_CONNECTION_DROP, client.handler.async_result())
    if wait:
        while states.get(timeout=PATIENCE) != KazooState.SUSPENDED:
            pass
        while states.get(timeout=PATIENCE) != KazooState.CONNECTED:
            pass
    client.remove_listener(states.put)


def together(jobs):
    """Runs all jobs at once, each in its own thread. All must succeed."""
    failures = queue.Queue()

    def guarded(job):
        try:
            job()
        except BaseException as error:  # raised again below
            failures.put(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a job hangs"
    if not failures.empty():
        raise failures.get()


SECTIONS = {
    section.__name__: section
    for section in (
        paths,
        asynchronous,
        retry,
        suspended,
        expired,
        counter,
        queues,
        parties,
        barriers,
        elections,
        leases,
        read_write,
        caches,
        partitions,
    )
}

if __name__ == "__main__":
    run(SECTIONS)
