// The sections of JavaClient.java about watches and about changes that the client does not make: one-time watches of
// reads, persistent watches, watches after a cut connection, nodes that the server deletes. Not a program of its own.

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

final class JavaWatches extends Harness {
    static void oneShot(Session main, ZooKeeper writer, String root) throws Exception {
        dataWatches(main, writer, root);
        childWatches(main, writer, root);
        orderOfWatches(main, writer, root);
        removalOfWatches(main, root);
    }

    private static void dataWatches(Session main, ZooKeeper writer, String root) throws Exception {
        ZooKeeper zk = main.zk;
        String a = root + "/a";
        Events seen = new Events();
        check(zk.exists(a, seen) == null, "nothing there yet");
        writer.create(a, bytes("0"), OPEN, CreateMode.PERSISTENT);
        seen.expect(EventType.NodeCreated, a);
        writer.setData(a, bytes("1"), -1);
        seen.expectNothing(main); // a watch fires once

        zk.getData(a, seen, null);
        create(writer, a + "/child");
        writer.delete(a + "/child", -1);
        seen.expectNothing(main); // a change of the children is no change of the data
        writer.setData(a, bytes("2"), -1);
        seen.expect(EventType.NodeDataChanged, a);

        zk.exists(a, seen);
        writer.setData(a, bytes("2"), -1);
        seen.expect(EventType.NodeDataChanged, a); // the same bytes are a change too
        zk.exists(a, seen);
        writer.delete(a, -1);
        seen.expect(EventType.NodeDeleted, a);
        fails(Code.NONODE, () -> zk.getData(a, seen, null)); // a failed read sets no watch
        writer.create(a, bytes("3"), OPEN, CreateMode.PERSISTENT);
        seen.expectNothing(main);

        // The event comes before the first reply that shows the change. One thread handles both, in the order of arrival.
        List<String> log = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch read = new CountDownLatch(1);
        zk.getData(a, event -> log.add("event"), null);
        writer.setData(a, bytes("4"), -1);
        main.sync(a);
        zk.getData(a, false, (rc, path, ctx, data, stat) -> {
            log.add("read " + text(data));
            read.countDown();
        }, null);
        check(read.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "the read is answered");
        check(log.equals(List.of("event", "read 4")), "the event comes before the data: " + log);
    }

    private static void childWatches(Session main, ZooKeeper writer, String root) throws Exception {
        ZooKeeper zk = main.zk;
        String p = root + "/p";
        create(writer, p);
        Events seen = new Events();
        zk.getChildren(p, seen);
        writer.setData(p, bytes("x"), -1);
        seen.expectNothing(main); // a change of the data is no change of the children
        create(writer, p + "/c");
        seen.expect(EventType.NodeChildrenChanged, p);
        zk.getChildren(p, seen);
        writer.setData(p + "/c", bytes("x"), -1);
        create(writer, p + "/c/d");
        seen.expectNothing(main); // changes inside a child do not count either
        writer.delete(p + "/c/d", -1);
        writer.delete(p + "/c", -1);
        seen.expect(EventType.NodeChildrenChanged, p);

        // A watcher on data and on children of one node gets one event for the delete: NodeDeleted.
        zk.getChildren(p, seen);
        zk.getData(p, seen, null);
        writer.delete(p, -1);
        seen.expect(EventType.NodeDeleted, p);
        seen.expectNothing(main);
    }

    private static void orderOfWatches(Session main, ZooKeeper writer, String root) throws Exception {
        String p = root + "/order";
        create(writer, p);
        Events seen = new Events();
        main.sync(p);
        for (String name : List.of("a", "b", "c")) {
            main.zk.exists(p + "/" + name, seen);
        }
        main.zk.getChildren(p, seen);
        create(writer, p + "/b");
        create(writer, p + "/c");
        create(writer, p + "/a");
        seen.expect(EventType.NodeCreated, p + "/b"); // for each change: first the node's own watch, then its parent's
        seen.expect(EventType.NodeChildrenChanged, p);
        seen.expect(EventType.NodeCreated, p + "/c");
        seen.expect(EventType.NodeCreated, p + "/a");
        seen.expectNothing(main);
    }

    private static void removalOfWatches(Session main, String root) throws Exception {
        ZooKeeper zk = main.zk;
        String p = root + "/removal";
        create(zk, p);
        Events data = new Events();
        Events children = new Events();
        zk.getData(p, data, null);
        zk.getChildren(p, children);
        zk.removeWatches(p, data, Watcher.WatcherType.Data, false);
        data.expect(EventType.DataWatchRemoved, p);
        fails(Code.NOWATCHER, () -> zk.removeWatches(p, data, Watcher.WatcherType.Data, false));
        zk.removeAllWatches(p, Watcher.WatcherType.Children, false);
        children.expect(EventType.ChildWatchRemoved, p);
        zk.setData(p, bytes("x"), -1);
        create(zk, p + "/c");
        data.expectNothing(main);
        children.expectNothing(main);
    }

    // ---- persistent, reconnect, reaping --------------------------------------------------------------------------------

    static void persistent(Session main, ZooKeeper writer, String root) throws Exception {
        String p = root + "/p";
        String deep = root + "/deep";
        for (String path : List.of(p, deep)) {
            create(writer, path);
        }
        Events one = new Events();
        Events all = new Events();
        main.zk.addWatch(p, one, AddWatchMode.PERSISTENT);
        main.zk.addWatch(deep, all, AddWatchMode.PERSISTENT_RECURSIVE);
        for (String path : List.of(p, deep)) {
            writer.setData(path, bytes("1"), -1);
            writer.setData(path, bytes("2"), -1);
            create(writer, path + "/c");
            create(writer, path + "/c/d");
            writer.setData(path + "/c/d", bytes("1"), -1);
            writer.delete(path + "/c/d", -1);
            writer.delete(path + "/c", -1);
        }
        one.expect(EventType.NodeDataChanged, p);
        one.expect(EventType.NodeDataChanged, p);
        one.expect(EventType.NodeChildrenChanged, p);
        one.expect(EventType.NodeChildrenChanged, p);
        one.expectNothing(main);
        all.expect(EventType.NodeDataChanged, deep); // a recursive watch never gives NodeChildrenChanged
        all.expect(EventType.NodeDataChanged, deep);
        all.expect(EventType.NodeCreated, deep + "/c");
        all.expect(EventType.NodeCreated, deep + "/c/d");
        all.expect(EventType.NodeDataChanged, deep + "/c/d");
        all.expect(EventType.NodeDeleted, deep + "/c/d");
        all.expect(EventType.NodeDeleted, deep + "/c");
        all.expectNothing(main);

        main.zk.removeWatches(p, one, Watcher.WatcherType.Any, false);
        one.expect(EventType.PersistentWatchRemoved, p);
        main.zk.removeWatches(deep, all, Watcher.WatcherType.Any, false);
        all.expect(EventType.PersistentWatchRemoved, deep);
        writer.setData(p, bytes("3"), -1);
        writer.setData(deep, bytes("3"), -1);
        one.expectNothing(main);
        all.expectNothing(main);
    }

    /** After a cut connection the client gets its session, nodes and watches back, and each missed event once. */
    static void reconnect(String hosts, ZooKeeper writer, String root) throws Exception {
        try (Relay relay = new Relay(hosts); Session main = new Session(relay.hosts())) {
            reconnect(relay, main, writer, root);
        }
    }

    private static void reconnect(Relay relay, Session main, ZooKeeper writer, String root) throws Exception {
        List<String> paths = List.of(root + "/data", root + "/absent", root + "/gone", root + "/children");
        for (String path : paths) {
            if (!path.endsWith("absent")) {
                create(writer, path);
            }
        }
        String own = root + "/own";
        String still = root + "/still";
        String lastly = root + "/lastly"; // its own path: 3.8 keeps one kind of watch per path and connection
        create(main.zk, own, CreateMode.EPHEMERAL);
        create(main.zk, still);
        create(main.zk, lastly);
        long id = main.zk.getSessionId();
        Events data = new Events();
        Events absent = new Events();
        Events gone = new Events();
        Events children = new Events();
        Events later = new Events();
        Events lasting = new Events();
        main.zk.getData(paths.get(0), data, null);
        main.zk.exists(paths.get(1), absent);
        main.zk.getData(paths.get(2), gone, null);
        main.zk.getChildren(paths.get(3), children);
        main.zk.getData(still, later, null);
        main.zk.addWatch(lastly, lasting, AddWatchMode.PERSISTENT);

        relay.cut();
        writer.setData(paths.get(0), bytes("x"), -1);
        create(writer, paths.get(1));
        writer.delete(paths.get(2), -1);
        create(writer, paths.get(3) + "/c");
        main.states.expectState(KeeperState.Disconnected);
        main.states.expectState(KeeperState.SyncConnected);
        check(main.zk.getSessionId() == id, "the session is the same");
        check(main.zk.exists(own, false).getEphemeralOwner() == id, "its node is still there");
        data.expect(EventType.NodeDataChanged, paths.get(0));
        absent.expect(EventType.NodeCreated, paths.get(1));
        gone.expect(EventType.NodeDeleted, paths.get(2));
        children.expect(EventType.NodeChildrenChanged, paths.get(3));
        for (Events one : List.of(data, absent, gone, children, later, lasting)) {
            one.expectNothing(main);
        }
        writer.setData(still, bytes("x"), -1); // these two watches were set again, not fired
        later.expect(EventType.NodeDataChanged, still);
        writer.setData(still, bytes("y"), -1);
        later.expectNothing(main);
        for (String text : List.of("x", "y")) {
            writer.setData(lastly, bytes(text), -1);
            lasting.expect(EventType.NodeDataChanged, lastly);
        }
    }

    static void reaping(ZooKeeper zk, String root) throws Exception {
        String fresh = root + "/fresh";
        String box = root + "/box";
        String brief = root + "/brief";
        Events seen = new Events();
        create(zk, fresh, CreateMode.CONTAINER);
        create(zk, box, CreateMode.CONTAINER);
        create(zk, box + "/c");
        zk.exists(box, seen); // before the server may delete it: a fast server leaves no time later
        zk.delete(box + "/c", -1);
        seen.expectWithin(75_000, EventType.NodeDeleted, box);
        zk.create(brief, bytes(""), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 2_000);
        zk.exists(brief, seen);
        seen.expectWithin(75_000, EventType.NodeDeleted, brief);
        check(zk.exists(fresh, false) != null, "a container that never had a child stays");
    }
}
