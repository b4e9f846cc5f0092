#!/bin/sh
# test: label=full timeout=120
# Parameter servers (parallel.servers): the bits of zero 1 in several layouts, and after a checkpoint with another number
# of servers; lists and predictions know them; what does not go with them is refused; a server that dies ends the job.
. "$(dirname "$0")/../script.sh"

yes "the quick brown fox jumps over the lazy dog" | head -n 4000 >text
cat >run.yaml <<END
model: {kind: gpt, layers: 2, heads: 2, channels: 64, context: 16, vocabulary: 4500}
data: {paths: [text], validation: 0}
train: {steps: 4, batch: 12, micro_batch: 1, lr: 1.0e-3, warmup: 0}
checkpoint: {every: 2}
parallel: {data: 2, threads: 1}
END

# hash NAME ARGUMENT...: trains, and says the hash of the weights
hash() {
    name=$1
    shift
    "$PENSTOCK" train run.yaml name="$name" "$@" >"$name.log" 2>&1 || fail "$name: $(tail -n 3 "$name.log")"
    sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' "runs/$name/metrics.jsonl" | tail -n 1
}

base=$(hash zero1 parallel.zero=1)
[ -n "$base" ] || fail "no hash"
for layout in "-n 3 parallel.servers=1" "parallel.servers=2" "-n 5 parallel.servers=auto" \
    "-n 6 parallel.servers=2" "-n 8 parallel.servers=4 parallel.schedule=zb-h1" \
    "-n 3 parallel.servers=1 parallel.transport=self"; do
    # shellcheck disable=SC2086 # several arguments
    got=$(hash "layout" $layout)
    [ "$got" = "$base" ] || fail "$layout: $got, zero 1 has $base"
    rm -rf runs/layout
done
for key in parallel.reproducible=4 train.optimizer=lamb train.optimizer=muon parallel.gradients=bf16 \
    "parallel.tensor=2 -n"; do
    n=2 served=3 servers=1
    case $key in *-n) n=4 served=6 servers=2 key=${key% -n} ;; esac
    one=$(hash a -n $n parallel.zero=1 train.steps=2 "$key")
    two=$(hash b -n $served parallel.servers=$servers train.steps=2 "$key")
    [ -n "$one" ] && [ "$one" = "$two" ] || fail "$key: $one without servers, $two with"
    rm -rf runs/a runs/b
done

# eager updates, also where a step is not applied
one=$(hash a -n 2 parallel.zero=1 train.clip=0)
for layout in "-n 3" "-n 6 parallel.pipeline=2 parallel.servers=2" "-n 3 parallel.cluster=3x1_cpu_ethernet:1Gb/s"; do
    # shellcheck disable=SC2086 # several arguments
    two=$(hash b parallel.servers=1 train.clip=0 ${layout%% parallel.cluster*} \
        parallel.cluster="$(echo "$layout" | sed -n 's/.*cluster=//p' | tr _ ' ')")
    [ -n "$one" ] && [ "$one" = "$two" ] || fail "clip 0, $layout: $one without servers, $two with"
    grep -q "only when all gradients" b.log && fail "clip 0 is not eager"
    rm -rf runs/b
done
rm -rf runs/a
hash a -n 3 parallel.servers=1 train.steps=1 >/dev/null
grep -q "only when all gradients have arrived" a.log || fail "nothing is said of train.clip"
awk 'BEGIN { for (i = 0; i < 4096; i++) printf("%c", (i >= 2000 && i < 2016) ? 98 + i % 16 : 97) }' >letters
cat >spike.yaml <<END
model: {kind: mlp, layers: 1, channels: 16, context: 16}
data: {paths: [letters], validation: 0}
train: {steps: 140, batch: 4, micro_batch: 2, lr: 1.0e-2, warmup: 0, decay: none, clip: 0, spike: skip}
checkpoint: {every: 0}
parallel: {data: 2, threads: 1}
END
"$PENSTOCK" train spike.yaml -q -n 2 name=without parallel.zero=1 || fail "spikes without servers"
"$PENSTOCK" train spike.yaml -q -n 3 name=with parallel.servers=1 || fail "spikes with a server"
for run in without with; do
    grep -q '"event":"spike".*"action":"skip"' runs/$run/metrics.jsonl || fail "$run: no spike"
    sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' runs/$run/metrics.jsonl >$run.hash
done
[ -s with.hash ] && cmp without.hash with.hash || fail "a step that is not applied leaves other weights with servers"

# a checkpoint of one server, resumed with two, and without
hash first -n 3 parallel.servers=1 train.steps=2 >/dev/null
hash other -n 2 parallel.zero=1 train.steps=2 >/dev/null
again=$("$PENSTOCK" train --resume runs/other train.steps=4 2>&1 | sed -n 's/.*weights //p')
[ -n "$again" ] || fail "no hash after a checkpoint"
[ "$(find runs/first/checkpoints/step-00000002 -name 'rank-*' | wc -l)" = 3 ] || fail "a server wrote no shard"
for more in "-n 4 parallel.servers=2" "-n 2 parallel.servers=0 parallel.zero=1"; do
    cp -r runs/first runs/again
    # shellcheck disable=SC2086 # several arguments
    "$PENSTOCK" train --resume runs/again train.steps=4 $more >again.log 2>&1 || fail "$(tail -n 3 again.log)"
    grep -q "weights $again" again.log || fail "resumed with $more: $(grep weights again.log)"
    rm -rf runs/again
done

# lists and predictions
sed 's/data: 2, threads/data: 2, servers: 2, pipeline: 2, threads/' run.yaml >six.yaml
"$PENSTOCK" inspect six.yaml >out 2>&1 || fail "inspect: $(cat out)"
grep -q "^servers: 2 " out || fail "inspect says nothing of servers: $(head -n 5 out)"
grep -q "servers: 2" runs/first/plan.yaml && fail "the plan has two servers"
grep -q "servers: 1" runs/first/plan.yaml || fail "the plan has no servers"
"$PENSTOCK" train run.yaml name=planned parallel.plan=runs/first/plan.yaml train.steps=1 >out 2>&1 ||
    fail "the plan: $(tail -n 2 out)"
grep -q "3 ranks (2 replicas + 1 server)" out || fail "the plan has other ranks: $(head -n 1 out)"

# expect PATTERN ARGUMENT...: a refusal
expect() {
    pattern=$1
    shift
    "$PENSTOCK" train run.yaml name=bad "$@" >out 2>&1
    [ $? = 2 ] && grep -q -e "$pattern" out || fail "$*: $(cat out)"
}
expect "parallel.servers: expected auto or a whole number" parallel.servers=some
expect "parallel.servers needs parallel.data of 2 or more" parallel.servers=1 parallel.data=1
expect "use parallel.zero=1" parallel.servers=1 parallel.zero=2
expect "use parallel.compress.up=none" parallel.servers=1 parallel.compress.up=int8
expect "use parallel.compress.down=none" parallel.servers=1 parallel.compress.down=int8
expect "1 server for 2 ranks of each replica" parallel.servers=1 parallel.pipeline=2
expect "of 4 ranks 1 is a server: without it, the job has 3 ranks" -n 4 parallel.servers=1
expect "auto needs a number of ranks" parallel.servers=auto
expect "2 ranks, but 2 servers" -n 2 parallel.servers=2

# plans: with two servers on devices that replicas leave; a run with the plan has them; of several numbers the best
cluster="6x1 cpu ib:10Mb/s"
"$PENSTOCK" plan run.yaml --cluster "$cluster" parallel.servers=2 parallel.tensor=1 train.clip=0 -o plan.yaml >out 2>&1 ||
    fail "plan: $(cat out)"
grep -q "zero 1, 2 servers, recompute" out && grep -q "^servers: 2 " plan.yaml || fail "plan: $(cat out plan.yaml)"
got=$(hash searched -n 6 parallel.plan=plan.yaml parallel.data=2 train.clip=0)
[ "$got" = "$(hash unsearched parallel.zero=1 train.clip=0)" ] || fail "a planned run has other bits"
"$PENSTOCK" plan run.yaml --cluster "$cluster" parallel.servers=auto parallel.pipeline=1 parallel.tensor=1 train.clip=0 --json >out 2>&1 ||
    fail "plan auto: $(cat out)"
python3 - out <<END || fail "plan auto: $(cat out)"
import json, sys
plan = json.load(open(sys.argv[1]))
step = {row["servers"]: row["step_s"] for row in plan["servers"]}
assert sorted(step)[:2] == [0, 1] and plan["step_s"] == min(step.values()) and plan["devices"] == 6, plan["servers"]
END
plans() {
    pattern=$1
    shift
    "$PENSTOCK" plan run.yaml --cluster "$cluster" "$@" >out 2>&1
    [ $? = 2 ] && grep -q -e "$pattern" out || fail "plan $*: $(cat out)"
}
plans "2 servers and two replicas need 4 devices, but there are only 3" parallel.servers=2 -n 3
plans "use parallel.compress.up=none" parallel.servers=1 parallel.compress.up=int8
plans "expected parallel.data of 2 or more" parallel.servers=1 parallel.data=1
plans "expected a whole number from 0" parallel.servers=some

# the death of a server
"$PENSTOCK" train run.yaml name=dies -n 3 parallel.servers=1 train.steps=1000000 checkpoint.every=0 >dies.log 2>&1 &
head=$!
for i in $(seq 100); do
    grep -q "^step 1/" dies.log && break
    sleep 0.1
done
kill -9 "$(pgrep -P $head | sed -n 3p)"
wait $head
rc=$?
[ $rc = 3 ] && grep -q "rank 2" dies.log || fail "a dead server: status $rc, $(tail -n 3 dies.log)"
exit $bad
