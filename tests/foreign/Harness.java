// Shared parts of the Java programs' sections: a connected session, a watcher that queues events, checks that throw, and
// a connection that a section can cut. The sections inherit from this class only to call its helpers by their short
// names.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;

abstract class Harness {
    static final int SESSION_TIMEOUT_MS = 10_000;
    /** How long to wait for something that must happen, on a loaded machine. */
    static final long PATIENCE_MS = 15_000;
    /** How long to wait for something that must not happen. */
    static final long SILENCE_MS = 150;

    static final List<ACL> OPEN = Ids.OPEN_ACL_UNSAFE;

    /** A connected client. Its default watcher keeps the state changes after the first connection. */
    static final class Session implements AutoCloseable {
        final Events states = new Events();
        final ZooKeeper zk;

        Session(String hosts) throws Exception {
            zk = new ZooKeeper(hosts, SESSION_TIMEOUT_MS, states);
            states.expectConnected();
        }

        /** Waits until this session's server has seen every write that has been answered before. */
        void sync(String path) throws Exception {
            CompletableFuture<Integer> done = new CompletableFuture<>();
            zk.sync(path, (rc, answered, ctx) -> done.complete(rc), null);
            check(done.get(PATIENCE_MS, TimeUnit.MILLISECONDS) == 0, "sync succeeds");
        }

        @Override
        public void close() {
            try {
                zk.close(); // a second close does nothing
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** A watcher that queues its events. Every watcher also gets the state changes; these have their own queue. */
    static final class Events implements Watcher {
        private final BlockingQueue<WatchedEvent> nodes = new LinkedBlockingQueue<>();
        private final BlockingQueue<WatchedEvent> states = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            (event.getType() == EventType.None ? states : nodes).add(event);
        }

        void expect(EventType type, String path) throws InterruptedException {
            expectWithin(PATIENCE_MS, type, path);
        }

        void expectWithin(long ms, EventType type, String path) throws InterruptedException {
            WatchedEvent event = nodes.poll(ms, TimeUnit.MILLISECONDS);
            check(event != null, "no event, but expected " + type + " " + path);
            check(event.getType() == type && path.equals(event.getPath()), "expected " + type + " " + path + ", got " + event);
            check(event.getState() == KeeperState.SyncConnected, "an event without the state SyncConnected: " + event);
        }

        /** Attempts to connect may fail on a loaded machine. */
        void expectConnected() throws InterruptedException {
            WatchedEvent event;
            do {
                event = states.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
                check(event != null, "not connected in time");
            } while (event.getState() == KeeperState.Disconnected);
            check(event.getState() == KeeperState.SyncConnected, "expected a connection, got " + event);
        }

        void expectState(KeeperState state) throws InterruptedException {
            WatchedEvent event = states.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            check(event != null, "no event, but expected " + state);
            check(event.getState() == state, "expected " + state + ", got " + event);
        }

        /** Sends a request first, because a due event comes before its reply; then waits a moment longer. */
        void expectNothing(Session session) throws Exception {
            session.sync("/");
            WatchedEvent event = nodes.poll(SILENCE_MS, TimeUnit.MILLISECONDS);
            check(event == null, "unexpected: " + event);
        }
    }

    /** Passes bytes between a client and the first of HOSTS until a section cuts it. */
    static final class Relay implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 16, InetAddress.getLoopbackAddress());
        private final List<Socket> open = new ArrayList<>();
        private final String host;
        private final int port;
        private final String chroot;

        Relay(String hosts) throws IOException {
            int slash = hosts.indexOf('/');
            chroot = slash < 0 ? "" : hosts.substring(slash);
            String first = (slash < 0 ? hosts : hosts.substring(0, slash)).split(",")[0];
            int colon = first.lastIndexOf(':');
            host = first.substring(0, colon);
            port = Integer.parseInt(first.substring(colon + 1));
            background(this::accept);
        }

        String hosts() {
            return listener.getInetAddress().getHostAddress() + ":" + listener.getLocalPort() + chroot;
        }

        synchronized void cut() throws IOException {
            for (Socket socket : open) {
                socket.close();
            }
            open.clear();
        }

        @Override
        public void close() throws IOException {
            listener.close();
            cut();
        }

        private void accept() throws IOException {
            while (true) {
                Socket client = listener.accept();
                Socket server = new Socket(host, port);
                synchronized (this) {
                    open.add(client);
                    open.add(server);
                }
                background(() -> copy(client, server));
                background(() -> copy(server, client));
            }
        }

        private void copy(Socket from, Socket to) throws IOException {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] buffer = new byte[64 * 1024];
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                out.write(buffer, 0, n);
            }
            to.close();
        }

        private static void background(Call call) {
            Thread thread = new Thread(() -> {
                try {
                    call.run();
                } catch (Exception e) {
                    // A closed socket ends its thread; the test is about the client's reaction.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }

    interface Call {
        void run() throws Exception;
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static KeeperException fails(Code code, Call call) throws Exception {
        try {
            call.run();
        } catch (KeeperException e) {
            check(e.code() == code, "expected " + code + ", got " + e.code());
            return e;
        }
        throw new AssertionError("expected " + code + ", but it succeeded");
    }

    static String create(ZooKeeper zk, String path) throws Exception {
        return create(zk, path, CreateMode.PERSISTENT);
    }

    /** Creates a node with empty data that is open to all. */
    static String create(ZooKeeper zk, String path, CreateMode mode) throws Exception {
        return zk.create(path, bytes(""), OPEN, mode);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
