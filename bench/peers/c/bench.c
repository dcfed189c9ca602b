/* The workloads with the asynchronous calls of libzookeeper_mt. Each task is a state machine in the completion thread.
 *
 * The library has no lock, so the cycle of lock_uncontended is this program's own: create, list, delete. With -DZKR the
 * program is linked with zoo_lock.c, the lock recipe of the ZooKeeper project. Threads then run the lock workloads with it.
 * Not here: the meaning of the workloads and of the printed line (../../src).
 */
#define _GNU_SOURCE
#define THREADED
#include <zookeeper/zookeeper.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef ZKR
#include "zoo_lock.h"
#define IMPL "c-recipe"
#else
#define IMPL "c"
#endif

typedef struct {
    uint64_t b[4096], n;
} hist;
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void add(hist *h, uint64_t v) {
    if (v < 64)
        v = 64;
    int e = 63 - __builtin_clzll(v);
    h->b[(e - 6) * 64 + ((v >> (e - 6)) & 63)]++;
    h->n++;
}
static double us(hist *h, double q) {
    uint64_t want = h->n * q, c = 0;
    if (want < 1)
        want = 1;
    for (int i = 0; i < 4096; i++) {
        c += h->b[i];
        if (c >= want)
            return ((64ull + i % 64) << (i / 64)) / 1000.0;
    }
    return 0;
}
static long kb(const char *k) {
    FILE *f = fopen("/proc/self/status", "r");
    char l[256];
    long v = 0;
    while (fgets(l, sizeof l, f))
        if (!strncmp(l, k, strlen(k)))
            v = atol(l + strlen(k));
    fclose(f);
    return v;
}
static uint64_t t0, t1;
static hist H; /* used only by the completion thread (async), or under mu (threads) */
#ifdef ZKR
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
#endif
static sem_t done;
static const char *host;
static char root[64];
static int kind; /* 0: get, 1: lock, 2: create_delete */
static void die(const char *w, int rc) {
    fprintf(stderr, "%s: rc %d\n", w, rc);
    _exit(1);
}
static int rec(hist *h, uint64_t s) {
    uint64_t e = now();
    if (e >= t1)
        return 0;
    if (e >= t0)
        add(h, e - s);
    return 1;
}

typedef struct {
    sem_t s;
} conn_ctx;
static void watcher(zhandle_t *z, int type, int state, const char *p, void *ctx) {
    (void)z;
    (void)p;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
        sem_post(&((conn_ctx *)ctx)->s);
}
static zhandle_t *dial(void) {
    conn_ctx *c = calloc(1, sizeof *c);
    sem_init(&c->s, 0, 0);
    zhandle_t *z = zookeeper_init(host, watcher, 10000, 0, c, 0);
    if (!z)
        die("init", -1);
    sem_wait(&c->s);
    return z;
}
typedef struct {
    zhandle_t *z;
    char path[128], create[128], node[160];
    uint64_t s;
} chain;
static void go(chain *c);
static void fin(chain *c) {
    if (rec(&H, c->s))
        go(c);
    else
        sem_post(&done);
}
static void deleted(int rc, const void *d) {
    if (rc)
        die("delete", rc);
    fin((chain *)d);
}
static void got(int rc, const char *v, int n, const struct Stat *st, const void *d) {
    (void)v;
    (void)st;
    if (rc || n != 100)
        die("get", rc);
    fin((chain *)d);
}
static void listed(int rc, const struct String_vector *v, const void *d) {
    chain *c = (chain *)d;
    if (rc)
        die("children", rc);
    const char *me = c->node + strlen(c->node) - 10;
    for (int i = 0; i < v->count; i++)
        if (strcmp(v->data[i] + strlen(v->data[i]) - 10, me) < 0)
            die("not owner", 0);
    if ((rc = zoo_adelete(c->z, c->node, -1, deleted, c)))
        die("adelete", rc);
}
static void created(int rc, const char *name, const void *d) {
    chain *c = (chain *)d;
    if (rc)
        die("create", rc);
    snprintf(c->node, sizeof c->node, "%s", name);
    if (kind == 1)
        rc = zoo_aget_children(c->z, c->path, 0, listed, c);
    else
        rc = zoo_adelete(c->z, c->node, -1, deleted, c);
    if (rc)
        die("submit", rc);
}
static void go(chain *c) {
    int rc;
    c->s = now();
    if (kind == 0)
        rc = zoo_aget(c->z, c->path, 0, got, c);
    else
        rc = zoo_acreate(c->z, c->create, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                         kind == 1 ? ZOO_EPHEMERAL | ZOO_SEQUENCE : ZOO_EPHEMERAL, created, c);
    if (rc)
        die("submit", rc);
}
static void mk(zhandle_t *z, const char *p, int n) {
    char d[100];
    memset(d, 'x', sizeof d);
    int rc = zoo_create(z, p, d, n, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (rc)
        die("mk", rc);
}
static atomic_long violations;
#ifdef ZKR
static atomic_long inside;
typedef struct {
    zkr_lock_mutex_t m;
    sem_t s;
    char path[128];
    int check;
} locker;
static void on_lock(int rc, void *d) {
    if (rc == 0)
        sem_post(&((locker *)d)->s);
}
static void *lock_loop(void *p) {
    locker *l = p;
    hist *h = calloc(1, sizeof *h);
    for (;;) {
        uint64_t s = now();
        zkr_lock_lock(&l->m);
        while (!l->m.id)
            zkr_lock_lock(&l->m); /* the recipe gives up silently when the predecessor's node disappears */
        sem_wait(&l->s);
        if (l->check) {
            if (atomic_fetch_add(&inside, 1))
                violations++;
            inside--;
        }
        int rc = zkr_lock_unlock(&l->m);
        if (rc)
            die("unlock", rc);
        free(l->m.ownerid);
        l->m.ownerid = NULL;
        if (!rec(h, s))
            break;
    }
    pthread_mutex_lock(&mu);
    for (int i = 0; i < 4096; i++)
        H.b[i] += h->b[i];
    H.n += h->n;
    pthread_mutex_unlock(&mu);
    sem_post(&done);
    return NULL;
}
#endif
static void skip(const char *w, const char *why) {
    printf("{\"impl\":\"" IMPL "\",\"workload\":\"%s\",\"skip\":\"%s\"}\n", w, why);
    exit(3);
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    host = argv[1];
    const char *w = argv[2];
    double secs = atof(argv[3]);
    int n = atoi(argv[4]);
    zoo_set_debug_level(0);
    int idle = !strcmp(w, "idle_sessions"), lock = !strncmp(w, "lock", 4),
        sess = idle || !strcmp(w, "lock_contended") ? n : 1;
    int own = !strcmp(w, "lock_uncontended");
    kind = lock ? 1 : !strcmp(w, "create_delete") ? 2 : 0;
#ifdef ZKR
    if (!lock)
        skip(w, "lock recipe only");
    if (!strcmp(w, "lock_shared_session"))
        skip(w, "recipe identifies contenders by session");
#else
    if (lock && !own)
        skip(w, "no lock recipe in the library");
#endif
    long rss0 = kb("VmRSS:");
    uint64_t c0 = now();
    zhandle_t **z = calloc(sess, sizeof *z);
    for (int i = 0; i < sess; i++)
        z[i] = dial();
    double connect_s = (now() - c0) / 1e9;
    sem_init(&done, 0, 0);
    snprintf(root, sizeof root, "/lockkeeper-bench-%d", getpid());
    char p[128];
    const char *wm = getenv("BENCH_WARMUP_S");
    double warm = wm ? atof(wm) : 0.7;
    if (!idle) {
        mk(z[0], root, 0);
        snprintf(p, sizeof p, "%s/data", root);
        mk(z[0], p, 100);
        snprintf(p, sizeof p, "%s/lock", root);
        mk(z[0], p, 0);
        if (own)
            for (int i = 0; i < n; i++) {
                snprintf(p, sizeof p, "%s/l%04d", root, i);
                mk(z[0], p, 0);
            }
    }
    t0 = now() + warm * 1e9;
    t1 = t0 + secs * 1e9;
    int wait = 0;
    if (!idle) {
#ifdef ZKR
        for (int i = 0; i < n; i++, wait++) {
            locker *l = calloc(1, sizeof *l);
            sem_init(&l->s, 0, 0);
            l->check = !own;
            if (own)
                snprintf(l->path, sizeof l->path, "%s/l%04d", root, i);
            else
                snprintf(l->path, sizeof l->path, "%s/lock", root);
            zkr_lock_init_cb(&l->m, z[i % sess], l->path, &ZOO_OPEN_ACL_UNSAFE, on_lock, l);
            pthread_t t;
            pthread_create(&t, NULL, lock_loop, l);
        }
#else
        for (int i = 0; i < n; i++, wait++) {
            chain *c = calloc(1, sizeof *c);
            c->z = z[0];
            if (kind == 0)
                snprintf(c->path, sizeof c->path, "%s/data", root);
            else if (kind == 1) {
                snprintf(c->path, sizeof c->path, "%s/l%04d", root, i);
                snprintf(c->create, sizeof c->create, "%s/l%04d/_c_00000000-0000-0000-0000-%012d-lock-", root,
                         i, i);
            } else
                snprintf(c->create, sizeof c->create, "%s/e%04d", root, i);
            go(c);
        }
#endif
    }
    struct rusage a, b;
    struct timespec ts;
    uint64_t d = t0 - now();
    ts.tv_sec = d / 1000000000;
    ts.tv_nsec = d % 1000000000;
    nanosleep(&ts, 0);
    fputs("@start\n", stderr);
    uint64_t s0 = now();
    getrusage(RUSAGE_SELF, &a);
    d = t1 - now();
    ts.tv_sec = d / 1000000000;
    ts.tv_nsec = d % 1000000000;
    nanosleep(&ts, 0);
    getrusage(RUSAGE_SELF, &b);
    double el = (now() - s0) / 1e9;
    fputs("@end\n", stderr);
#define TV(x) ((x).tv_sec + (x).tv_usec / 1e6)
    double u = TV(b.ru_utime) - TV(a.ru_utime), sy = TV(b.ru_stime) - TV(a.ru_stime);
    struct timespec lim;
    clock_gettime(CLOCK_REALTIME, &lim);
    lim.tv_sec += 20;
    while (wait--)
        if (sem_timedwait(&done, &lim))
            skip(w, "stuck: not all contenders finished");
    double ops = idle ? n : (double)H.n;
    printf("{\"impl\":\"" IMPL
           "\",\"workload\":\"%s\",\"param\":%d,\"ops\":%.0f,\"secs\":%.4f,\"ops_per_s\":%.1f,\"p50_us\":%."
           "1f,\"p99_us\":%.1f,\"cpu_user_s\":%.4f,\"cpu_sys_s\":%.4f,\"max_rss_kb\":%ld",
           w, n, ops, el, idle ? n / connect_s : ops / el, us(&H, .5), us(&H, .99), u, sy, kb("VmHWM:"));
    if (idle)
        printf(",\"connect_s\":%.3f,\"rss_per_session_kb\":%.1f,\"cpu_us_per_session_s\":%.2f", connect_s,
               (kb("VmRSS:") - rss0) / (double)n, (u + sy) * 1e6 / n / el);
    if (lock && !own)
        printf(",\"violations\":%ld", (long)violations);
    printf("}\n");
    fflush(stdout);
    _exit(0);
}
