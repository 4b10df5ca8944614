#!/usr/bin/env bash
# Starts one part of a rig that is up again, for example after it was killed: start.sh pg1
. "$(dirname "$0")/common.sh"
start_part "${1:?which part? etcd, pg1, pg2, pg3, haproxy, pgbouncer}"
