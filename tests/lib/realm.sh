#!/usr/bin/env bash
# A Kerberos realm and a ZooKeeper that demands it, on loopback, for tests. Needs Debian's krb5-kdc, krb5-admin-server and java.
#
# Usage: realm.sh DIR KDC_PORT ZOOKEEPER_PORT CLASSPATH
# DIR/more.cfg has further lines for the server's configuration.
# When both serve, it prints the number of the KDC's process. It ends when its input does, and takes both along. In DIR:
#   krb5.conf   client.keytab (client@EXAMPLE.TEST)   zookeeper.keytab (zookeeper/localhost@EXAMPLE.TEST)   zookeeper.log
set -eu
dir=$1 kdc=$2 port=$3 classpath=$4
PATH=$PATH:/usr/sbin
cat >"$dir/krb5.conf" <<CONF
[libdefaults]
 default_realm = EXAMPLE.TEST
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 EXAMPLE.TEST = {
  kdc = 127.0.0.1:$kdc
 }
CONF
cat >"$dir/kdc.conf" <<CONF
[kdcdefaults]
 kdc_listen = 127.0.0.1:$kdc
 kdc_tcp_listen = 127.0.0.1:$kdc
[realms]
 EXAMPLE.TEST = {
  database_name = $dir/principal
  key_stash_file = $dir/stash
  acl_file = $dir/acl
 }
CONF
export KRB5_CONFIG=$dir/krb5.conf KRB5_KDC_PROFILE=$dir/kdc.conf
{
    kdb5_util create -s -r EXAMPLE.TEST -P master
    kadmin.local addprinc -randkey client
    kadmin.local addprinc -randkey zookeeper/localhost
    kadmin.local ktadd -k "$dir/client.keytab" client
    kadmin.local ktadd -k "$dir/zookeeper.keytab" zookeeper/localhost
} >"$dir/kadmin.log" 2>&1
krb5kdc -n >"$dir/kdc.log" 2>&1 &
kdc_pid=$!
cat >"$dir/jaas.conf" <<CONF
Server {
 com.sun.security.auth.module.Krb5LoginModule required
 useKeyTab=true keyTab="$dir/zookeeper.keytab" storeKey=true useTicketCache=false principal="zookeeper/localhost@EXAMPLE.TEST";
};
CONF
cat >"$dir/zoo.cfg" <<CONF
tickTime=500
dataDir=$dir/data
clientPort=$port
clientPortAddress=127.0.0.1
admin.enableServer=false
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
sessionRequireClientSASLAuth=true
$(cat "$dir/more.cfg")
CONF
java -Xmx256m -Djava.security.auth.login.config="$dir/jaas.conf" -Djava.security.krb5.conf="$dir/krb5.conf" -cp "$classpath" \
    org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zoo.cfg" >"$dir/zookeeper.log" 2>&1 &
trap 'kill -KILL $kdc_pid $! 2>/dev/null' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 $! || exit 1
    sleep 0.2
done
echo "$kdc_pid"
cat >/dev/null
