#!/bin/sh
# test: label=full timeout=180
# parallel.plan auto with processes: those of our launcher and of mpirun have the plan that rank 0 has found, and the bits
# of one process with that plan.
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
grep -q '^planned: .*as the run began' out || fail "resumed with a new plan: $(cat out)"
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

exit $bad
