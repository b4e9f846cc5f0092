#!/bin/sh
# test: label=net timeout=240
# Elastic runs over two hosts with a 1 Gbit/s link between them: a rank, all ranks of a host, a host or the link is lost,
# and the run ends with the weights of an undisturbed one, each step once, and nothing left on a host.
. "$(dirname "$0")/../net.sh"
join_hosts 1gbit
export PENSTOCK_SSH=$ssh UCX_TLS=tcp,self
write_run
printf '%s slots=2\n%s slots=2\n' $host_a $host_b >hosts

# start NAME OPTION...: an elastic job; $job is its launcher
start() {
    name=$1; shift
    rm -rf runs/$name
    "$PENSTOCK" train run.yaml --hostfile hosts --elastic name=$name train.steps=$steps "$@" >$name.log 2>&1 &
    job=$!
}
# after STEP: the job has done this many steps
after() {
    i=0; while [ $i -lt 600 ] && ! grep -q "\"step\":$1," runs/$name/metrics.jsonl 2>/dev/null; do sleep 0.05; i=$((i + 1)); done
}
# process NUMBER: the pid of a process of the job, as they were numbered at the start
process() {
    for p in $(pids); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "PENSTOCK_ELASTIC_PROCESS=$1" && echo "$p" && return
    done
}
agent() { pgrep -P $job | sed -n "$1p"; } # the launcher of a host, in place of its ssh
# ended WEIGHTS: with status 0 and these weights, each step once, nothing left
ended() {
    wait $job; rc=$?
    [ $rc = 0 ] || fail "$name: status $rc: $(grep -v ^step $name.log)"
    [ "$(hash_of runs/$name)" = "$1" ] || fail "$name: other weights: $(grep -v ^step $name.log)"
    seen=$(grep -c '^{"step":' runs/$name/metrics.jsonl)
    [ "$seen" = $steps ] || fail "$name: $seen lines of steps, not $steps"
    grep -q '"event":"recovery"' runs/$name/metrics.jsonl || fail "$name: no recovery"
    nobody_left 10
    sed -n 's/.*"event":"recovery".*"seconds":\([0-9.]*\),"predicted_seconds":\([0-9.]*\).*/'"$name"': \1 s (predicted \2 s)/p' runs/$name/metrics.jsonl
}

# undisturbed STEPS: one process; $expected are its weights
undisturbed() {
    steps=$1
    timeout 60 "$PENSTOCK" train run.yaml name=one-$steps train.steps=$steps checkpoint.every=0 -q || fail "one process"
    expected=$(hash_of runs/one-$steps)
}
undisturbed 300

start rank checkpoint.every=0
after 40; kill -9 "$(process 2)"
ended "$expected"
said rank.log "rank 2 on $host_b was killed by signal 9"

start first checkpoint.every=0 # rank 0 moves to the other host
after 40; kill -9 "$(process 0)" "$(process 1)"
ended "$expected"

start host checkpoint.every=20 # the newest state goes with it
after 50; kill -9 "$(agent 2)"
ended "$expected"
said host.log "hosts:2: host $host_b ($host_b) is lost: .*; the other ranks go on"
said host.log "back to the checkpoint of step"

start beginning checkpoint.every=0
after 5; kill -9 "$(agent 2)"
ended "$expected"
said beginning.log "back to the beginning"

# Replicas on both hosts, so that nothing is lost.
timeout 60 "$PENSTOCK" train run.yaml -n 4 name=replicas-here train.steps=300 parallel.data=2 parallel.zero=0 \
    checkpoint.every=0 -q || fail "replicas on one host"
start replicas parallel.data=2 parallel.zero=0 checkpoint.every=20
after 50; kill -9 "$(agent 2)"
ended "$(hash_of runs/replicas-here)"
! grep -q "back to" replicas.log || fail "replicas: steps were repeated: $(grep -v ^step replicas.log)"

start leaves checkpoint.every=0 # as before an eviction: nothing is lost, and its launcher ends before the run
after 50; kill -TERM "$(agent 2)"
ended "$expected"
said leaves.log "host $host_b ($host_b) has left; the job does not need it any more"
! grep -q "back to" leaves.log || fail "leaves: steps were repeated: $(grep -v ^step leaves.log)"

start all-leave checkpoint.every=0 # so the run is saved
after 50; kill -TERM "$(agent 1)" "$(agent 2)"
wait $job; rc=$?
[ $rc = 143 ] || fail "all hosts leave: status $rc: $(grep -v ^step all-leave.log)"
ls runs/all-leave/checkpoints | grep -q step- || fail "all hosts leave: nothing is saved: $(grep -v ^step all-leave.log)"
nobody_left 10

start few elastic.min=3 checkpoint.every=20
after 50; kill -9 "$(agent 2)"
wait $job; rc=$?
[ $rc = 3 ] || fail "too few are left: status $rc: $(grep -v ^step few.log)"
said few.log "host $host_b ($host_b) is lost: .*; too few are left"
said few.log 'a part of its state went with a host; resume with: penstock train --resume runs/few'
nobody_left 10

# saved NAME EXPECTED: too few are left, but all of the state is: status 4, and the run can be continued
saved() {
    wait $job; rc=$?
    [ $rc = 4 ] || fail "$name: status $rc: $(grep -v ^step $name.log)"
    said $name.log 'step [0-9]* is saved; when there are ranks: penstock train --resume runs/'$name
    nobody_left 10
    timeout 60 "$PENSTOCK" train --resume runs/$name -q "$@" || fail "$name: not resumed"
}
start saved-rank elastic.min=3 checkpoint.every=0
after 50; kill -9 "$(process 1)" "$(process 2)"
saved -n 1 elastic.min=0
[ "$(hash_of runs/saved-rank)" = "$expected" ] || fail "saved-rank: other weights"

start saved-host parallel.data=2 parallel.zero=0 checkpoint.every=0 # the host, and then a rank of the other one
after 50; kill -9 "$(agent 2)"
after 70; kill -9 "$(process 1)"
saved -n 2 elastic.min=0
[ "$(hash_of runs/saved-host)" = "$(hash_of runs/replicas-here)" ] || fail "saved-host: other weights"

start head checkpoint.every=0
after 50; kill -9 $job
wait $job
nobody_left 10

undisturbed 2500 # seconds go by until these are noticed
start stopped checkpoint.every=200
after 500; kill -STOP "$(agent 2)"
ended "$expected"
said stopped.log "is lost: its launcher was silent for 3"

start first-stopped checkpoint.every=200 # rank 0 moves to the other host
after 500; kill -STOP "$(agent 1)"
ended "$expected"

start cut checkpoint.every=200
after 500; in_b ip link set v0 down
ended "$expected"
said cut.log "host $host_b ($host_b) is lost: no connection to host $host_a"
in_b ip link set v0 up
exit $bad
