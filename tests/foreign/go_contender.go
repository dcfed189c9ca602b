// go-zk's Lock as a contender, with the arguments, output lines and exit statuses of CuratorContender.java.
//
// Arguments: HOSTS LOCK_PATH COUNTER_PATH CONTENDERS ROUNDS HOLD_MS
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const sessionTimeout = 10 * time.Second

var lines = make(chan string)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 7 {
		log.Print("usage: go_contender HOSTS LOCK_PATH COUNTER_PATH CONTENDERS ROUNDS HOLD_MS")
		os.Exit(2)
	}
	hosts := strings.Split(os.Args[1], ",")
	contenders, rounds, holdMs := number(os.Args[4]), number(os.Args[5]), number(os.Args[6])

	conns := make([]*zk.Conn, contenders)
	for i := range conns {
		conns[i] = connect(hosts)
	}
	fmt.Println("ready")
	if in, _ := bufio.NewReader(os.Stdin).ReadString('\n'); in != "go\n" {
		log.Print(`expected the line "go" on stdin`)
		os.Exit(2)
	}
	for i := range conns {
		go contend(i, conns[i], os.Args[2], os.Args[3], rounds, time.Duration(holdMs)*time.Millisecond)
	}
	for i := 0; i < contenders*rounds; i++ {
		fmt.Println(<-lines)
	}
	fmt.Println("done", contenders*rounds)
}

func contend(id int, conn *zk.Conn, path, counter string, rounds int, hold time.Duration) {
	lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	for round := 0; round < rounds; round++ {
		must(lock.Lock())
		start := time.Now()
		data, _, err := conn.Get(counter)
		must(err)
		value := number(string(data)) + 1
		time.Sleep(hold)
		_, err = conn.Set(counter, []byte(strconv.Itoa(value)), -1)
		must(err)
		lines <- fmt.Sprintf("held %d %d %d %d", id, value, start.UnixMilli(), time.Now().UnixMilli())
		must(lock.Unlock())
	}
}

// connect waits for the session, because a request before it would wait for ever.
func connect(hosts []string) *zk.Conn {
	conn, events, err := zk.Connect(hosts, sessionTimeout, zk.WithLogInfo(false))
	must(err)
	for event := range events {
		if event.State == zk.StateHasSession {
			return conn
		}
	}
	panic("no session")
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
}
