#!/bin/sh
# test: label=quick timeout=120
# penstock plan with tensor ranks of each stage: a list is taken as it is, stands in what is printed and in the plan, and the
# plan trains with the memory that was predicted; tied embeddings on stages that differ, sums in blocks, and wrong lists.
. "$(dirname "$0")/../script.sh"

write_run 4
peak() { grep peak_bytes "$1"; }

"$PENSTOCK" plan run.yaml -n 4 'tensor=[2, 1, 1]' -o plan.yaml --report plan.html >out || fail "plan"
grep -q '^layout .*3 stages x 1 replica x \[2, 1, 1\] tensor ranks' out || fail "not the list: $(cat out)"
grep -q '^ *3 *2-1-1 *1 .*the best$' out || fail "not in the row: $(cat out)"
grep -q '^tensor: \[2, 1, 1\]' plan.yaml || fail "not in the plan: $(cat plan.yaml)"
grep -q '<td class="n">2-1-1</td>' plan.html || fail "not on the page"
"$PENSTOCK" plan run.yaml -n 4 'tensor=[2, 1, 1]' --json | tr -d ' \n' | grep -q '"tensors":\[2,1,1\]' || fail "not in the JSON"
"$PENSTOCK" train -q run.yaml transport=self plan=plan.yaml || fail "train by the plan"
[ "$(peak plan.yaml)" = "$(peak runs/run/plan.yaml)" ] || fail "$(peak plan.yaml), but the run has $(peak runs/run/plan.yaml)"

"$PENSTOCK" plan run.yaml -n 6 'tensor=[2, 1]' data=2 >out || fail "replicas"
grep -q '^layout .*2 stages x 2 replicas x \[2, 1\] tensor ranks' out || fail "not with replicas: $(cat out)"
"$PENSTOCK" plan run.yaml -n 4 'tensor=[2, 2]' >out || fail "equal list"
grep -q '^layout .*2 stages x 1 replica x 2 tensor ranks' out || fail "not as one number: $(cat out)"

# sums in blocks: only degrees that divide their number, also one; the plan trains with the memory that was predicted
"$PENSTOCK" plan run.yaml -n 4 parallel.reproducible.tensor=2 tensor=2 -o blocks.yaml >out || fail "blocks: $(cat out)"
"$PENSTOCK" train -q run.yaml transport=self plan=blocks.yaml parallel.reproducible.tensor=2 name=blocks || fail "train in blocks"
[ "$(peak blocks.yaml)" = "$(peak runs/blocks/plan.yaml)" ] || fail "$(peak blocks.yaml), but the run has $(peak runs/blocks/plan.yaml)"
"$PENSTOCK" plan run.yaml -n 4 parallel.reproducible.tensor=2 >out || fail "blocks, any layout: $(cat out)"
grep -q '^ *[0-9][0-9]*  *4 ' out && fail "four tensor ranks for two blocks: $(cat out)"

refuse() { "$PENSTOCK" plan run.yaml "$@" >out 2>&1; [ $? -eq 2 ] || fail "not refused: $*: $(cat out)"; }
refuse -n 4 'tensor=[2, 1]' pipeline=3
refuse -n 2 'tensor=[2, 1]'
refuse -n 4 'tensor=[2, 1]' sequence=true
refuse -n 4 'tensor=[2, 0]'
refuse -n 3 tensor=3 parallel.reproducible.tensor=4
refuse -n 3 'tensor=[2, 1]' parallel.reproducible.tensor=4
exit $bad
