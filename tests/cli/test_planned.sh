#!/bin/sh
# test: label=quick timeout=60
# parallel.plan: a run has the layout of a plan, with the bits of the same layout by keys; contradictions name both.
. "$(dirname "$0")/../script.sh"

cat >run.yaml <<'END'
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 2, batch: 8}
parallel: {transport: self}
checkpoint: {every: 0}
END
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
weights() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
layout='pipeline=2 data=2 tensor=2 micro_batch=1 zero=2 sequence=true schedule=zb-v'
# shellcheck disable=SC2086
"$PENSTOCK" train -q run.yaml $layout 'recompute=[none, full, none, selective]' 'replicas=[3, 5]' || fail "by keys"
"$PENSTOCK" train -q run.yaml plan=runs/run/plan.yaml || fail "by the plan"
"$PENSTOCK" train -q run.yaml plan=runs/run/plan.yaml data=2 'recompute=[none, full, none, selective]' || fail "by both"
[ "$(weights runs/run)" ] || fail "no weights in runs/run"
for again in runs/run-2 runs/run-3; do
    [ "$(weights runs/run)" = "$(weights $again)" ] || fail "$again has other weights"
    cmp runs/run/plan.yaml $again/plan.yaml || fail "$again has another plan"
done
"$PENSTOCK" inspect runs/run/plan.yaml >out || fail "inspect"
grep -q 'zb-v, 8 ranks (2 stages x 2 replicas x 2 tensor ranks), 4 chunks, 8 micro-batches of 1' out || fail "inspect: $(cat out)"
grep -q 'micro-batches of each replica: 3, 5' out || fail "inspect: $(cat out)"
"$PENSTOCK" train -q --resume runs/run-2 steps=3 || fail "resumed by the plan"

# a plan that was made with a profile says so to a run without one
{ cat runs/run/plan.yaml && echo 'overrides: ["parallel.profile=somewhere.yaml"]'; } >profiled.yaml
"$PENSTOCK" train run.yaml plan=profiled.yaml steps=1 >out 2>err || fail "$(cat err)"
[ "$(grep -c 'made with parallel.profile=somewhere.yaml' err)" = 1 ] || fail "its profile is not named: $(cat err)"
"$PENSTOCK" train run.yaml plan=runs/run/plan.yaml steps=1 2>err >out && ! grep -q 'made with' err || fail "$(cat err)"

# expect PATTERN KEY=VALUE...: refused with one line
expect() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" train -q run.yaml "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, expected 2 and '$pattern': $(cat err)"
}
expect 'parallel.tensor is given as 1, but plan runs/run/plan.yaml says 2' plan=runs/run/plan.yaml tensor=1
expect 'parallel.zero is given as 1, but .* says 2' plan=runs/run/plan.yaml zero=1
expect 'parallel.recompute is given as \[full\], but' plan=runs/run/plan.yaml recompute=full
expect 'the number of {full: auto} is chosen by a plan' 'recompute={full: auto}'
expect 'train.batch is 16, but .* 8 micro-batches of 1' plan=runs/run/plan.yaml batch=16
expect '34 operators, but this model has 47' plan=runs/run/plan.yaml layers=3
expect 'another model' plan=runs/run/plan.yaml channels=64
expect 'the job has 2 ranks, but plan .* was made for 8' plan=runs/run/plan.yaml -n 2
# what would fit is the same as without the plan, but for a new one
cp run.yaml small.yaml
advice() { "$PENSTOCK" train -q small.yaml -n 2 micro_batch=4 memory=600KiB "$@" 2>&1 | sed 's/.*; //'; }
"$PENSTOCK" train -q small.yaml -n 2 micro_batch=4 steps=1 name=small || fail "small"
[ "with a new plan, $(advice)" = "$(advice plan=runs/small/plan.yaml)" ] || fail "$(advice) $(advice plan=runs/small/plan.yaml)"
advice | grep -q 'would fit' || fail "$(advice)"
expect 'parallel.plan: nowhere.yaml: No such file' plan=nowhere.yaml

exit $bad
