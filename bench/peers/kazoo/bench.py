#!/usr/bin/env python3
"""The workloads with kazoo: its threading handler, its Lock recipe, and its `*_async` calls for many requests in flight.

Not here: the meaning of the workloads and of the printed line (../../src).
"""

import json, logging, os, resource, sys, threading, time
from kazoo.client import KazooClient

logging.disable(logging.CRITICAL)
IMPL = "kazoo"
host, workload, secs, param = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
now = time.perf_counter


def kb(key):
    with open("/proc/self/status") as f:
        for l in f:
            if l.startswith(key):
                return int(l.split()[1])


def cpu():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime, r.ru_stime


def connect():
    c = KazooClient(hosts=host, timeout=10)
    c.start(timeout=20)
    return c


rss0 = kb("VmRSS:")
t = now()
sessions = param if workload in ("idle_sessions", "lock_contended") else 1
cs = [connect() for _ in range(sessions)]
connect_s = now() - t
c = cs[0]
root = "/lockkeeper-bench-%d" % os.getpid()
lat, threads, failed = [], [], []
inside, violations = 0, 0
guard = threading.Lock()
done = threading.Semaphore(0)
warm = float(os.environ.get("BENCH_WARMUP_S", "0.7"))
chains = 0

if workload != "idle_sessions":
    c.create(root)
    c.create(root + "/data", b"x" * 100)
    c.create(root + "/lock")
    if workload == "lock_uncontended":
        for i in range(param):
            c.create("%s/l%04d" % (root, i))
T0 = T1 = float("inf")  # set after all tasks have started, which can take seconds under the GIL


def rec(out, s):
    e = now()
    if e >= T1:
        return False
    if e >= T0:
        out.append(e - s)
    return True


def lock_loop(client, path, check):
    global inside, violations
    out = []
    try:
        lock = client.Lock(path)
        while True:
            s = now()
            lock.acquire()
            if check:
                with guard:
                    if inside:
                        violations += 1
                    inside += 1
                with guard:
                    inside -= 1
            lock.release()
            if not rec(out, s):
                break
    except Exception as e:  # reported by the main thread
        failed.append(repr(e))
    with guard:
        lat.extend(out)


def get_chain(path):
    def issue():
        st = now()

        def cb(r):
            assert len(r.get()[0]) == 100
            if rec(lat, st):
                issue()
            else:
                done.release()

        c.get_async(path).rawlink(cb)

    issue()


def cd_chain(path):
    def issue():
        st = now()

        def created(r):
            r.get()
            c.delete_async(path).rawlink(deleted)

        def deleted(r):
            r.get()
            if rec(lat, st):
                issue()
            else:
                done.release()

        c.create_async(path, b"", ephemeral=True).rawlink(created)

    issue()


if workload.startswith("lock"):
    for i in range(param):
        path = "%s/l%04d" % (root, i) if workload == "lock_uncontended" else root + "/lock"
        threads.append(
            threading.Thread(
                target=lock_loop, args=(cs[i % len(cs)], path, workload != "lock_uncontended"), daemon=True
            )
        )
        threads[-1].start()
elif workload == "get_pipelined":
    chains = param
    for i in range(param):
        get_chain(root + "/data")
elif workload == "create_delete":
    chains = param
    for i in range(param):
        cd_chain("%s/e%04d" % (root, i))

T0 = now() + warm
T1 = T0 + secs
time.sleep(max(0, T0 - now()))
sys.stderr.write("@start\n")
sys.stderr.flush()
a, u0 = now(), cpu()
time.sleep(max(0, T1 - now()))
b, u1 = now(), cpu()
sys.stderr.write("@end\n")
sys.stderr.flush()
for x in threads:
    x.join(20)
for _ in range(chains):
    done.acquire(timeout=20)
el, user, sy = b - a, u1[0] - u0[0], u1[1] - u0[1]
if failed or any(x.is_alive() for x in threads):
    print(json.dumps({"impl": IMPL, "workload": workload, "skip": "failed: %s" % (failed[:1] or "stuck")}))
    os._exit(3)
lat.sort()
q = lambda p: round(lat[min(len(lat) - 1, int(len(lat) * p))] * 1e6, 1) if lat else 0
idle = workload == "idle_sessions"
ops = param if idle else len(lat)
r = {
    "impl": IMPL,
    "workload": workload,
    "param": param,
    "ops": ops,
    "secs": round(el, 4),
    "ops_per_s": round(param / connect_s if idle else ops / el, 1),
    "p50_us": q(0.5),
    "p99_us": q(0.99),
    "cpu_user_s": round(user, 4),
    "cpu_sys_s": round(sy, 4),
    "max_rss_kb": kb("VmHWM:"),
}
if idle:
    r.update(
        connect_s=round(connect_s, 3),
        rss_per_session_kb=round((kb("VmRSS:") - rss0) / param, 1),
        cpu_us_per_session_s=round((user + sy) * 1e6 / param / el, 2),
    )
if workload in ("lock_contended", "lock_shared_session"):
    r["violations"] = violations
print(json.dumps(r))
sys.stdout.flush()
os._exit(0)
