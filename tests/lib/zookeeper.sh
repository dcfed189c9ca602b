# shellcheck shell=bash disable=SC2034  # run.sh reads ZOOKEEPER_HOW
# Sourced by tests/run.sh: finds or starts a real ZooKeeper, and stops it again. Needs common.sh and
# $SCRATCH, a directory that the caller removes. After `zookeeper_up`, $ZOOKEEPER is host:port of a running server, and
# $ZOOKEEPER_HOW says where the server comes from.

ZOOKEEPER_HOW=
ZOOKEEPER=
SERVER_PID=       # the process that we have started and must stop
SERVER_CONTAINER= # the container that we have started and must stop, as "ENGINE ID"

# The server's settings, the same for a process and a container. Times are short, because tests wait for expiry and for the
# reaper. Every node type is enabled. The server does not fsync, because no test cuts the power.
TICK_MS=300
SESSION_MS=(500 60000) # the shortest and the longest session timeout
JVM_FLAGS=(-Xmx512m -Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=2000 -Dzookeeper.forceSync=no)

# zookeeper_up: finds or starts a server. The order is: the caller's server, the caller's jars, a container, this machine's
# jars, Debian's packages.
zookeeper_up() {
    local engine
    if [ -n "${LOCKKEEPER_TEST_ZOOKEEPER:-}" ]; then
        ZOOKEEPER=$LOCKKEEPER_TEST_ZOOKEEPER ZOOKEEPER_HOW="named by LOCKKEEPER_TEST_ZOOKEEPER"
        serving || die "no answer to \`srvr\` from LOCKKEEPER_TEST_ZOOKEEPER=$ZOOKEEPER; set it to host:port of a running ZooKeeper"
        return
    fi
    if [ -n "${LOCKKEEPER_TEST_SERVER_CLASSPATH:-}" ]; then
        server_jars || die "LOCKKEEPER_TEST_SERVER_CLASSPATH is set, but there is no java on the PATH: install a JDK"
        start_jars
        return
    fi
    for engine in docker podman; do
        # The command may be installed without a running engine.
        if have "$engine" && timeout 10 "$engine" info >/dev/null 2>&1; then
            start_container "$engine" && return
            say "$engine could not run ${LOCKKEEPER_TEST_IMAGE:-zookeeper:3.9}; trying the next source"
        fi
    done
    server_jars || install default-jdk-headless libzookeeper-java libcurator-recipes-java || true
    server_jars || die "found no real ZooKeeper. The tests need one of these: docker or podman; Debian's packages
  default-jdk-headless libzookeeper-java libcurator-recipes-java; or LOCKKEEPER_TEST_ZOOKEEPER=host:port of a server that
  the tests may write to. LOCKKEEPER_TEST_WITHOUT=zookeeper leaves those tests out."
    start_jars
}

# zookeeper_down: stops the server if we have started it. Safe to call at any time.
zookeeper_down() {
    local try
    if [ -n "$SERVER_CONTAINER" ]; then
        # shellcheck disable=SC2086  # two words
        set -- $SERVER_CONTAINER
        "$1" rm -f "$2" >/dev/null 2>&1 || true
    elif [ -n "$SERVER_PID" ]; then
        kill "$SERVER_PID" 2>/dev/null || true
        for try in $(seq 50); do
            kill -0 "$SERVER_PID" 2>/dev/null || break
            [ "$try" -lt 50 ] || kill -KILL "$SERVER_PID" 2>/dev/null || true
            sleep 0.1
        done
    fi
    SERVER_CONTAINER='' SERVER_PID=''
}

# srvr: prints the answer of $ZOOKEEPER to the four-letter word `srvr`, the only one that every server allows by default.
srvr() {
    # shellcheck disable=SC2016  # expanded by the inner shell, which `timeout` can end
    timeout 5 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf srvr >&3 && cat <&3' - \
        "${ZOOKEEPER%:*}" "${ZOOKEEPER##*:}" 2>/dev/null || true
}

# serving: succeeds if the server serves requests. An open port does not show that, because it opens earlier, and `ruok`
# answers imok too early, too.
serving() { [[ $(srvr) == *"Zookeeper version: "* ]]; }

zookeeper_version() { srvr | sed -n 's/^Zookeeper version: *\([^-, ]*\).*/\1/p'; }

# wait_serving ALIVE...: waits until $ZOOKEEPER serves. Fails after 30 s, or as soon as the command ALIVE fails.
wait_serving() {
    local end=$((SECONDS + 30))
    until serving; do
        [ "$SECONDS" -lt "$end" ] && "$@" >/dev/null 2>&1 || return 1
        sleep 0.1
    done
}

start_container() {
    local engine=$1 id port
    # -p 127.0.0.1::2181 publishes the port on loopback only. The engine picks the port number.
    id=$(timeout 180 "$engine" run -d --rm -p 127.0.0.1::2181 \
        -e ZOO_TICK_TIME=$TICK_MS -e ZOO_MAX_CLIENT_CNXNS=0 -e ZOO_ADMINSERVER_ENABLED=false \
        -e 'ZOO_4LW_COMMANDS_WHITELIST=*' -e "JVMFLAGS=${JVM_FLAGS[*]}" \
        -e "ZOO_CFG_EXTRA=minSessionTimeout=${SESSION_MS[0]} maxSessionTimeout=${SESSION_MS[1]}" \
        "${LOCKKEEPER_TEST_IMAGE:-zookeeper:3.9}" 2>"$SCRATCH/engine.log") || {
        tail -n 3 "$SCRATCH/engine.log" >&2
        return 1
    }
    SERVER_CONTAINER="$engine $id"
    port=$("$engine" port "$id" 2181/tcp | sed -n '1s/.*://p')
    ZOOKEEPER=127.0.0.1:$port ZOOKEEPER_HOW="a container that this script started"
    wait_serving "$engine" port "$id" && return
    "$engine" logs "$id" 2>&1 | tail -n 20 >&2
    zookeeper_down
    return 1
}

# server_jars: sets $SERVER_CLASSPATH if this machine can run a server. The list of jars comes from the classes that a server
# loads; the manifest of zookeeper.jar names the other jars.
server_jars() {
    local jar
    have java || return 1
    SERVER_CLASSPATH=${LOCKKEEPER_TEST_SERVER_CLASSPATH:-}
    [ -z "$SERVER_CLASSPATH" ] || return 0 # the caller has chosen
    for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java; do
        [ -r "$JAR_DIR/$jar.jar" ] || return 1
        SERVER_CLASSPATH+=${SERVER_CLASSPATH:+:}$JAR_DIR/$jar.jar
    done
}

# own_servers_up: sets LOCKKEEPER_TEST_SERVER_CLASSPATH to the jars for servers that tests start, including encryption.
own_servers_up() {
    if [ -n "${LOCKKEEPER_TEST_SERVER_CLASSPATH:-}" ] && have java; then
        return # the caller has chosen
    fi
    own_server_jars || install default-jdk-headless libzookeeper-java libnetty-java || true
    own_server_jars || die "tests of TLS and SASL, and tests that kill servers, start servers themselves. Install Debian's packages
  default-jdk-headless libzookeeper-java libnetty-java; or a JDK, and set LOCKKEEPER_TEST_SERVER_CLASSPATH to the jars of
  ZooKeeper's server and netty. LOCKKEEPER_TEST_WITHOUT=\"java ensemble\" leaves those tests out."
}

# kerberos_up: succeeds if there are a KDC, its commands, and what libgssapi is built with.
kerberos_up() {
    have_kerberos || install krb5-kdc krb5-admin-server krb5-user "${GSSAPI[@]}" || true
    have_kerberos
}

have_kerberos() { PATH=$PATH:/usr/sbin have krb5kdc kadmin.local kinit && have_gssapi; }

own_server_jars() {
    local part list
    server_jars || return 1
    list=$SERVER_CLASSPATH
    for part in buffer codec common handler resolver transport transport-native-epoll transport-native-unix-common; do
        [ -r "$JAR_DIR/netty-$part.jar" ] || return 1
        list+=:$JAR_DIR/netty-$part.jar
    done
    export LOCKKEEPER_TEST_SERVER_CLASSPATH=$list
}

start_jars() {
    local dir=$SCRATCH/zookeeper port
    for _ in 1 2 3; do # another process may take the port between our look and the server's bind
        port=$(free_port)
        rm -rf "$dir"
        mkdir "$dir"
        cat >"$dir/zoo.cfg" <<CFG
tickTime=$TICK_MS
minSessionTimeout=${SESSION_MS[0]}
maxSessionTimeout=${SESSION_MS[1]}
clientPort=$port
clientPortAddress=127.0.0.1
dataDir=$dir/data
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
CFG
        ZOOKEEPER=127.0.0.1:$port ZOOKEEPER_HOW="a process that this script started, from ${SERVER_CLASSPATH%%:*} and others"
        run_jars && return
        zookeeper_down
        tail -n 20 "$dir/log" >&2
    done
    die "ZooKeeper did not start; the end of its log is above"
}

# run_jars: starts the server with the existing configuration and data. Fails if it does not serve requests.
run_jars() {
    local dir=$SCRATCH/zookeeper
    java "${JVM_FLAGS[@]}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$SERVER_CLASSPATH" \
        org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zoo.cfg" >>"$dir/log" 2>&1 </dev/null &
    SERVER_PID=$!
    end_with_us "$SERVER_PID" &
    wait_serving kill -0 "$SERVER_PID"
}

# end_with_us PID: runs in the background, and kills the process soon after this script has ended, even by SIGKILL.
end_with_us() {
    exec </dev/null >/dev/null 2>&1 # so that a reader of the script's output does not wait for this function
    trap - EXIT
    while kill -0 "$1" && kill -0 $$; do sleep 2; done
    kill -KILL "$1"
}

# free_port: prints a free port, below the range from which the kernel takes ports for outgoing connections.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}
