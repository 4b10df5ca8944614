# Names and addresses of the rig, and how its parts are started; sourced by up.sh, start.sh and down.sh.
# Everything lies in one folder, and every process lives in a network namespace whose name begins with the prefix.
set -euo pipefail

RIG=${SVC_CLUSTER_DIR:-/tmp/svc-cluster}
PREFIX=svct
NET=$PREFIX-net # holds the bridge, so that the machine's own network stays as it is
BRIDGE=svcbr0
SUBNET=10.86.0
PG_BIN=/usr/lib/postgresql/15/bin
SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

declare -A ADDRESS=(
  [etcd]=10 [pg1]=11 [pg2]=12 [pg3]=13 [lb]=20 [app1]=31 [app2]=32 [app3]=33 [load]=100
)
MACHINES=(etcd pg1 pg2 pg3 lb app1 app2 app3 load)

machines_up() { ip netns list | awk '{print $1}' | grep "^$PREFIX-" || true; }

# Patroni, etcd and PgBouncer refuse to run as root, so all parts run as PostgreSQL's user.
# launch <part> <machine> <command…>
launch() {
  local part=$1 machine=$2
  shift 2
  setsid ip netns exec "$PREFIX-$machine" \
    setpriv --reuid=postgres --regid=postgres --init-groups "$@" \
    > "$RIG/log/$part.log" 2>&1 < /dev/null 9>&- &
  echo $! > "$RIG/pid/$part"
}

start_part() {
  case $1 in
    etcd)
      launch etcd etcd etcd --name "$PREFIX" --data-dir "$RIG/etcd" \
        --listen-client-urls "http://$SUBNET.10:2379" --advertise-client-urls "http://$SUBNET.10:2379" \
        --listen-peer-urls "http://$SUBNET.10:2380" --initial-advertise-peer-urls "http://$SUBNET.10:2380" \
        --initial-cluster "$PREFIX=http://$SUBNET.10:2380" \
        --heartbeat-interval 500 --election-timeout 5000
      ;;
    pg1 | pg2 | pg3) launch "$1" "$1" patroni "$RIG/$1/patroni.yml" ;;
    haproxy) launch haproxy lb haproxy -f "$RIG/lb/haproxy.cfg" ;;
    pgbouncer) launch pgbouncer lb pgbouncer "$RIG/lb/pgbouncer.ini" ;;
    *)
      echo "there is no part $1: etcd, pg1, pg2, pg3, haproxy, pgbouncer" >&2
      exit 2
      ;;
  esac
}
