// Curator's InterProcessMutex as a contender: N threads, each with its own session, take one lock in turn.
//
// A test runs this program next to lockkeeper's own contenders on the same lock path. Each round reads a shared counter,
// waits, and writes the counter plus one with version -1. So the counter ends at the number of rounds only if no two
// contenders ever held the lock at once. The printed intervals show who held the lock when.
//
// Arguments: HOSTS LOCK_PATH COUNTER_PATH CONTENDERS ROUNDS [HOLD_MS]     (ROUNDS is per contender)
// stdout:    ready                                     all sessions are connected; the program waits for "go" on stdin
//            held THREAD VALUE START_MS END_MS         one per round: the written value, and the times (ms since 1970, this
//                                                      machine's clock) after acquire returned and before release was called
//            done ROUNDS_TOTAL                         the last line
// Exit status: 0; 1 when a contender failed (the reason is on stderr); 2 for bad usage or an end of stdin before "go".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

public final class CuratorContender {
    private static final int SESSION_TIMEOUT_MS = 10_000;
    private static final int CONNECT_TIMEOUT_MS = 10_000;

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // the other contenders' threads would keep the process alive
        }
    }

    private static void run(String[] args) throws Exception {
        if (args.length < 5 || args.length > 6) {
            System.err.println("usage: CuratorContender HOSTS LOCK_PATH COUNTER_PATH CONTENDERS ROUNDS [HOLD_MS]");
            System.exit(2);
        }
        String hosts = args[0];
        String lockPath = args[1];
        String counterPath = args[2];
        int contenders = Integer.parseInt(args[3]);
        int rounds = Integer.parseInt(args[4]);
        long holdMs = args.length > 5 ? Long.parseLong(args[5]) : 0;

        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            clients.add(connect(hosts));
        }
        makeCounter(clients.get(0), counterPath);
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (!"go".equals(in.readLine())) {
            System.err.println("expected the line \"go\" on stdin");
            System.exit(2);
        }

        ExecutorService pool = Executors.newFixedThreadPool(contenders);
        List<Future<Integer>> running = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            running.add(pool.submit(contender(i, clients.get(i), lockPath, counterPath, rounds, holdMs)));
        }
        int total = 0;
        for (Future<Integer> one : running) {
            total += one.get(); // throws what the contender threw
        }
        pool.shutdown();
        for (CuratorFramework client : clients) {
            client.close();
        }
        say("done " + total);
    }

    private static CuratorFramework connect(String hosts) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                hosts, SESSION_TIMEOUT_MS, CONNECT_TIMEOUT_MS, new ExponentialBackoffRetry(50, 5));
        client.start();
        if (!client.blockUntilConnected(CONNECT_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no connection to " + hosts + " within " + CONNECT_TIMEOUT_MS + " ms");
        }
        return client;
    }

    /** Creates the counter. If the test has created it already, its value stays. */
    private static void makeCounter(CuratorFramework client, String path) throws Exception {
        try {
            client.create().creatingParentsIfNeeded().forPath(path, encode(0));
        } catch (KeeperException.NodeExistsException e) {
            // That is the usual case.
        }
    }

    private static Callable<Integer> contender(
            int id, CuratorFramework client, String lockPath, String counterPath, int rounds, long holdMs) {
        return () -> {
            InterProcessMutex mutex = new InterProcessMutex(client, lockPath);
            for (int round = 0; round < rounds; round++) {
                mutex.acquire();
                try {
                    long start = System.currentTimeMillis();
                    long value = Long.parseLong(
                            new String(client.getData().forPath(counterPath), StandardCharsets.UTF_8));
                    Thread.sleep(holdMs);
                    client.setData().withVersion(-1).forPath(counterPath, encode(value + 1));
                    long end = System.currentTimeMillis();
                    say("held " + id + " " + (value + 1) + " " + start + " " + end);
                } finally {
                    mutex.release();
                }
            }
            return rounds;
        };
    }

    private static byte[] encode(long value) {
        return Long.toString(value).getBytes(StandardCharsets.UTF_8);
    }

    /** Prints and flushes one whole line at a time, because the test at the other end of the pipe waits for it. */
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
