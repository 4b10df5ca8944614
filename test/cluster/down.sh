#!/usr/bin/env bash
# Ends every process of the rig and removes its namespaces and its folder, whatever state they are in. Touches nothing
# else: only processes that live in a namespace with the rig's prefix are ended.
. "$(dirname "$0")/common.sh"

# signal <signal> <machine…>: to everything that runs on these machines.
signal() {
  local name=$1 machine pids
  shift
  for machine in "$@"; do
    pids=$(ip netns pids "$PREFIX-$machine" 2> /dev/null) || continue
    [ -z "$pids" ] || kill -s "$name" $pids 2> /dev/null || true
  done
}
# gone <tenths of a second> <machine…>: whether they end within that time.
gone() {
  local left=$1 machine busy
  shift
  while :; do
    busy=
    for machine in "$@"; do
      [ -z "$(ip netns pids "$PREFIX-$machine" 2> /dev/null)" ] || busy=yes
    done
    [ -n "$busy" ] || return 0
    [ "$left" -gt 0 ] || return 1
    left=$((left - 1))
    sleep 0.1
  done
}
stop() {
  signal CONT "$@"
  signal TERM "$@"
  gone "$grace" "$@" || { signal KILL "$@" && gone 50 "$@"; } || true
}

grace=20
stop load app1 app2 app3
# Patroni first: it would start again what is stopped. PostgreSQL's own quick stop removes its shared memory, which
# a kill would leave.
for node in pg1 pg2 pg3; do
  pid=$(cat "$RIG/pid/$node" 2> /dev/null || true)
  if [ -n "$pid" ] && ip netns pids "$PREFIX-$node" 2> /dev/null | grep -qx "$pid"; then kill -KILL "$pid" || true; fi
done
for node in pg1 pg2 pg3; do
  pid=$(head -n 1 "$RIG/$node/data/postmaster.pid" 2> /dev/null || true)
  if [ -n "$pid" ] && ip netns pids "$PREFIX-$node" 2> /dev/null | grep -qx "$pid"; then
    kill -CONT "$pid" && kill -QUIT "$pid" || true
  fi
done
gone 50 pg1 pg2 pg3 || stop pg1 pg2 pg3
stop lb etcd

for space in $(machines_up); do
  ip netns delete "$space"
  rm -rf "/etc/netns/$space"
done
rmdir /etc/netns 2> /dev/null || true
rm -rf "$RIG"
