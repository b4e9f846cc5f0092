#!/bin/sh
# test: label=quick timeout=60
# parallel.plan auto: a run is planned for the ranks that it has, with what the run file gives; it is the layout of its
# plan file to the bit; a resumed run keeps its plan where that goes with the ranks; what fits nowhere is said.
. "$(dirname "$0")/../script.sh"

cat >run.yaml <<'END'
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 1, batch: 8}
parallel: {transport: self, plan: auto}
checkpoint: {every: 0}
END
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
weights() { tail -1 "$1/metrics.jsonl" | sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p'; }
ranks() { "$PENSTOCK" inspect "$1/plan.yaml" | sed -n '1s/.*, \([0-9]*\) ranks.*/\1/p'; }
has() { grep -q -e "$2" "$1" || fail "no '$2' in $1: $(cat "$1")"; }

# what is given is fixed, what is planned stands in plan.yaml alone
"$PENSTOCK" train run.yaml -n 4 data=2 schedule=1f1b >out 2>err || fail "planned: $(cat err)"
has out '^planned:  .* x 2 replicas x .*, 1f1b, .* ms per step, lower bound over all layouts '
[ "$(ranks runs/run)" = 4 ] || fail "planned for $(ranks runs/run) ranks"
has runs/run/run.yaml '^  plan: auto'
has runs/run/run.yaml '^  data: 2'
grep -E '^  (pipeline|tensor|zero|recompute|chunks|micro_batch):' runs/run/run.yaml && fail "keys that are planned"
"$PENSTOCK" train -q run.yaml plan=runs/run/plan.yaml || fail "by the plan"
[ "$(weights runs/run)" ] && [ "$(weights runs/run)" = "$(weights runs/run-2)" ] || fail "other weights by the plan"
cmp runs/run/plan.yaml runs/run-2/plan.yaml || fail "another plan"
"$PENSTOCK" simulate runs/run/plan.yaml >out || fail "simulate"

# as many ranks without -n; fewer are planned for anew; then those are what it has
cp runs/run/plan.yaml was.yaml
"$PENSTOCK" train --resume runs/run steps=2 >out 2>err || fail "resumed: $(cat err)"
has out '^planned: .*the plan of the resumed run'
cmp was.yaml runs/run/plan.yaml || fail "resumed with another plan"
grep -q 'settings differ.*micro_batch' err && fail "what is planned is said to be changed: $(cat err)"
"$PENSTOCK" train --resume runs/run steps=3 -n 2 >out 2>err || fail "resumed on fewer: $(cat err)"
has err 'is for 4 ranks, but the job has 2 ranks; making a new plan'
[ "$(ranks runs/run)" = 2 ] || fail "planned anew for $(ranks runs/run) ranks"
"$PENSTOCK" train --resume runs/run steps=3 data=4 >out 2>err || fail "resumed with another key: $(cat err)"
[ "$(grep -c 'making a new plan' err)" = 1 ] || fail "not said once: $(cat err)"
"$PENSTOCK" train -q --resume runs/run/checkpoints/best steps=4 || fail "resumed by a checkpoint"
"$PENSTOCK" train -q --resume runs/run/checkpoints/step-00000002 steps=3 data=1 -n 1 2>err || fail "elsewhere: $(cat err)"
[ -e runs/run-3/plan.yaml ] || fail "an older checkpoint has no folder of its own"

# an order that is solved for is found within the limit that the run has
"$PENSTOCK" train run.yaml name=solved -n 3 layers=3 pipeline=3 micro_batch=1 schedule=solved >out 2>err || fail "solved: $(cat err)"
has out '^planned: .* solved, '
planned=$(sed -n 's/^planned: .*: \([0-9.]*\) ms per step.*/\1/p' out)
step=$(sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' runs/solved/plan.yaml)
[ "$planned" ] && [ "$planned" = "$(echo "$step" | awk '{ printf "%.3f", $1 * 1e-6 }')" ] ||
    fail "solved: planned $planned ms, the run's plan $step ns"

# ranks that are there are used, all of them
"$PENSTOCK" train -q run.yaml name=eleven -n 11 layers=4 || fail "eleven ranks"
[ "$(ranks runs/eleven)" = 11 ] || fail "11 ranks, planned for $(ranks runs/eleven)"

# what it would be, before it runs
"$PENSTOCK" train -q run.yaml name=again -n 4 || fail "four ranks"
"$PENSTOCK" inspect run.yaml -n 4 >again.yaml || fail "inspected"
cmp again.yaml runs/again/plan.yaml || fail "another plan than the run has"
"$PENSTOCK" inspect run.yaml -n 4 --show memory | grep -q '^rank 3' || fail "no memory of rank 3"
sed 's/plan: auto/plan: auto, memory: 100K/' run.yaml >tight.yaml

# expect STATUS PATTERN ARGUMENT...: one line, and no folder
rm -r runs
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$PENSTOCK" "$@" >out 2>err </dev/null || rc=$?
    [ $rc = "$status" ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, expected $status and '$pattern': $(cat err)"
}
expect 4 'no layout fits in the memory of 4 devices.*a layout would fit with' train run.yaml -n 4 memory=100K
expect 4 'no layout fits in the memory of 3 devices' train run.yaml -n 3 memory=100K transport=auto
expect 2 'the job has 4 ranks, but parallel.pipeline is 3' train run.yaml -n 4 pipeline=3
expect 2 'penstock plan assigns devices to ranks itself' train run.yaml -n 2 'devices=[1, 0]'
expect 4 'no layout fits in the memory of 2 devices' inspect tight.yaml -n 2
[ ! -e runs/run ] || fail "a run that failed has a folder"

exit $bad
