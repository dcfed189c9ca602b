# shellcheck shell=bash
# Sourced by tests/run.sh: the foreign clients that the interop tests run (tests/interop). Needs common.sh and $SCRATCH.

KAZOO=2.11.0
CLIENT_JARS=(curator-recipes curator-framework curator-client guava zookeeper zookeeper-jute slf4j-api slf4j-nop)

# java_up: a JDK, and in LOCKKEEPER_TEST_CLASSPATH Curator, ZooKeeper's client and what they need, without logging.
java_up() {
    if [ -n "${LOCKKEEPER_TEST_CLASSPATH:-}" ] && have java javac; then
        return # the caller knows better
    fi
    client_jars || install default-jdk-headless libcurator-recipes-java || true
    client_jars || die "the interop tests need a JDK and Curator: Debian's packages default-jdk-headless libcurator-recipes-java,
  or a JDK and the jars in LOCKKEEPER_TEST_CLASSPATH (${CLIENT_JARS[*]}).
  LOCKKEEPER_TEST_WITHOUT=java leaves those tests out."
}

client_jars() {
    local jar list=
    have java javac || return 1
    for jar in "${CLIENT_JARS[@]}"; do
        [ -r "$JAR_DIR/$jar.jar" ] || return 1
        list+=${list:+:}$JAR_DIR/$jar.jar
    done
    export LOCKKEEPER_TEST_CLASSPATH=$list
}

# kazoo_up: in LOCKKEEPER_TEST_PYTHON a Python with kazoo, from a venv under target/ that later runs find again.
kazoo_up() {
    local venv=${CARGO_TARGET_DIR:-target}/test-venv
    case $venv in /*) ;; *) venv=$PWD/$venv ;; esac # the tests run in other directories
    if has_kazoo "${LOCKKEEPER_TEST_PYTHON:-}"; then
        return # the caller knows better
    fi
    if ! has_kazoo "$venv/bin/python"; then
        make_venv "$venv" || { install python3 python3-venv && make_venv "$venv"; } ||
            die "the interop tests need Python with kazoo $KAZOO: a python3 with venv that pip can fill (its messages are above),
  or such a Python in LOCKKEEPER_TEST_PYTHON. LOCKKEEPER_TEST_WITHOUT=kazoo leaves those tests out."
    fi
    export LOCKKEEPER_TEST_PYTHON=$venv/bin/python
}

has_kazoo() { [ -n "$1" ] && [ "$("$1" -c 'from kazoo.version import __version__ as v; print(v)' 2>/dev/null)" = "$KAZOO" ]; }

make_venv() {
    rm -rf "$1"
    python3 -m venv "$1" && "$1/bin/pip" install -q --disable-pip-version-check "kazoo==$KAZOO" && has_kazoo "$1/bin/python"
}

# go_up: Go, and in LOCKKEEPER_TEST_GOPATH go-zk.
go_up() {
    : "${LOCKKEEPER_TEST_GOPATH:=/usr/share/gocode}" # where Debian puts libraries
    export LOCKKEEPER_TEST_GOPATH
    has_go_zk || install golang-go golang-github-samuel-go-zookeeper-dev || true
    has_go_zk || die "the interop tests need Go and go-zk: Debian's packages golang-go golang-github-samuel-go-zookeeper-dev,
  or a Go and github.com/samuel/go-zookeeper below src/ in LOCKKEEPER_TEST_GOPATH.
  LOCKKEEPER_TEST_WITHOUT=go leaves those tests out."
}

has_go_zk() { have go && [ -d "$LOCKKEEPER_TEST_GOPATH/src/github.com/samuel/go-zookeeper/zk" ]; }
