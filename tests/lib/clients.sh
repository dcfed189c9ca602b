# shellcheck shell=bash
# Sourced by tests/run.sh: finds or installs the foreign clients of the interop tests (tests/foreign). Needs common.sh and
# $SCRATCH.

KAZOO=2.11.0
CLIENT_JARS=(curator-recipes curator-framework curator-client guava zookeeper zookeeper-jute slf4j-api slf4j-nop)

# java_up: finds or installs a JDK, and sets LOCKKEEPER_TEST_CLASSPATH to Curator, ZooKeeper's client and their dependencies,
# without logging.
java_up() {
    if [ -n "${LOCKKEEPER_TEST_CLASSPATH:-}" ] && have java javac; then
        return # the caller has chosen
    fi
    client_jars || install default-jdk-headless libcurator-recipes-java || true
    client_jars || die "the interop tests need a JDK and Curator. Install Debian's packages default-jdk-headless
  libcurator-recipes-java, or a JDK, and set LOCKKEEPER_TEST_CLASSPATH to the jars (${CLIENT_JARS[*]}).
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

# kazoo_up: sets LOCKKEEPER_TEST_PYTHON to a Python with kazoo, in a venv under target/ that later runs use again.
kazoo_up() {
    local venv=${CARGO_TARGET_DIR:-target}/test-venv
    case $venv in /*) ;; *) venv=$PWD/$venv ;; esac # the tests run in other directories
    if has_kazoo "${LOCKKEEPER_TEST_PYTHON:-}"; then
        return # the caller has chosen
    fi
    if ! has_kazoo "$venv/bin/python"; then
        make_venv "$venv" || { install python3 python3-venv && make_venv "$venv"; } ||
            die "the interop tests need Python with kazoo $KAZOO. Install a python3 with venv and pip (their messages are above),
  or set LOCKKEEPER_TEST_PYTHON to a Python that has kazoo. LOCKKEEPER_TEST_WITHOUT=kazoo leaves those tests out."
    fi
    export LOCKKEEPER_TEST_PYTHON=$venv/bin/python
}

has_kazoo() { [ -n "$1" ] && [ "$("$1" -c 'from kazoo.version import __version__ as v; print(v)' 2>/dev/null)" = "$KAZOO" ]; }

make_venv() {
    rm -rf "$1"
    python3 -m venv "$1" && "$1/bin/pip" install -q --disable-pip-version-check "kazoo==$KAZOO" && has_kazoo "$1/bin/python"
}

# go_up: finds or installs Go and go-zk, and sets LOCKKEEPER_TEST_GOPATH.
go_up() {
    : "${LOCKKEEPER_TEST_GOPATH:=/usr/share/gocode}" # Debian installs Go libraries there
    export LOCKKEEPER_TEST_GOPATH
    has_go_zk || install golang-go golang-github-samuel-go-zookeeper-dev || true
    has_go_zk || die "the interop tests need Go and go-zk. Install Debian's packages golang-go
  golang-github-samuel-go-zookeeper-dev, or Go, with github.com/samuel/go-zookeeper below src/ in LOCKKEEPER_TEST_GOPATH.
  LOCKKEEPER_TEST_WITHOUT=go leaves those tests out."
}

has_go_zk() { have go && [ -d "$LOCKKEEPER_TEST_GOPATH/src/github.com/samuel/go-zookeeper/zk" ]; }
