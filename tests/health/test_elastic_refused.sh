#!/bin/sh
# test: isa=any
# What elastic runs do not go with is refused before ranks start, with what to change; plans and simulations count both
# sides of the state.
. "$(dirname "$0")/../script.sh"
write_run 2

# refused PATTERN ARGUMENT...
refused() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" train run.yaml --elastic "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] && [ ! -e runs/run ] ||
        fail "train --elastic $*: status $rc, expected 2 and '$pattern': $(cat err)"
}

echo "localhost slots=65" >hosts
refused "65 ranks; an elastic run has at most 64" --hostfile hosts -n 65 parallel.data=65 train.batch=65
refused "cannot lose a rank: elastic.min is 2" --hostfile hosts -n 2 elastic.min=2
refused "on several hosts no rank can join later" --hostfile hosts -n 2 elastic.max=3
refused "cannot lose a rank: 1 is not a multiple of" --hostfile hosts -n 2 parallel.data=2
refused "the run has one process" -n 1
refused "the run has one process" -n 2 parallel.transport=self
refused "parallel.plan, which is for one number of ranks" -n 2 parallel.plan=auto
refused "parallel.device: state in a GPU" -n 2 parallel.device=timed
refused "tensor degree for each stage" -n 3 "parallel.tensor=[1,2]"
refused "parallel.servers" -n 3 parallel.data=2 parallel.servers=1
refused "parallel.update=delayed" -n 2 parallel.data=2 parallel.update=delayed
refused "islands (parallel.local)" -n 2 parallel.data=2 parallel.local.steps=2
refused "parallel.compress.stages=none" -n 2 parallel.compress.stages=int8 parallel.compress.links=all
refused "cannot lose a rank: elastic.min is 2" -n 2 elastic.min=2
refused "elastic.min is 3, but the run has 2 ranks" -n 2 elastic.min=3
refused "elastic.max is 2, but the run has 3" -n 3 elastic.max=2
refused "an elastic run has at most 64 processes" -n 3 elastic.max=65
refused "elastic.max is 60 and elastic.spare 5" -n 3 elastic.max=60 elastic.spare=5
refused "cannot lose a rank: 1 is not a multiple of parallel.data x parallel.tensor, 2" -n 2 parallel.data=2
for range in a 0 3:2 2:a 1:4x :3 -1 2000; do
    refused "--elastic=$range: expected MIN, MIN: or MIN:MAX" -n 2 --elastic=$range
done
refused "elastic.max is 2, but the run has 3" -n 3 --elastic=1:2
refused "cannot lose a rank: elastic.min is 2" -n 2 --elastic=2:
refused "cannot lose a rank: 1 is not a multiple of" -n 2 --elastic=1:3 parallel.data=2
for key in max spare; do
    rc=0
    "$PENSTOCK" train run.yaml -q -n 2 elastic.$key=3 >out 2>&1 </dev/null || rc=$?
    [ $rc = 2 ] && grep -q "elastic.$key is set, but the run is not elastic" out || fail "elastic.$key: $rc, $(cat out)"
done
RANK=0 WORLD_SIZE=1 refused "another launcher starts" -n 2

# peaks WORDS...: bytes of both ranks, as a plan predicts them
peaks() {
    "$PENSTOCK" plan run.yaml -n 2 parallel.pipeline=2 parallel.schedule=1f1b parallel.recompute=none \
        train.micro_batch=1 "$@" -o plan.yaml >out 2>err || fail "plan $*: $(cat out err)"
    sed -n 's/^ *peak_bytes: //p' plan.yaml
}
"$PENSTOCK" train run.yaml -n 2 -q elastic.min=1 parallel.schedule=1f1b train.micro_batch=1 --runs own name=run ||
    fail "train elastic.min=1"
trained=$(sed -n 's/^ *peak_bytes: //p' own/run/plan.yaml)
[ -n "$trained" ] && [ "$(peaks elastic.min=1)" = "$trained" ] || fail "a plan has $(peaks elastic.min=1), a run $trained"
[ "$(peaks)" != "$trained" ] || fail "a run that is not elastic has the same peaks: $trained"
peaks elastic.min=1 >/dev/null
"$PENSTOCK" simulate plan.yaml >out || fail "simulate"
first=$(echo "$trained" | sed 's/\[\([0-9]*\),.*/\1/')
grep -q "^ *0 .* $first\$" out || fail "simulate has not $first on rank 0: $(cat out)"
exit $bad
