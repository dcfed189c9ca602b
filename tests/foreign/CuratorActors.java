// Runs Curator's recipes, one step at a time, as a test commands on stdin.
//
// A test uses this program to bring Curator and lockkeeper into one exact situation: who holds, who waits, who leaves.
// Each actor is a thread with its own session, because Curator's locks belong to threads. The first command that names an
// actor creates it. An actor runs its commands in order; different actors run at the same time.
//
// Arguments: HOSTS
// stdin:     ACTOR VERB ARGUMENTS..        at the end of stdin the program closes all sessions
// stdout:    ready                         once, at the start
//            ACTOR VERB RESULTS..          when a step is done; a later event has its own word (in brackets below)
//   read PATH | write PATH | mutex PATH          acquired
//   unread PATH | unwrite PATH | unmutex PATH    released again
//   revocable PATH                               acquires as mutex does; [asked] at a request to release (unmutex)
//   revoke NODE_PATH                             asks the holder to release
//   latch PATH ID | unlatch PATH                 starts or stops to stand as ID; [leads], [follows] when that changes
//   ids PATH                                     the ids of the candidates, in order, the leader's first
//   select PATH ID | unselect PATH               stands for LeaderSelector as ID; [leads] when it does, until unselect
//   selectors PATH                               the ids of the candidates, as LeaderSelector sees them
//   follow PATH                                  N: SharedCount's value; [now] N when it changes
//   count PATH N                                 sets the SharedCount to N; the actor must follow it
//   lease PATH COUNT_PATH                        acquired, from a semaphore whose limit is a SharedCount that the actor follows
//   unlease PATH                                 returned
// Exit status: 0; 1 when an actor fails (the reason is on stderr); 2 for bad usage.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class CuratorActors {
    private static final int SESSION_TIMEOUT_MS = 10_000;
    private static final int CONNECT_TIMEOUT_MS = 10_000;

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: CuratorActors HOSTS");
            System.exit(2);
        }
        Map<String, Actor> actors = new HashMap<>();
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            actors.computeIfAbsent(words[0], name -> new Actor(name, args[0])).tell(words);
        }
        for (Actor actor : actors.values()) {
            actor.end();
        }
        System.exit(0);
    }

    /** A thread with a session. Everything below runs in that thread. */
    private static final class Actor {
        private final String name;
        private final String hosts;
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
        private final Map<String, InterProcessReadWriteLock> locks = new HashMap<>();
        private final Map<String, LeaderLatch> latches = new HashMap<>();
        private final Map<String, LeaderSelector> selectors = new HashMap<>();
        private final Map<String, SharedCount> counts = new HashMap<>();
        private CountDownLatch resigned;
        private InterProcessSemaphoreV2 semaphore;
        private Lease lease;
        private CuratorFramework client;

        Actor(String name, String hosts) {
            this.name = name;
            this.hosts = hosts;
        }

        void tell(String[] words) {
            thread.execute(() -> {
                try {
                    if (client == null) {
                        client = connect(hosts);
                    }
                    event(words[1], act(words));
                } catch (Throwable e) {
                    System.err.println(String.join(" ", words));
                    e.printStackTrace();
                    System.exit(1); // the other actors would keep the process alive
                }
            });
        }

        void end() throws InterruptedException {
            thread.shutdown();
            thread.awaitTermination(CONNECT_TIMEOUT_MS, TimeUnit.MILLISECONDS);
            if (client != null) {
                client.close();
            }
        }

        private void event(String verb, Object results) {
            say((name + " " + verb + " " + results).trim());
        }

        private Object act(String[] words) throws Exception {
            String path = words[2];
            switch (words[1]) {
                case "read":
                    lock(path).readLock().acquire();
                    return "";
                case "write":
                    lock(path).writeLock().acquire();
                    return "";
                case "mutex":
                    mutex(path).acquire();
                    return "";
                case "revocable":
                    mutex(path).makeRevocable(mutex -> event("asked", ""));
                    mutex(path).acquire();
                    return "";
                case "unread":
                    lock(path).readLock().release();
                    return "";
                case "unwrite":
                    lock(path).writeLock().release();
                    return "";
                case "unmutex":
                    mutex(path).release();
                    return "";
                case "revoke":
                    Revoker.attemptRevoke(client, path);
                    return "";
                case "latch":
                    latches.put(path, latch(path, words[3]));
                    return "";
                case "unlatch":
                    latches.remove(path).close();
                    return "";
                case "ids":
                    return ids(latches.get(path).getParticipants());
                case "select":
                    selectors.put(path, selector(path, words[3]));
                    return "";
                case "unselect":
                    resigned.countDown(); // not close(): it would interrupt the thread that releases the lock
                    return "";
                case "selectors":
                    return ids(selectors.get(path).getParticipants());
                case "follow":
                    counts.put(path, follow(path));
                    return counts.get(path).getCount();
                case "count":
                    counts.get(path).setCount(number(words[3]));
                    return "";
                case "lease":
                    semaphore = new InterProcessSemaphoreV2(client, path, counts.get(words[3]));
                    lease = semaphore.acquire();
                    return "";
                case "unlease":
                    semaphore.returnLease(lease);
                    return "";
                default:
                    throw new IllegalArgumentException(words[1]);
            }
        }

        private InterProcessMutex mutex(String path) {
            return mutexes.computeIfAbsent(path, it -> new InterProcessMutex(client, it));
        }

        private InterProcessReadWriteLock lock(String path) {
            return locks.computeIfAbsent(path, it -> new InterProcessReadWriteLock(client, it));
        }

        private LeaderLatch latch(String path, String id) throws Exception {
            LeaderLatch latch = new LeaderLatch(client, path, id);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    event("leads", "");
                }

                @Override
                public void notLeader() {
                    event("follows", "");
                }
            });
            latch.start();
            return latch;
        }

        private LeaderSelector selector(String path, String id) {
            CountDownLatch resign = new CountDownLatch(1);
            resigned = resign;
            LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws InterruptedException {
                    event("leads", "");
                    resign.await();
                }
            });
            selector.setId(id);
            selector.start();
            return selector;
        }

        private SharedCount follow(String path) throws Exception {
            SharedCount count = new SharedCount(client, path, 0);
            count.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int now) {
                    event("now", now);
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {
                    // The session does not end in these tests.
                }
            });
            count.start();
            return count;
        }
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

    private static String ids(Iterable<Participant> participants) {
        StringJoiner ids = new StringJoiner(" ");
        for (Participant participant : participants) {
            ids.add(participant.getId());
        }
        return ids.toString();
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    /** Prints and flushes one whole line at a time, because the test at the other end of the pipe waits for it. */
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
