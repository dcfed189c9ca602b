// Checks with Apache's own Java client whether a server does what that client and its users expect.
//
// The tests run it against the embedded server and against a real ZooKeeper; every check holds on the latter (3.8.0). It
// knows nothing of lockkeeper, uses only public API, and throws at the first deviation. Each section works under its own
// node with a random name and deletes it at the end. Watches are in JavaWatches.java, the helpers in Harness.java.
//
// Arguments: HOSTS [SECTION...]    sections: basic watches multi acl lock (the default), persistent reconnect reaping
//            `reaping` waits until the server deletes an empty container and an expired TTL node: up to 75 s each on a
//            server with the usual `znode.container.checkIntervalMs`. TTL nodes (basic, multi, reaping) need a real
//            server with `zookeeper.extendedTypesEnabled=true`.
// stdout:    ok SECTION            one line for each section that passed, in the order of the arguments
// Exit status: 0; 1 at a deviation (stderr says which); 2 for bad usage.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

public final class JavaClient extends Harness {
    private static final CreateMode SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL;

    private static String hosts;

    public static void main(String[] args) {
        if (args.length == 0) {
            System.err.println("usage: JavaClient HOSTS [SECTION...]");
            System.exit(2);
        }
        hosts = args[0];
        List<String> sections = args.length > 1
                ? Arrays.asList(args).subList(1, args.length)
                : List.of("basic", "watches", "multi", "acl", "lock");
        for (String section : sections) {
            try {
                run(section);
            } catch (Throwable e) {
                System.err.println("section " + section + " failed");
                e.printStackTrace();
                System.exit(1); // client threads would keep the process alive
            }
            System.out.println("ok " + section);
            System.out.flush();
        }
    }

    private static void run(String section) throws Exception {
        String root = "/java-" + section + "-" + UUID.randomUUID();
        try (Session main = new Session(hosts); Session other = new Session(hosts)) {
            create(main.zk, root);
            switch (section) {
                case "basic":
                    nodes(main, root);
                    data(main.zk, root);
                    kindsOfNodes(main.zk, root);
                    pipelining(main.zk, root);
                    sessions(main, root);
                    break;
                case "watches":
                    JavaWatches.oneShot(main, other.zk, root);
                    break;
                case "multi":
                    multiSucceeds(main.zk, root);
                    multiFails(main.zk, root);
                    multiReads(main.zk, root);
                    multiFiresWatches(main, other.zk, root);
                    break;
                case "acl":
                    acls(main.zk, root);
                    digest(root);
                    break;
                case "lock":
                    lock(main, other, root);
                    break;
                case "persistent":
                    JavaWatches.persistent(main, other.zk, root);
                    break;
                case "reconnect":
                    JavaWatches.reconnect(hosts, other.zk, root);
                    break;
                case "reaping":
                    JavaWatches.reaping(main.zk, root);
                    break;
                default:
                    throw new IllegalArgumentException("no such section: " + section);
            }
            ZKUtil.deleteRecursive(main.zk, root);
        }
    }

    // ---- basic ---------------------------------------------------------------------------------------------------------

    private static void nodes(Session session, String root) throws Exception {
        ZooKeeper zk = session.zk;
        check(zk.getSessionId() != 0, "a session has an id");
        check(zk.getSessionPasswd().length == 16, "a session's password has 16 bytes");
        check(zk.getSessionTimeout() > 0, "a timeout was negotiated");

        String a = root + "/a";
        Stat made = new Stat();
        check(zk.create(a, bytes("one"), OPEN, CreateMode.PERSISTENT, made).equals(a), "create returns the path");
        check(made.getVersion() == 0 && made.getCversion() == 0 && made.getAversion() == 0, "versions begin at 0");
        check(made.getCzxid() == made.getMzxid() && made.getCzxid() == made.getPzxid(), "one zxid for a new node");
        check(made.getCtime() == made.getMtime() && made.getCtime() > 0, "one time for a new node");
        check(made.getDataLength() == 3 && made.getNumChildren() == 0, "sizes of a new node");
        check(made.getEphemeralOwner() == 0, "a persistent node has no owner");
        fails(Code.NODEEXISTS, () -> zk.create(a, null, OPEN, CreateMode.PERSISTENT));
        fails(Code.NONODE, () -> zk.create(root + "/no/such", null, OPEN, CreateMode.PERSISTENT));
        check(zk.exists(a, false).equals(made), "exists shows the stat of the create");
        check(zk.exists(root + "/absent", false) == null, "exists of an absent node");

        create(zk, a + "/x");
        create(zk, a + "/y");
        create(zk, a + "/y/z");
        Stat parent = new Stat();
        List<String> children = new ArrayList<>(zk.getChildren(a, false, parent));
        Collections.sort(children);
        check(children.equals(List.of("x", "y")), "children are names: " + children);
        check(parent.getNumChildren() == 2 && parent.getCversion() == 2, "children are counted: " + parent);
        check(parent.getPzxid() > parent.getMzxid() && parent.getMzxid() == made.getMzxid(), "a child changes pzxid, not mzxid");
        check(parent.getVersion() == 0, "a child does not change the version");
        check(zk.getAllChildrenNumber(a) == 3, "descendants are counted");
        fails(Code.NONODE, () -> zk.getChildren(root + "/absent", false));
        fails(Code.NONODE, () -> zk.getAllChildrenNumber(root + "/absent"));

        fails(Code.NOTEMPTY, () -> zk.delete(a, -1));
        fails(Code.BADVERSION, () -> zk.delete(a + "/x", 7));
        fails(Code.NONODE, () -> zk.delete(root + "/absent", -1));
        zk.delete(a + "/y/z", 0);
        zk.delete(a + "/x", 0);
        zk.delete(a + "/y", -1);
        check(zk.exists(a, false).getCversion() == 4, "deleted children count in cversion");
        check(zk.getChildren(a, false).isEmpty(), "no children are left");
        zk.delete(a, -1);
        check(zk.exists(a, false) == null, "a deleted node is gone");
    }

    private static void data(ZooKeeper zk, String root) throws Exception {
        String a = root + "/data";
        zk.create(a, bytes("one"), OPEN, CreateMode.PERSISTENT);
        Stat read = new Stat();
        check(text(zk.getData(a, false, read)).equals("one"), "data comes back");
        Stat written = zk.setData(a, bytes("three"), 0);
        check(written.getVersion() == 1 && written.getDataLength() == 5, "setData counts up the version");
        check(written.getMzxid() > written.getCzxid() && written.getCzxid() == read.getCzxid(), "setData changes mzxid only");
        fails(Code.BADVERSION, () -> zk.setData(a, bytes("lost"), 0));
        check(text(zk.getData(a, false, read)).equals("three"), "a refused write changes nothing");
        check(read.equals(written), "the stat of a read is the stat of the write");
        check(zk.setData(a, bytes("any"), -1).getVersion() == 2, "version -1 always matches");
        fails(Code.NONODE, () -> zk.getData(root + "/absent", false, null));
        fails(Code.NONODE, () -> zk.setData(root + "/absent", null, -1));

        zk.setData(a, null, -1);
        check(zk.getData(a, false, read) == null && read.getDataLength() == 0, "null data stays null");
        zk.setData(a, new byte[0], -1);
        check(zk.getData(a, false, read).length == 0, "empty data stays empty");
        byte[] big = new byte[900 * 1024];
        Arrays.fill(big, (byte) 0xa5);
        zk.setData(a, big, -1);
        check(Arrays.equals(zk.getData(a, false, read), big), "900 KiB come back");
    }

    private static void kindsOfNodes(ZooKeeper zk, String root) throws Exception {
        String own = root + "/ephemeral";
        create(zk, own, CreateMode.EPHEMERAL);
        check(zk.exists(own, false).getEphemeralOwner() == zk.getSessionId(), "an ephemeral node names its session");
        fails(Code.NOCHILDRENFOREPHEMERALS, () -> zk.create(own + "/x", null, OPEN, CreateMode.PERSISTENT));
        check(zk.getEphemerals(root).equals(List.of(own)), "getEphemerals lists own nodes under a prefix");
        check(zk.getEphemerals().contains(own), "getEphemerals lists all of a session");
        check(zk.getEphemerals(root + "/x").isEmpty(), "getEphemerals of another prefix");

        // The number counts the creates under the parent, of any kind; deletes do not count.
        String line = root + "/line";
        create(zk, line);
        check(create(zk, line + "/n-", SEQUENTIAL).equals(line + "/n-0000000000"), "the first sequence number");
        create(zk, line + "/plain");
        zk.delete(line + "/plain", -1);
        check(create(zk, line + "/m-", SEQUENTIAL).equals(line + "/m-0000000002"),
                "a plain create takes a number, a delete does not");
        check(create(zk, line + "/", SEQUENTIAL).equals(line + "/0000000003"),
                "a sequential node may have no other name");
        String both = create(zk, line + "/e-", CreateMode.EPHEMERAL_SEQUENTIAL);
        check(both.equals(line + "/e-0000000004"), "ephemeral and sequential: " + both);
        check(zk.exists(both, false).getEphemeralOwner() == zk.getSessionId(), "ephemeral and sequential has an owner");

        String box = root + "/container";
        create(zk, box, CreateMode.CONTAINER);
        check(zk.exists(box, false).getEphemeralOwner() == 0, "a container has no owner");
        String brief = root + "/ttl";
        zk.create(brief, bytes(""), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 3_600_000);
        check(zk.exists(brief, false).getEphemeralOwner() == 0, "a TTL node has no owner"); // the server hides its mark
        String numbered = zk.create(
                line + "/t-", bytes(""), OPEN, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, new Stat(), 3_600_000);
        check(numbered.equals(line + "/t-0000000005"), "TTL and sequential: " + numbered);
    }

    /** The server answers pipelined requests in the order in which the client sent them. */
    private static void pipelining(ZooKeeper zk, String root) throws Exception {
        String a = root + "/pipeline";
        create(zk, a);
        int many = 500;
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch answered = new CountDownLatch(2 * many + 1);
        for (int i = 0; i < many; i++) {
            zk.setData(a, bytes("v" + i), i, (rc, path, ctx, stat) -> {
                if (rc == 0) {
                    order.add((Integer) ctx);
                }
                answered.countDown();
            }, 2 * i);
            zk.getData(a, false, (rc, path, ctx, data, stat) -> {
                if (rc == 0 && text(data).equals("v" + ((Integer) ctx / 2))) {
                    order.add((Integer) ctx);
                }
                answered.countDown();
            }, 2 * i + 1);
        }
        CompletableFuture<String> synced = new CompletableFuture<>();
        zk.sync(a, (rc, path, ctx) -> {
            synced.complete(rc + " " + path);
            answered.countDown();
        }, null);
        check(answered.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "all requests in flight are answered");
        check(synced.get().equals("0 " + a), "sync answers with its path: " + synced.get());
        check(order.size() == 2 * many, "each request in flight saw what was written before it: " + order.size());
        for (int i = 0; i < 2 * many; i++) {
            check(order.get(i) == i, "answers come in the order of the requests");
        }
    }

    private static void sessions(Session main, String root) throws Exception {
        String own = root + "/of-a-session";
        Events seen = new Events();
        try (Session brief = new Session(hosts)) {
            create(brief.zk, own, CreateMode.EPHEMERAL);
            main.sync(root); // on an ensemble the other server may lag
            check(main.zk.exists(own, seen).getEphemeralOwner() == brief.zk.getSessionId(), "another session sees the node");
            check(brief.zk.getSessionId() != main.zk.getSessionId(), "two sessions have two ids");
        }
        seen.expect(EventType.NodeDeleted, own);
        check(main.zk.exists(own, false) == null, "an ephemeral node ends with its session");

        // A client can resume a session only with its password. On a real server an attempt with a wrong password closes
        // the owner's connection, but not its session. So this check uses a session that does nothing else.
        String guarded = root + "/guarded";
        try (Session owner = new Session(hosts)) {
            create(owner.zk, guarded, CreateMode.EPHEMERAL);
            byte[] wrong = owner.zk.getSessionPasswd().clone();
            wrong[0] ^= 1;
            Events states = new Events();
            ZooKeeper thief = new ZooKeeper(hosts, SESSION_TIMEOUT_MS, states, owner.zk.getSessionId(), wrong);
            states.expectState(KeeperState.Expired);
            thief.close();
            main.sync(root);
            check(main.zk.exists(guarded, false) != null, "a wrong password does not end the session");
        }
    }

    // ---- multi ---------------------------------------------------------------------------------------------------------

    private static void multiSucceeds(ZooKeeper zk, String root) throws Exception {
        String a = root + "/a";
        List<OpResult> results = zk.multi(List.of(
                Op.create(a, bytes("1"), OPEN, CreateMode.PERSISTENT),
                Op.check(a, 0),
                Op.setData(a, bytes("2"), 0),
                Op.create(a + "/s-", bytes(""), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create(a + "/x", bytes(""), OPEN, CreateMode.CONTAINER),
                Op.create(a + "/t", bytes(""), OPEN, CreateMode.PERSISTENT_WITH_TTL, 3_600_000),
                Op.delete(a + "/x", -1)));
        check(results.size() == 7, "one result per operation");
        check(((OpResult.CreateResult) results.get(0)).getPath().equals(a), "a create's result");
        check(results.get(1) instanceof OpResult.CheckResult, "a check's result");
        check(((OpResult.SetDataResult) results.get(2)).getStat().getVersion() == 1, "a setData's result");
        check(((OpResult.CreateResult) results.get(3)).getPath().equals(a + "/s-0000000000"), "a sequential create's result");
        check(((OpResult.CreateResult) results.get(4)).getPath().equals(a + "/x"), "a container's result");
        check(((OpResult.CreateResult) results.get(5)).getPath().equals(a + "/t"), "a TTL create's result");
        check(results.get(6) instanceof OpResult.DeleteResult, "a delete's result");

        Stat stat = new Stat();
        check(text(zk.getData(a, false, stat)).equals("2"), "the writes were done");
        check(stat.getCzxid() == stat.getMzxid() && stat.getCzxid() == stat.getPzxid(), "all in one transaction");
        check(zk.exists(a + "/s-0000000000", false).getEphemeralOwner() == zk.getSessionId(), "an ephemeral from a multi");
        check(zk.exists(a + "/t", false).getEphemeralOwner() == 0, "a TTL node from a multi");
        check(zk.exists(a + "/x", false) == null, "a node created and deleted in one transaction does not exist");
        check(zk.multi(List.of()).isEmpty(), "an empty multi has an empty answer");
        check(zk.transaction().check(a, 1).setData(a, bytes("3"), 1).commit().size() == 2, "the transaction builder");
    }

    private static void multiFails(ZooKeeper zk, String root) throws Exception {
        String b = root + "/b";
        zk.create(b, bytes("1"), OPEN, CreateMode.PERSISTENT);
        List<Op> ops = List.of(
                Op.setData(b, bytes("2"), 0),
                Op.create(b + "/c", bytes(""), OPEN, CreateMode.PERSISTENT),
                Op.check(b, 9),
                Op.delete(root + "/absent", -1));
        KeeperException e = fails(Code.BADVERSION, () -> zk.multi(ops));
        List<Integer> codes = e.getResults().stream().map(r -> ((OpResult.ErrorResult) r).getErr()).collect(Collectors.toList());
        check(codes.equals(List.of(0, 0, Code.BADVERSION.intValue(), Code.RUNTIMEINCONSISTENCY.intValue())),
                "operations before the failure have the code 0, those after it -2: " + codes);
        Stat stat = new Stat();
        check(text(zk.getData(b, false, stat)).equals("1") && stat.getVersion() == 0, "a failed multi writes no data");
        check(stat.getNumChildren() == 0 && stat.getCversion() == 0, "a failed multi creates no child");
        check(create(zk, b + "/n-", SEQUENTIAL).endsWith("0000000000"), "a create that was rolled back takes no number");

        e = fails(Code.NODEEXISTS, () -> zk.multi(List.of(
                Op.create(b, bytes(""), OPEN, CreateMode.PERSISTENT), Op.delete(b, -1))));
        check(e.getResults().size() == 2, "one result per operation in a failure too");
        fails(Code.NONODE, () -> zk.multi(List.of(Op.check(root + "/absent", -1))));
        fails(Code.NOTEMPTY, () -> zk.multi(List.of(Op.delete(b, -1))));
    }

    private static void multiReads(ZooKeeper zk, String root) throws Exception {
        String r = root + "/r";
        zk.create(r, bytes("read"), OPEN, CreateMode.PERSISTENT);
        create(zk, r + "/c");
        List<OpResult> results = zk.multi(List.of(Op.getData(r), Op.getChildren(root + "/absent"), Op.getChildren(r)));
        check(text(((OpResult.GetDataResult) results.get(0)).getData()).equals("read"), "a read in a multi");
        check(((OpResult.ErrorResult) results.get(1)).getErr() == Code.NONODE.intValue(), "after a failed read");
        check(((OpResult.GetChildrenResult) results.get(2)).getChildren().equals(List.of("c")), "a listing in a multi");
    }

    private static void multiFiresWatches(Session main, ZooKeeper writer, String root) throws Exception {
        String w = root + "/w";
        Events seen = new Events();
        create(writer, w);
        main.sync(w);
        main.zk.getData(w, seen, null);
        main.zk.exists(w + "/x", seen);
        main.zk.getChildren(w, seen);
        fails(Code.NODEEXISTS, () -> writer.multi(List.of(
                Op.setData(w, bytes("1"), -1),
                Op.create(w, bytes(""), OPEN, CreateMode.PERSISTENT))));
        seen.expectNothing(main); // a failed multi fires nothing
        writer.multi(List.of(
                Op.setData(w, bytes("1"), -1),
                Op.create(w + "/x", bytes(""), OPEN, CreateMode.PERSISTENT)));
        seen.expect(EventType.NodeDataChanged, w);
        seen.expect(EventType.NodeCreated, w + "/x");
        seen.expect(EventType.NodeChildrenChanged, w);
    }

    // ---- acl -----------------------------------------------------------------------------------------------------------

    private static void acls(ZooKeeper zk, String root) throws Exception {
        String a = root + "/open";
        create(zk, a);
        Stat stat = new Stat();
        check(zk.getACL(a, stat).equals(OPEN) && stat.getAversion() == 0, "getACL shows what create set");
        List<ACL> readOnly = Arrays.asList( // not List.of: the client calls contains(null), which throws
                new ACL(Perms.READ | Perms.ADMIN, Ids.ANYONE_ID_UNSAFE));
        check(zk.setACL(a, readOnly, 0).getAversion() == 1, "setACL counts up aversion");
        fails(Code.BADVERSION, () -> zk.setACL(a, OPEN, 0));
        check(zk.getACL(a, stat).equals(readOnly) && stat.getVersion() == 0, "setACL leaves the version");
        check(zk.getData(a, false, null).length == 0, "READ is granted");
        fails(Code.NOAUTH, () -> zk.setData(a, bytes("x"), -1));
        fails(Code.NOAUTH, () -> zk.create(a + "/c", null, OPEN, CreateMode.PERSISTENT));
        fails(Code.NOAUTH, () -> zk.multi(List.of(Op.setData(a, bytes("x"), -1))));
        fails(Code.NONODE, () -> zk.getACL(root + "/absent", null));
        fails(Code.NONODE, () -> zk.setACL(root + "/absent", readOnly, -1));
        // This client has no identity.
        fails(Code.INVALIDACL, () -> zk.create(root + "/x", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        fails(Code.INVALIDACL, () -> zk.create(
                root + "/x", null, Arrays.asList(new ACL(Perms.ALL, new Id("nosuchscheme", "x"))), CreateMode.PERSISTENT));
        zk.delete(a, -1); // the parent's ACL decides on deletes
    }

    private static void digest(String root) throws Exception {
        String a = root + "/secret";
        String id = DigestAuthenticationProvider.generateDigest("user:secret");
        try (Session owner = new Session(hosts); Session stranger = new Session(hosts); Session late = new Session(hosts)) {
            owner.zk.addAuthInfo("digest", bytes("user:secret"));
            owner.zk.create(a, bytes("s"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            List<ACL> expected = List.of(new ACL(Perms.ALL, new Id("digest", id)));
            check(owner.zk.getACL(a, null).equals(expected), "CREATOR_ALL_ACL names the creator: " + owner.zk.getACL(a, null));
            owner.zk.create(a + "/c", bytes(""), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            check(text(owner.zk.getData(a, false, null)).equals("s"), "the owner reads");

            ZooKeeper other = stranger.zk;
            stranger.sync(root); // no check of exists: it needs no permission up to 3.8.3 and 3.9.1, READ later
            fails(Code.NOAUTH, () -> other.getData(a, false, null));
            fails(Code.NOAUTH, () -> other.getChildren(a, false));
            fails(Code.NOAUTH, () -> other.getACL(a, null));
            fails(Code.NOAUTH, () -> other.setACL(a, OPEN, -1));
            fails(Code.NOAUTH, () -> other.setData(a, bytes("x"), -1));
            fails(Code.NOAUTH, () -> other.delete(a + "/c", -1));
            other.addAuthInfo("digest", bytes("user:guess"));
            fails(Code.NOAUTH, () -> other.getData(a, false, null));

            late.zk.addAuthInfo("digest", bytes("other:one"));
            late.zk.addAuthInfo("digest", bytes("user:secret")); // a session can have several identities
            check(text(late.zk.getData(a, false, null)).equals("s"), "the right password opens it");
            check(late.zk.setData(a, bytes("t"), 0).getVersion() == 1, "the right password allows writes");

            // A client that may read a node but not administer it gets its ACL without the hashes.
            owner.zk.setACL(a, Arrays.asList(
                    new ACL(Perms.ALL, new Id("digest", id)), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), -1);
            stranger.sync(a);
            check(other.getACL(a, null).get(0).equals(new ACL(Perms.ALL, new Id("digest", "user:x"))),
                    "hashes are hidden: " + other.getACL(a, null));
            check(text(other.getData(a, false, null)).equals("t"), "READ for anyone");
            owner.zk.delete(a + "/c", -1);
            owner.zk.delete(a, -1);
        }
    }

    // ---- lock ----------------------------------------------------------------------------------------------------------

    /** The recipe of ZooKeeper's documentation, by hand: a queue of ephemeral nodes, each waits for the one before it. */
    private static void lock(Session main, Session other, String root) throws Exception {
        try (Session third = new Session(hosts)) {
            List<Session> sessions = List.of(main, other, third);
            List<String> nodes = new ArrayList<>();
            for (Session session : sessions) {
                nodes.add(create(session.zk, root + "/lock-", CreateMode.EPHEMERAL_SEQUENTIAL));
            }
            List<Events> waits = new ArrayList<>();
            for (int i = 0; i < nodes.size(); i++) {
                Session session = sessions.get(i);
                session.sync(root);
                List<String> line = new ArrayList<>(session.zk.getChildren(root, false));
                Collections.sort(line);
                check(line.size() == 3 && (root + "/" + line.get(i)).equals(nodes.get(i)), "places in the queue: " + line);
                waits.add(new Events());
                if (i > 0) {
                    session.zk.getData(nodes.get(i - 1), waits.get(i), null);
                }
            }
            waits.get(1).expectNothing(other);
            main.zk.delete(nodes.get(0), -1); // release
            waits.get(1).expect(EventType.NodeDeleted, nodes.get(0));
            waits.get(2).expectNothing(third); // no herd
            other.close(); // the end of a session releases its lock
            waits.get(2).expect(EventType.NodeDeleted, nodes.get(1));
            check(third.zk.getChildren(root, false).size() == 1, "the last in the queue holds the lock");
        }
    }
}
