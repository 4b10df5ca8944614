#!/usr/bin/env bash
# Builds a small data centre on this machine: three PostgreSQL under Patroni with etcd, HAProxy, PgBouncer, three
# machines for svc and one for its users, each in a network namespace of its own on one bridge. Needs root and the
# packages of README.md. down.sh removes all of it.
. "$(dirname "$0")/common.sh"

if ! mkdir "$RIG" 2> /dev/null; then
  echo "$RIG is there already: a rig is up, or down.sh has not been run" >&2
  exit 1
fi
if [ -n "$(machines_up)" ]; then
  rmdir "$RIG"
  echo "network namespaces $PREFIX-* are there already: run down.sh" >&2
  exit 1
fi
trap '[ $? = 0 ] || "$SCRIPTS/down.sh"' EXIT
chmod 755 "$RIG"
mkdir "$RIG"/{pid,log,lb,etcd,pg1,pg2,pg3}
# Patroni and PostgreSQL are picky about who else may read their folders.
chown postgres: "$RIG"/{lb,etcd,pg1,pg2,pg3}
chmod 700 "$RIG"/{etcd,pg1,pg2,pg3}

ip netns add "$NET"
ip -n "$NET" link set lo up
ip -n "$NET" link add "$BRIDGE" type bridge
ip -n "$NET" link set "$BRIDGE" up
for machine in "${MACHINES[@]}"; do
  space=$PREFIX-$machine
  # Bound over /etc/hosts in that namespace: a name that can be moved to another address.
  mkdir -p "/etc/netns/$space"
  printf '127.0.0.1 localhost\n%s.11 primary.db\n' "$SUBNET" > "/etc/netns/$space/hosts"
  ip netns add "$space"
  ip -n "$space" link set lo up
  ip -n "$NET" link add "$machine" type veth peer name eth0 netns "$space"
  ip -n "$NET" link set "$machine" master "$BRIDGE" up
  ip -n "$space" address add "$SUBNET.${ADDRESS[$machine]}/24" dev eth0
  ip -n "$space" link set eth0 up
done
# The users' machine has some more addresses to come from.
for last in $(seq 101 120); do ip -n "$PREFIX-load" address add "$SUBNET.$last/24" dev eth0; done

for node in pg1 pg2 pg3; do
  mkdir "$RIG/$node/run"
  sed -e "s|@NODE@|$node|g" -e "s|@ADDRESS@|$SUBNET.${ADDRESS[$node]}|g" -e "s|@RIG@|$RIG|g" \
    -e "s|@PG_BIN@|$PG_BIN|g" "$SCRIPTS/patroni.yml" > "$RIG/$node/patroni.yml"
  chown -R postgres: "$RIG/$node"
done
sed -e "s|@RIG@|$RIG|g" "$SCRIPTS/haproxy.cfg" > "$RIG/lb/haproxy.cfg"
sed -e "s|@RIG@|$RIG|g" "$SCRIPTS/pgbouncer.ini" > "$RIG/lb/pgbouncer.ini"
echo '"pooler" "pooler-password"' > "$RIG/lb/users.txt"

start_part etcd
for node in pg1 pg2 pg3; do start_part "$node"; done
start_part haproxy
start_part pgbouncer

# One leader and two replicas that stream from it.
cluster() {
  ip netns exec "$PREFIX-lb" bash -c "exec 3<>/dev/tcp/$SUBNET.11/8008 &&
    printf 'GET /cluster HTTP/1.0\r\n\r\n' >&3 && cat <&3" 2> /dev/null || true
}
for _ in $(seq 600); do
  [ "$(cluster | grep -o '"state": "running"' | wc -l)" = 3 ] && break
  sleep 0.2
done
if [ "$(cluster | grep -o '"state": "running"' | wc -l)" != 3 ]; then
  echo "the PostgreSQL cluster did not come up within two minutes:" >&2
  tail -n 15 "$RIG"/log/*.log >&2
  exit 1
fi

# What the pooler looks passwords up with. In template1, so that every database made later has it.
leader=$(cluster | grep -o '"name": "[^"]*", "role": "leader"' | cut -d'"' -f4)
"$PG_BIN/psql" -qX -v ON_ERROR_STOP=1 -h "$RIG/$leader/run" -U postgres -d template1 << 'SQL'
do $$ begin
  if not exists (select from pg_roles where rolname = 'pooler') then
    create role pooler login password 'pooler-password';
  end if;
end $$;
grant select on pg_shadow to pooler;
SQL
echo "the cluster is up in $RIG: pg1 to pg3 at $SUBNET.11 to .13, HAProxy and PgBouncer at $SUBNET.20"
