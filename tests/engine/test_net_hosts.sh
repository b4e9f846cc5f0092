#!/bin/sh
# test: label=net timeout=180
# --hostfile over two hosts with a 1 Gbit/s link between them, UCX over tcp: the same weights as on one; a killed rank, one that hangs, a
# lost host and one that cannot be reached are named; Ctrl-C and the launcher's death leave nothing behind.
. "$(dirname "$0")/../net.sh"
join_hosts 1gbit
export PENSTOCK_SSH=$ssh UCX_TLS=tcp,self
i=0; while [ $i -lt 60 ]; do echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1)); done >text.txt
cat >run.yaml <<END
model: {kind: gpt, layers: 4, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: [text.txt]}
train: {batch: 8, micro_batch: 2, steps: 20}
parallel: {threads: 1}
END
printf '# two hosts\n%s slots=2\n%s slots=2 # the other\n' $host_a $host_b >hosts
hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
said() { grep -q -e "$2" "$1" || fail "'$2' is not in: $(cat "$1")"; }
# start NAME OPTION...: a job without end, once it trains; $head is its launcher
start() {
    name=$1; shift
    timeout -s KILL 100 "$PENSTOCK" train run.yaml --hostfile hosts name=$name train.steps=10000000 checkpoint.every=5 "$@" >$name.log 2>&1 &
    job=$!
    i=0; while [ $i -lt 400 ] && ! ls runs/$name/checkpoints/step-*/index.json >/dev/null 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
    head=$(pgrep -P $job)
}
# ended STATUS
ended() { wait $job; rc=$?; [ $rc = "$1" ] || fail "$name: status $rc, not $1: $(cat $name.log)"; nobody_left 10; }

timeout 60 "$PENSTOCK" train run.yaml name=one -q || fail "one process"
timeout 100 "$PENSTOCK" train run.yaml --hostfile hosts name=four >four.log 2>&1 || fail "two hosts: $(cat four.log)"
[ -n "$(hash_of runs/one)" ] && [ "$(hash_of runs/one)" = "$(hash_of runs/four)" ] || fail "other weights: $(cat four.log)"
nobody_left 5

start kill
kill -9 "$(ip netns pids ${net}b | xargs -n 1 sh -c 'tr "\0" "\n" </proc/$0/environ | grep -q ^RANK=2 && echo $0' | head -n 1)"
ended 3
said kill.log "rank 2 on $host_b was killed by signal 9"
said kill.log 'go on with: penstock train --resume .* -n 4 --hostfile hosts'

printf '%s\n%s\n' $host_a $host_b >pair
PENSTOCK_FAULT=stall:rank=1,message=600 timeout 60 "$PENSTOCK" train run.yaml --hostfile pair name=hang train.steps=1000 >hang.log 2>&1
[ $? = 3 ] || fail "a rank that hangs: $(cat hang.log)"
said hang.log "rank 1 on $host_b hangs (asleep) during"
nobody_left 10

start lost
kill -9 "$(pgrep -P $head | sed -n 2p)" # what stands for ssh
ended 3
said lost.log "hosts:3: host $host_b ($host_b) with ranks 2 to 3 is lost"

start stop
kill -INT $head
ended 0
said stop.log 'stopped after step'

start orphan
kill -9 $head
wait $job
nobody_left 10

printf '%s\n10.213.%s.77\n' $host_a $third >far
timeout 60 "$PENSTOCK" train run.yaml --hostfile far >far.log 2>&1
[ $? = 2 ] || fail "a host that is not there: $(cat far.log)"
said far.log "far:2: host 10.213.$third.77 (10.213.$third.77) with ranks 1 to 1 could not be reached"
nobody_left 5
exit $bad
