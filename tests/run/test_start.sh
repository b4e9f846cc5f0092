#!/bin/sh
# test: label=full timeout=180 isa=any
# How ranks that are started one by one meet: other run files and programs are named, so is who does not come; with the
# variables of ps-lite a scheduler brings them together.
. "$(dirname "$0")/../script.sh"
i=0; while [ $i -lt 40 ]; do echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1)); done >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 3, heads: 2, channels: 16, context: 16}
data: {kind: text, paths: [text.txt], validation: 0}
train: {batch: 4, micro_batch: 2, steps: 4}
parallel: {threads: 1}
END
sed 's/steps: 4/steps: 4, lr: 0.01/' run.yaml >other.yaml
export PENSTOCK_SECRET=0123456789abcdef
port=$((20000 + $$ % 10000))
said() { grep -q -F -- "$2" "$1" || fail "'$2' is not in $1: $(cat "$1")"; }
# rank NUMBER FILE OPTION...: in the background; NUMBER.log
rank() {
    r=$1 file=$2; shift 2
    RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$PENSTOCK" train "$file" "$@" >"$r.log" 2>&1 &
    eval "job$r=$!"
}
ended() { eval "wait \$job$1"; rc=$?; [ $rc = "$2" ] || fail "rank $1: status $rc, not $2: $(cat "$1.log")"; }

for r in 0 1; do rank $r run.yaml; done
rank 2 other.yaml
for r in 0 1 2; do ended $r 2; done
said 0.log "rank 2 has a different run file than rank 0: 'train.lr: 0.01' on rank 2, 'train.lr: 0.0003' on rank 0"

port=$((port + 1))
for r in 0 2; do rank $r run.yaml parallel.wait=2 parallel.memory=$((100 + r))M; done
ended 0 3
said 0.log '1 of 3 ranks did not join at 127.0.0.1:'
said 0.log 'within 2 s; missing: 1'
wait
name=$(hostname)
case $(getent hosts "$name") in
127.*)
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=$name MASTER_PORT=$((port + 1)) timeout 60 "$PENSTOCK" train run.yaml parallel.wait=1 >lo.log 2>&1
    [ $? = 3 ] || fail "rank 0 on loopback: $(cat lo.log)"
    said lo.log "1 of 2 ranks did not join at $name:$((port + 1)) (127.0."
    said lo.log ', which other hosts cannot reach) within 1 s; missing: 1'
    ;;
esac

# An address without a route (a group's is nobody's) is given up long before the others have to be there; what refuses
# is not.
began=$(date +%s)
RANK=1 WORLD_SIZE=2 MASTER_ADDR=224.0.0.1 MASTER_PORT=$port timeout 60 "$PENSTOCK" train run.yaml parallel.wait=50 >route.log 2>&1
[ $? = 3 ] || fail "no route: $(cat route.log)"
[ $(($(date +%s) - began)) -lt 30 ] || fail 'no route: it went on trying'
said route.log "rank 1 tries to connect to rank 0 at 224.0.0.1:$port for up to 50 s: Network is unreachable"
said route.log "rank 1 cannot connect to rank 0 at 224.0.0.1:$port within "
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 1)) timeout 60 "$PENSTOCK" train run.yaml parallel.wait=8 >refused.log 2>&1
[ $? = 3 ] || fail "nobody there: $(cat refused.log)"
said refused.log " for up to 8 s: Connection refused"
said refused.log ' within 8 s: Connection refused'

if command -v mpirun >/dev/null 2>&1; then
    # shellcheck disable=SC2016
    timeout 60 mpirun -n 3 --allow-run-as-root --oversubscribe sh -c '[ "$PMIX_RANK" != 1 ] || exec sleep 30; exec "$@"' sh \
        "$PENSTOCK" train run.yaml parallel.wait=2 >mpirun.log 2>&1
    [ $? = 3 ] || fail "mpirun without rank 1: $(cat mpirun.log)"
    said mpirun.log 'not all of 3 ranks have joined within 2 s (parallel.wait): rank 1'
fi

# The library of rank 1 is of another build.
lib=$(dirname "$PENSTOCK")/libpenstock.so.0
at=$(readelf -SW "$lib" 2>/dev/null | sed -n 's/.*\.note\.gnu\.build-id *NOTE *[0-9a-f]* *\([0-9a-f]*\) .*/\1/p')
if [ -n "$at" ]; then
    mkdir twin
    cp "$lib" twin/libpenstock.so.0
    printf 'another build id: 20' | dd of=twin/libpenstock.so.0 bs=1 seek=$((0x$at + 16)) conv=notrunc 2>/dev/null
    port=$((port + 1))
    for r in 0 2; do rank $r run.yaml; done
    LD_LIBRARY_PATH=$folder/twin rank 1 run.yaml
    for r in 0 1 2; do ended $r 2; done
    said 0.log 'rank 1 runs a different build of penstock than rank 0: '
fi

# Data and cluster files are each host's own, and have to say the same.
i=0; while [ $i -lt 40 ]; do echo "$i bottles of beer on the shelf, and if one of them should fall"; i=$((i + 1)); done >other.txt
port=$((port + 1))
rank 0 run.yaml
for r in 1 2; do rank $r run.yaml 'data.paths=[other.txt]'; done
for r in 0 1 2; do ended $r 2; done
said 0.log 'ranks 1, 2 have different data than rank 0: the files of data.paths must be the same on all hosts'
for r in 1 2; do [ ! -s $r.log ] || fail "rank $r says it again: $(cat $r.log)"; done
port=$((port + 1))
for r in 0 1 2; do rank $r run.yaml "eval.sets.more=$([ $r = 1 ] && echo other.txt || echo text.txt)"; done
for r in 0 1 2; do ended $r 2; done
said 0.log 'rank 1 is evaluated on different data than rank 0: the files of eval.sets must be the same on all hosts'
for r in 0 1 2; do
    echo "nodes: [{devices: [{speed: $((1 + 30 * (r > 1)))}, {speed: 1}, {speed: 1}]}]" >cluster.$r
done
port=$((port + 1))
for r in 0 1 2; do rank $r run.yaml parallel.cluster=cluster.$r; done
for r in 0 1 2; do ended $r 2; done
said 0.log 'rank 2 has a different plan than rank 0: the files of parallel.cluster and parallel.measured must be the same on all hosts'

hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
timeout 30 "$PENSTOCK" train run.yaml name=one -q || fail 'one process'
export DMLC_PS_ROOT_URI=127.0.0.1 DMLC_NUM_WORKER=3 DMLC_NUM_SERVER=1 DMLC_PS_ROOT_PORT=$((port + 1))
# role NAME ROLE VARIABLE=...: in the background; NAME.log
role() {
    name=$1; shift
    env DMLC_ROLE="$@" timeout 60 "$PENSTOCK" train run.yaml name=dmlc >"$name.log" 2>&1 &
    eval "job$name=$!"
}
role worker0 worker
role worker1 worker DMLC_WORKER_ID=0
role worker2 worker
role scheduler scheduler
role server server
for name in worker0 worker1 worker2 scheduler server; do ended $name 0; done
said worker1.log 'done after step 4'
[ -n "$(hash_of runs/one)" ] && [ "$(hash_of runs/one)" = "$(hash_of runs/dmlc)" ] || fail 'other weights with a scheduler'
# with parallel.servers, a process with that role is one: the bits of zero 1
serves() {
    name=$1; shift
    env DMLC_ROLE="$@" timeout 60 "$PENSTOCK" train run.yaml name=served parallel.data=2 parallel.servers=1 >"$name.log" 2>&1 &
    eval "job$name=$!"
}
export DMLC_PS_ROOT_PORT=$((port + 4)) DMLC_NUM_WORKER=2
serves worker0 worker
serves worker1 worker
serves server server
serves scheduler scheduler
for name in worker0 worker1 scheduler server; do ended $name 0; done
timeout 60 "$PENSTOCK" train run.yaml name=sharded -q -n 2 parallel.data=2 parallel.zero=1 || fail 'two replicas'
[ -n "$(hash_of runs/served)" ] && [ "$(hash_of runs/sharded)" = "$(hash_of runs/served)" ] || fail 'other weights with a server'
serves server server DMLC_NUM_SERVER=2
ended server 2
said server.log 'the numbers of servers differ'
serves server server DMLC_NUM_WORKER=6
ended server 2
said server.log 'each has servers of its own'
export DMLC_PS_ROOT_PORT=$((port + 2))
export DMLC_NUM_WORKER=1
secret=$PENSTOCK_SECRET
unset PENSTOCK_SECRET
role scheduler scheduler
role worker worker
for name in scheduler worker; do ended $name 0; done
[ "$(hash_of runs/one)" = "$(hash_of runs/dmlc-2)" ] || fail 'other weights with one worker'
export DMLC_PS_ROOT_PORT=$((port + 3)) DMLC_NUM_WORKER=3 PENSTOCK_SECRET=$secret
DMLC_ROLE=scheduler timeout 60 "$PENSTOCK" train run.yaml parallel.wait=1 >late.log 2>&1
[ $? = 3 ] || fail "nobody comes: $(cat late.log)"
said late.log '3 of 3 workers did not join at the scheduler at 127.0.0.1:'
DMLC_ROLE=boss "$PENSTOCK" train run.yaml >boss.log 2>&1
[ $? = 2 ] || fail "another role: $(cat boss.log)"
said boss.log "DMLC_ROLE 'boss': expected worker, scheduler or server"
exit $bad
