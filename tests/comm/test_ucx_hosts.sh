#!/bin/sh
# test: label=full timeout=120
# Ranks on hosts of different names (of one machine) say at log.level=debug what their messages go by, and why; UCX_TLS
# has its way.
. "$(dirname "$0")/../script.sh"
write_run 2
if [ "$(id -u)" = 0 ]; then isolate='unshare -u'; else isolate='unshare -ru'; fi
$isolate hostname other 2>/dev/null || { echo 'skipped: no name of its own for a process'; exit 77; }
export PENSTOCK_SECRET=0123456789abcdef
port=$((20000 + $$ % 10000))
# hosts VARIABLE...: a rank on each; 0.log, 1.log
hosts() {
    port=$((port + 1))
    export RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
    # shellcheck disable=SC2016
    timeout 60 $isolate sh -c 'hostname other; exec "$@"' sh \
        env "$@" "$PENSTOCK" train run.yaml log.level=debug >1.log 2>&1 &
    job=$!
    rc=0
    RANK=0 timeout 60 env "$@" "$PENSTOCK" train run.yaml log.level=debug >0.log 2>&1 || rc=$?
    wait $job || rc=$?
    [ $rc = 0 ] || fail "$*: status $rc: $(cat 0.log 1.log)"
}
said() { grep -q -e "$1" 0.log && grep -q -e "$1" 1.log || fail "'$1' was not said: $(grep UCX 0.log 1.log)"; }

rdma=$("$PENSTOCK" doctor | grep -c '^between hosts messages: RDMA')
hosts A=1
if [ "$rdma" = 0 ]; then said "UCX transports: tcp,self,posix,cma (rank 0 on .*: UCX finds no InfiniBand or RoCE device)"
else said "UCX transports: .*,tcp,self,posix,cma (all ranks have RDMA, "; fi
hosts UCX_TLS=tcp,self UCX_NET_DEVICES=lo
said "UCX transports: tcp,self (UCX_TLS)"
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
"$PENSTOCK" train run.yaml -n 2 log.level=debug >0.log 2>&1 || fail "one host: $(cat 0.log)"
cp 0.log 1.log
said "UCX transports: posix,self,cma (all ranks are on one host)"
exit $bad
