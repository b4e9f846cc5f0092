#!/bin/sh
# test: label=net timeout=240
# --hostfile over two hosts with a 1 Gbit/s link between them, UCX over tcp: the same weights as on one, with tensor
# ranks and replicas, too; a killed rank, one that hangs, a lost host and one that cannot be reached are named, nobody
# else is; Ctrl-C and the launcher's death leave nothing behind.
. "$(dirname "$0")/../net.sh"
join_hosts 1gbit
export PENSTOCK_SSH=$ssh UCX_TLS=tcp,self
write_run
printf '# two hosts\n%s slots=2\n%s slots=2 # the other\n' $host_a $host_b >hosts
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

# Tensor ranks and replicas within a host, stages between hosts: as on one host, and so the same bits.
for layout in tensor data; do
    timeout 60 "$PENSTOCK" train run.yaml -n 4 parallel.$layout=2 name=here-$layout -q || fail "$layout on one host"
    timeout 100 "$PENSTOCK" train run.yaml --hostfile hosts parallel.$layout=2 name=two-$layout >$layout.log 2>&1 ||
        fail "$layout: $(cat $layout.log)"
    [ -n "$(hash_of runs/here-$layout)" ] && [ "$(hash_of runs/here-$layout)" = "$(hash_of runs/two-$layout)" ] ||
        fail "$layout: other weights: $(cat $layout.log)"
    nobody_left 5
done

start kill
kill_rank 2
ended 3
said kill.log "rank 2 on $host_b was killed by signal 9"
said kill.log 'resume with: penstock train --resume .* -n 4 --hostfile hosts'

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
[ "$(wc -l <far.log)" -le 2 ] || fail "more than the host that is not there (and what ssh says of it): $(cat far.log)"
nobody_left 5
exit $bad
