// The workloads with Curator's recipes and its background calls.
//
// -Dbench.raw=true: use the plain ZooKeeper handle, which has no locks.
// -Dbench.onemutex=true: the threads of lock_shared_session share one InterProcessMutex.
// Not here: the meaning of the workloads and of the printed line (../../src).
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.nio.file.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.api.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.*;

public class Bench {
    static final int SUB = 64;
    static final class Hist {
        final long[] b = new long[64 * SUB];
        long n;
        void add(long ns) {
            long v = Math.max(ns, 64);
            int e = 63 - Long.numberOfLeadingZeros(v);
            b[(e - 6) * SUB + ((int)(v >> (e - 6)) & 63)]++;
            n++;
        }
        void merge(Hist o) {
            for (int i = 0; i < b.length; i++)
                b[i] += o.b[i];
            n += o.n;
        }
        double us(double q) {
            long want = Math.max(1, (long)Math.ceil(n * q)), c = 0;
            for (int i = 0; i < b.length; i++) {
                c += b[i];
                if (c >= want) {
                    int e = i / SUB + 6;
                    return ((long)(SUB + i % SUB) << (e - 6)) / 1000.0;
                }
            }
            return 0;
        }
    }
    static String host, workload;
    static double secs;
    static int param;
    static volatile long t0 = Long.MAX_VALUE, t1 = Long.MAX_VALUE;
    static final AtomicInteger inside = new AtomicInteger();
    static final AtomicLong violations = new AtomicLong();
    static final boolean RAW = Boolean.getBoolean("bench.raw");
    static String impl = System.getProperty("bench.impl", "curator");

    static double[] cpu() throws Exception { // utime and stime in seconds, read in clock ticks of 10 ms
        String s = new String(Files.readAllBytes(Paths.get("/proc/self/stat")));
        String[] f = s.substring(s.lastIndexOf(')') + 2).split(" ");
        return new double[] {Long.parseLong(f[11]) / 100.0, Long.parseLong(f[12]) / 100.0};
    }
    static long kb(String key) throws Exception {
        for (String l : Files.readAllLines(Paths.get("/proc/self/status")))
            if (l.startsWith(key))
                return Long.parseLong(l.replaceAll("[^0-9]", ""));
        return 0;
    }
    static CuratorFramework connect() throws Exception {
        CuratorFramework c =
            CuratorFrameworkFactory.newClient(host, 10000, 10000, new ExponentialBackoffRetry(100, 3));
        c.start();
        c.blockUntilConnected();
        return c;
    }
    static boolean rec(Hist h, long s, long now) {
        if (now >= t1)
            return false;
        if (now >= t0)
            h.add(now - s);
        return true;
    }

    static Hist lockLoop(InterProcessMutex m, boolean check) throws Exception {
        Hist h = new Hist();
        for (;;) {
            long s = System.nanoTime();
            m.acquire();
            if (check) {
                if (inside.getAndIncrement() != 0)
                    violations.incrementAndGet();
                inside.getAndDecrement();
            }
            m.release();
            if (!rec(h, s, System.nanoTime()))
                return h;
        }
    }
    // A chain of asynchronous operations, with one operation in flight. The callbacks run on the client's event thread.
    static final class Chain {
        final Hist h;
        final CountDownLatch done;
        long s;
        String path;
        CuratorFramework c;
        ZooKeeper zk;
        boolean get;
        Chain(CuratorFramework c, ZooKeeper zk, String path, boolean get, Hist h, CountDownLatch done) {
            this.c = c;
            this.zk = zk;
            this.path = path;
            this.get = get;
            this.h = h;
            this.done = done;
        }
        final BackgroundCallback cb = (cl, ev) -> {
            if (ev.getResultCode() != 0)
                fail(ev.getResultCode());
            if (ev.getType() == CuratorEventType.CREATE) {
                del();
            } else
                fin();
        };
        final AsyncCallback.DataCallback dcb = (rc, p, ctx, data, st) -> {
            if (rc != 0 || data.length != 100)
                fail(rc);
            fin();
        };
        final AsyncCallback.StringCallback scb = (rc, p, ctx, name) -> {
            if (rc != 0)
                fail(rc);
            del();
        };
        final AsyncCallback.VoidCallback vcb = (rc, p, ctx) -> {
            if (rc != 0)
                fail(rc);
            fin();
        };
        void fail(int rc) {
            System.err.println("rc " + rc);
            Runtime.getRuntime().halt(1);
        }
        void go() {
            try {
                s = System.nanoTime();
                if (get) {
                    if (RAW)
                        zk.getData(path, false, dcb, null);
                    else
                        c.getData().inBackground(cb).forPath(path);
                } else {
                    if (RAW)
                        zk.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, scb,
                                  null);
                    else
                        c.create().withMode(CreateMode.EPHEMERAL).inBackground(cb).forPath(path, new byte[0]);
                }
            } catch (Exception e) {
                e.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }
        void del() {
            try {
                if (RAW)
                    zk.delete(path, -1, vcb, null);
                else
                    c.delete().inBackground(cb).forPath(path);
            } catch (Exception e) {
                e.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }
        void fin() {
            if (rec(h, s, System.nanoTime()))
                go();
            else
                done.countDown();
        }
    }
    static String num(double d, int p) {
        return String.format(Locale.ROOT, "%." + p + "f", d);
    }

    public static void main(String[] a) throws Exception {
        host = a[0];
        workload = a[1];
        secs = Double.parseDouble(a[2]);
        param = Integer.parseInt(a[3]);
        String w = System.getenv("BENCH_JVM_WARMUP_S");
        double warm = w == null ? 4 : Double.parseDouble(w);
        System.gc();
        long rss0 = kb("VmRSS");
        if (Boolean.getBoolean("bench.onemutex") && !workload.equals("lock_shared_session")) {
            System.out.println("{\"impl\":\"" + impl + "\",\"workload\":\"" + workload +
                               "\",\"skip\":\"variant for lock_shared_session only\"}");
            System.exit(3);
        }
        if (RAW && workload.startsWith("lock")) {
            System.out.println("{\"impl\":\"" + impl + "\",\"workload\":\"" + workload +
                               "\",\"skip\":\"raw handle: no recipe\"}");
            System.exit(3);
        }
        List<CuratorFramework> cs = new ArrayList<>();
        boolean idle = workload.equals("idle_sessions");
        long c0 = System.nanoTime();
        int sessions = idle || workload.equals("lock_contended") ? param : 1;
        for (int i = 0; i < sessions; i++)
            cs.add(connect());
        double connectS = (System.nanoTime() - c0) / 1e9;
        CuratorFramework c = cs.get(0);
        String root = "/lockkeeper-bench-" + ProcessHandle.current().pid();
        List<Future<Hist>> fs = new ArrayList<>();
        Hist h = new Hist();
        CountDownLatch done = null;
        if (!idle) {
            c.create().forPath(root, new byte[0]);
            c.create().forPath(root + "/data", new byte[100]);
            c.create().forPath(root + "/lock", new byte[0]);
            boolean own = workload.equals("lock_uncontended");
            if (own)
                for (int i = 0; i < param; i++)
                    c.create().forPath(String.format("%s/l%04d", root, i), new byte[0]);
            long base = System.nanoTime() + (long)(warm * 1e9);
            t0 = base;
            t1 = base + (long)(secs * 1e9);
            if (workload.startsWith("lock")) {
                ExecutorService ex = Executors.newFixedThreadPool(param);
                InterProcessMutex shared =
                    workload.equals("lock_shared_session") && Boolean.getBoolean("bench.onemutex")
                        ? new InterProcessMutex(c, root + "/lock")
                        : null;
                for (int i = 0; i < param; i++) {
                    InterProcessMutex m =
                        shared != null ? shared
                        : own          ? new InterProcessMutex(c, String.format("%s/l%04d", root, i))
                                       : new InterProcessMutex(cs.get(i % cs.size()), root + "/lock");
                    fs.add(ex.submit(() -> lockLoop(m, !own)));
                }
            } else {
                done = new CountDownLatch(param);
                ZooKeeper zk = c.getZookeeperClient().getZooKeeper();
                boolean get = workload.equals("get_pipelined");
                for (int i = 0; i < param; i++)
                    new Chain(c, zk, get ? root + "/data" : String.format("%s/e%04d", root, i), get, h, done)
                        .go();
            }
        } else {
            long base = System.nanoTime() + (long)(0.7e9);
            t0 = base;
            t1 = base + (long)(secs * 1e9);
        }
        TimeUnit.NANOSECONDS.sleep(t0 - System.nanoTime());
        System.err.println("@start");
        double[] u0 = cpu();
        long b0 = System.nanoTime();
        TimeUnit.NANOSECONDS.sleep(t1 - System.nanoTime());
        double[] u1 = cpu();
        long b1 = System.nanoTime();
        System.err.println("@end");
        double el = (b1 - b0) / 1e9, us = u1[0] - u0[0], sy = u1[1] - u0[1];
        if (done != null && !done.await(15, TimeUnit.SECONDS))
            throw new Exception("stuck");
        for (Future<Hist> f : fs)
            h.merge(f.get(20, TimeUnit.SECONDS));
        long ops = idle ? param : h.n;
        String x = idle ? ",\"connect_s\":" + num(connectS, 3) +
                              ",\"rss_per_session_kb\":" + num((kb("VmRSS") - rss0) / (double)param, 1) +
                              ",\"cpu_us_per_session_s\":" + num((us + sy) * 1e6 / param / el, 2)
                   : workload.equals("lock_contended") || workload.equals("lock_shared_session")
                       ? ",\"violations\":" + violations.get()
                       : "";
        System.out.println("{\"impl\":\"" + impl + "\",\"workload\":\"" + workload + "\",\"param\":" + param +
                           ",\"ops\":" + ops + ",\"secs\":" + num(el, 4) + ",\"ops_per_s\":" +
                           num(idle ? param / connectS : ops / el, 1) + ",\"p50_us\":" + num(h.us(.5), 1) +
                           ",\"p99_us\":" + num(h.us(.99), 1) + ",\"cpu_user_s\":" + num(us, 4) +
                           ",\"cpu_sys_s\":" + num(sy, 4) + ",\"max_rss_kb\":" + kb("VmHWM") + x + "}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
