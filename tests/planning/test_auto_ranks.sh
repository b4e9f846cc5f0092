#!/bin/sh
# test: label=full timeout=180 isa=any
# parallel.plan auto with processes: those of our launcher, of mpirun, or started one by one have the plan that
# rank 0 has found, and the bits of one process with that plan.
. "$(dirname "$0")/../script.sh"

cat >run.yaml <<'END'
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 2, batch: 8}
parallel: {plan: auto}
checkpoint: {every: 0}
END
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
weights() { tail -1 "$1/metrics.jsonl" | sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p'; }
same() {
    "$PENSTOCK" train -q run.yaml name=by_plan transport=self plan="$1/plan.yaml" || fail "$1: by the plan"
    [ "$(weights "$1")" ] && [ "$(weights "$1")" = "$(weights runs/by_plan)" ] || fail "$1: other weights by the plan"
    rm -rf runs/by_plan
}
once() { [ "$(grep -c '^planned: ' "$1")" = 1 ] || fail "not planned once: $(cat "$1")"; }

timeout 60 "$PENSTOCK" train run.yaml -n 3 >out 2>err || fail "-n 3: $(cat err)"
once out
same runs/run
timeout 60 "$PENSTOCK" train --resume runs/run steps=3 >out 2>err || fail "resumed: $(cat err)"
grep -q '^planned: .*the plan of the resumed run' out || fail "resumed with a new plan: $(cat out)"
timeout 60 "$PENSTOCK" train --resume runs/run steps=4 -n 2 >out 2>err || fail "resumed on two: $(cat err)"
once out
if command -v mpirun >/dev/null 2>&1; then
    timeout 60 mpirun -n 3 --allow-run-as-root --oversubscribe "$PENSTOCK" train run.yaml name=mpi >out 2>err ||
        fail "mpirun: $(cat out err)"
    once out
    same runs/mpi
    timeout 60 mpirun -n 3 --allow-run-as-root --oversubscribe "$PENSTOCK" train run.yaml name=mpi memory=100K >out 2>&1
    [ $? = 4 ] && [ "$(grep -c 'no layout fits in the memory of 3 devices' out)" = 1 ] || fail "too small: $(cat out)"
fi

# started one by one; one that has another way to be cut than rank 0 is refused before anything is planned
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) PENSTOCK_SECRET=0123456789abcdef
RANK=1 timeout 60 "$PENSTOCK" train run.yaml name=one >1.log 2>&1 &
RANK=0 timeout 60 "$PENSTOCK" train run.yaml name=one >0.log 2>&1 || fail "one by one: $(cat 0.log)"
wait $! || fail "one by one, rank 1: $(cat 1.log)"
once 0.log
MASTER_PORT=$((MASTER_PORT + 1))
RANK=1 timeout 60 "$PENSTOCK" train run.yaml name=other schedule=gpipe >1.log 2>&1 &
RANK=0 timeout 60 "$PENSTOCK" train run.yaml name=other >0.log 2>&1
[ $? = 2 ] && grep -q 'rank 1 has a different run file' 0.log || fail "another run file: $(cat 0.log)"
wait $!
unset WORLD_SIZE MASTER_ADDR MASTER_PORT PENSTOCK_SECRET

exit $bad
