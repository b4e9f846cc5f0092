#!/bin/sh
# test: label=quick timeout=60
# Schedule solved is solved for once where our launcher starts the ranks, which take its order, one for each number of
# micro-batches; ranks of one process, which solve themselves, come to the same plan and weights.
. "$(dirname "$0")/../script.sh"
i=0; while [ $i -lt 60 ]; do echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1)); done >text.txt
cat >run.yaml <<END
model: {kind: gpt, layers: 3, heads: 2, channels: 16, context: 16}
data: {kind: text, paths: [text.txt], validation: 0}
train: {batch: 6, micro_batch: 1, steps: 2}
parallel: {schedule: solved, pipeline: 2, data: 2, replicas: [2, 4], threads: 1}
checkpoint: {every: 0}
END
hash() { sed -n 's/.*weights_xxh64":"\([0-9a-f]*\)".*/\1/p' "runs/$1/metrics.jsonl"; }

timeout 50 "$PENSTOCK" train run.yaml name=several log.level=debug >out 2>err || fail "status $?: $(cat err)"
grep -q '^schedule:  solved, ' out || fail "not solved: $(cat out)"
[ "$(grep -c 'schedule solved: candidate 1f1b, ' err)" = 1 ] || fail "not solved once: $(grep 'schedule solved' err)"
PENSTOCK_SOLVED_FD=nonsense timeout 50 "$PENSTOCK" train run.yaml name=one parallel.transport=self >/dev/null 2>err ||
    fail "status $?: $(cat err)"
cmp runs/several/plan.yaml runs/one/plan.yaml || fail "other plans"
[ -n "$(hash one)" ] && [ "$(hash one)" = "$(hash several)" ] || fail "other weights"
# what is handed on is the run's: advice about memory is for other layouts, which are solved for
"$PENSTOCK" simulate --schedule zb-h1 -p 2 -m 6 --csv order.csv >/dev/null || fail "no order"
printf '{"chunks":1,"solved":"by hand","schedules":["%s"]}' "$(sed 's/$/\\n/' order.csv | tr -d '\n')" >handed
exec 9<handed
PENSTOCK_SOLVED_FD=9 timeout 50 "$PENSTOCK" train run.yaml name=tight parallel.transport=self parallel.data=1 \
    parallel.replicas=[] parallel.memory=400000 >out 2>err
rc=$?
[ $rc = 4 ] || [ $rc = 0 ] || fail "status $rc: $(cat out err)"
PENSTOCK_SOLVED_FD=9 timeout 50 "$PENSTOCK" train run.yaml name=roomy parallel.transport=self parallel.data=1 \
    parallel.replicas=[] >out 2>err
grep -q '^schedule:  solved, by hand' out || fail "not what was handed on: $(cat out err)"

# chunks in rounds, whose named order has B and W as one: the bound is that of all their work
timeout 50 "$PENSTOCK" train run.yaml name=rounds parallel.data=1 parallel.replicas=[] parallel.chunks=3 >out 2>err
gap=$(sed -n 's/^schedule:.*(gap \([0-9]*\).*%).*/\1/p' out)
[ -n "$gap" ] && [ "$gap" -lt 60 ] || fail "chunks in rounds: $(cat out err)"
touch order.csv
timeout 50 "$PENSTOCK" train run.yaml name=ignored parallel.schedule_file=order.csv >out 2>err
grep -q 'schedule_file has no effect: parallel.schedule is solved$' err || fail "no word about it: $(cat err)"
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 timeout 50 "$PENSTOCK" train run.yaml name=task >out 2>err
grep -q 'SLURM_STEP_NUM_TASKS is 4, .* srun --mpi=pmix' err || fail "no word about tasks: $(cat err)"
exit $bad
