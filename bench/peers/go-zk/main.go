// The workloads with go-zookeeper/zk: its Lock recipe, and blocking calls, with one goroutine for each request in flight.
//
// Not here: the meaning of the workloads and of the printed line (../../src).
package main

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

const impl = "go-zk"

type hist struct {
	b [64 * 64]uint64
	n uint64
}

func (h *hist) add(d time.Duration) {
	v := uint64(d)
	if v < 64 {
		v = 64
	}
	e := 63 - bits.LeadingZeros64(v)
	h.b[(e-6)*64+int(v>>(e-6)&63)]++
	h.n++
}
func (h *hist) merge(o *hist) {
	for i, x := range o.b {
		h.b[i] += x
	}
	h.n += o.n
}
func (h *hist) us(q float64) float64 {
	want, c := uint64(float64(h.n)*q), uint64(0)
	if want < 1 {
		want = 1
	}
	for i, x := range h.b {
		c += x
		if c >= want {
			return float64((64+uint64(i%64))<<(i/64)) / 1000
		}
	}
	return 0
}
func cpu() (float64, float64) {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	f := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return f(r.Utime), f(r.Stime)
}
func kb(key string) int {
	s, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(s), "\n") {
		if strings.HasPrefix(l, key) {
			n, _ := strconv.Atoi(strings.Fields(l)[1])
			return n
		}
	}
	return 0
}
func must(err error) {
	if err != nil {
		panic(err)
	}
}
func connect(host string) *zk.Conn {
	c, ev, err := zk.Connect([]string{host}, 10*time.Second, zk.WithLogInfo(false))
	must(err)
	for e := range ev {
		if e.State == zk.StateHasSession {
			break
		}
	}
	go func() {
		for range ev {
		}
	}()
	return c
}

func main() {
	host, workload := os.Args[1], os.Args[2]
	secs, _ := strconv.ParseFloat(os.Args[3], 64)
	param, _ := strconv.Atoi(os.Args[4])
	acl := zk.WorldACL(zk.PermAll)
	rss0 := kb("VmRSS:")
	sessions := 1
	idle := workload == "idle_sessions"
	if idle || workload == "lock_contended" {
		sessions = param
	}
	st := time.Now()
	cs := make([]*zk.Conn, sessions)
	for i := range cs {
		cs[i] = connect(host)
	}
	connectS := time.Since(st).Seconds()
	c := cs[0]
	root := fmt.Sprintf("/lockkeeper-bench-%d", os.Getpid())
	mk := func(p string, d []byte) { _, err := c.Create(p, d, 0, acl); must(err) }
	if !idle {
		mk(root, nil)
		mk(root+"/data", make([]byte, 100))
		mk(root+"/lock", nil)
		for i := 0; i < param && workload == "lock_uncontended"; i++ {
			mk(fmt.Sprintf("%s/l%04d", root, i), nil)
		}
	}
	warm := 0.7
	if w, err := strconv.ParseFloat(os.Getenv("BENCH_WARMUP_S"), 64); err == nil {
		warm = w
	}
	t0 := time.Now().Add(time.Duration(warm * 1e9))
	t1 := t0.Add(time.Duration(secs * 1e9))
	var inside, violations int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total hist
	loop := func(f func()) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var h hist
			for {
				s := time.Now()
				f()
				e := time.Now()
				if !e.Before(t1) {
					break
				}
				if !e.Before(t0) {
					h.add(e.Sub(s))
				}
			}
			mu.Lock()
			total.merge(&h)
			mu.Unlock()
		}()
	}
	for i := 0; i < param && !idle; i++ {
		switch workload {
		case "lock_uncontended":
			l := zk.NewLock(c, fmt.Sprintf("%s/l%04d", root, i), acl)
			loop(func() { must(l.Lock()); must(l.Unlock()) })
		case "lock_contended", "lock_shared_session":
			l := zk.NewLock(cs[i%len(cs)], root+"/lock", acl)
			loop(func() {
				must(l.Lock())
				if atomic.AddInt64(&inside, 1) != 1 {
					atomic.AddInt64(&violations, 1)
				}
				atomic.AddInt64(&inside, -1)
				must(l.Unlock())
			})
		case "get_pipelined":
			loop(func() {
				d, _, err := c.Get(root + "/data")
				must(err)
				if len(d) != 100 {
					panic("size")
				}
			})
		case "create_delete":
			p := fmt.Sprintf("%s/e%04d", root, i)
			loop(func() {
				_, err := c.Create(p, nil, zk.FlagEphemeral, acl)
				must(err)
				must(c.Delete(p, -1))
			})
		}
	}
	time.Sleep(time.Until(t0))
	os.Stderr.WriteString("@start\n")
	a := time.Now()
	u0, s0 := cpu()
	time.Sleep(time.Until(t1))
	el := time.Since(a).Seconds()
	u1, s1 := cpu()
	os.Stderr.WriteString("@end\n")
	wg.Wait()
	ops, rate, x := float64(total.n), float64(total.n)/el, ""
	if idle {
		ops, rate = float64(param), float64(param)/connectS
		x = fmt.Sprintf(`,"connect_s":%.3f,"rss_per_session_kb":%.1f,"cpu_us_per_session_s":%.2f`, connectS,
			float64(kb("VmRSS:")-rss0)/float64(param), (u1-u0+s1-s0)*1e6/float64(param)/el)
	} else if workload == "lock_contended" || workload == "lock_shared_session" {
		x = fmt.Sprintf(`,"violations":%d`, violations)
	}
	fmt.Printf(`{"impl":"%s","workload":"%s","param":%d,"ops":%.0f,"secs":%.4f,"ops_per_s":%.1f,"p50_us":%.1f,"p99_us":%.1f,"cpu_user_s":%.4f,"cpu_sys_s":%.4f,"max_rss_kb":%d%s}`+"\n",
		impl, workload, param, ops, el, rate, total.us(.5), total.us(.99), u1-u0, s1-s0, kb("VmHWM:"), x)
}
