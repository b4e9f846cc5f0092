#!/bin/sh
# test: label=quick timeout=60
# penstock plan RUN.yaml: what the run file gives is fixed, the plan trains to the bits of the same layout by keys, what
# does not fit is said with what would, and wrong input is refused in one line.
. "$(dirname "$0")/../script.sh"

write_run 2
weights() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }

"$PENSTOCK" plan run.yaml -n 4 -o plan.yaml --report plan.html >out || fail "plan"
for line in '^layout ' '^step .*tokens/s' '^lower bound .* gap [0-9.]*%' '^memory  *stages\{0,1\} 0' '^costs ' '^searched ' 'the best$'; do
    grep -q -e "$line" out || fail "no line '$line' in: $(cat out)"
done
grep -q '<html' plan.html || fail "no page"
"$PENSTOCK" inspect plan.yaml | grep -q "from $(pwd -P)/run.yaml" || fail "the plan does not say what it was made from"
"$PENSTOCK" simulate plan.yaml >out || fail "simulate"
grep -q overrides plan.yaml && fail "overrides that there are none of"
echo 'parallel: {cluster: 4 h100}' >>run.yaml
"$PENSTOCK" plan run.yaml --cluster '2 a100-40' batch=4 channels=48 'data.paths=[none*.txt]' -o other.yaml >out || fail "plan with overrides"
grep -q 'overrides: \[.*"model.channels=48".*"train.batch=4"' other.yaml || fail "overrides are not in the plan"
"$PENSTOCK" inspect other.yaml | grep -q 'run.yaml .*train.batch=4' || fail "inspect does not say the overrides"
(cd / && "$PENSTOCK" simulate "$OLDPWD/other.yaml") >out || fail "simulate a plan made with overrides"
sed -i '$d' run.yaml
step() { sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' "$1"; }

# the plan's layout, by the plan and by keys, has the same bits; the prediction of the plan is that of the run
"$PENSTOCK" plan run.yaml tensor=1 data=2 pipeline=2 schedule=1f1b micro_batch=1 zero=1 recompute=full -o fixed.yaml >out || fail "fixed"
grep -q '2 stages x 2 replicas x 1 tensor rank, 1f1b, 1 chunk' out || fail "not what is fixed: $(cat out)"
grep -q 'zero 1, recompute full' out || fail "not what is fixed: $(cat out)"
"$PENSTOCK" train -q run.yaml transport=self plan=fixed.yaml || fail "train by the plan"
"$PENSTOCK" train -q run.yaml transport=self tensor=1 data=2 pipeline=2 schedule=1f1b micro_batch=1 recompute=full || fail "train by keys"
[ "$(weights runs/run)" ] && [ "$(weights runs/run)" = "$(weights runs/run-2)" ] || fail "other weights by the plan"
[ "$(step fixed.yaml)" = "$(step runs/run/plan.yaml)" ] || fail "the plan's step is $(step fixed.yaml), the run's $(step runs/run/plan.yaml)"
peak() { grep peak_bytes "$1"; }
[ "$(peak fixed.yaml)" = "$(peak runs/run/plan.yaml)" ] || fail "the plan's memory is $(peak fixed.yaml), the run's $(peak runs/run/plan.yaml)"

# seven samples in micro-batches of two: the first one has one; on both replicas four samples at most
uneven='batch=7 tensor=1 data=2 pipeline=1 schedule=1f1b micro_batch=2'
# shellcheck disable=SC2086
"$PENSTOCK" plan run.yaml $uneven -n 2 -o uneven.yaml --json >out || fail "uneven micro-batches"
grep -q '"first_micro_batch": *1' out || fail "uneven micro-batches: $(cat out)"
grep -q '^first_micro_batch: 1 ' uneven.yaml || fail "uneven micro-batches: $(cat uneven.yaml)"
"$PENSTOCK" simulate uneven.yaml >out || fail "simulate uneven micro-batches"
"$PENSTOCK" train -q run.yaml name=uneven batch=7 transport=self plan=uneven.yaml || fail "train uneven micro-batches"
# shellcheck disable=SC2086
"$PENSTOCK" train -q run.yaml name=uneven $uneven transport=self || fail "train uneven micro-batches by keys"
[ "$(weights runs/uneven)" ] && [ "$(weights runs/uneven)" = "$(weights runs/uneven-2)" ] || fail "other weights by the uneven plan"
[ "$(step uneven.yaml)" = "$(step runs/uneven/plan.yaml)" ] || fail "uneven: $(step uneven.yaml), the run $(step runs/uneven/plan.yaml)"
sed 's/^first_micro_batch: 1/first_micro_batch: 2/' uneven.yaml >wrong.yaml
"$PENSTOCK" simulate wrong.yaml >out 2>err && fail "a first micro-batch that is not smaller: accepted"
grep -q 'wrong.yaml:[0-9]*:20: expected a whole number from 1 to 1' err || fail "not smaller: $(cat err)"

# a number of layers: by the plan and by keys the same bits and bytes; auto: as many as memory asks for
layers='tensor=1 data=1 pipeline=2 schedule=1f1b micro_batch=1'
# shellcheck disable=SC2086
"$PENSTOCK" plan run.yaml $layers 'recompute={full:1}' -o layers.yaml >out || fail "{full: 1}"
grep -q 'recompute {full: 1}' out && grep -q 'rank: 0, .*recompute: {full: 1}}' layers.yaml || fail "no {full: 1}: $(cat out)"
"$PENSTOCK" train -q run.yaml transport=self name=layers plan=layers.yaml || fail "train by {full: 1}"
# shellcheck disable=SC2086
"$PENSTOCK" train -q run.yaml transport=self name=kept $layers || fail "train without recomputation"
[ "$(weights runs/layers)" = "$(weights runs/kept)" ] || fail "{full: 1} has other weights"
[ "$(peak layers.yaml)" = "$(peak runs/layers/plan.yaml)" ] || fail "{full: 1}: planned $(peak layers.yaml)"
bytes() { sed -n 's/^ *peak_bytes: \[\([0-9]*\),.*/\1/p' "$1"; }
[ "$(bytes layers.yaml)" -lt "$(bytes runs/kept/plan.yaml)" ] || fail "{full: 1} keeps $(bytes layers.yaml)"
# shellcheck disable=SC2086
"$PENSTOCK" plan run.yaml $layers 'recompute={full:auto}' -o auto.yaml >out || fail "{full: auto}"
grep -q 'recompute none' out || fail "recomputed without need: $(cat out)"
# shellcheck disable=SC2086
"$PENSTOCK" plan run.yaml $layers 'recompute={full:auto}' memory=440000 -o auto.yaml >out || fail "{full: auto}, less memory"
grep -q 'recompute: {full: 1}}' auto.yaml || fail "not recomputed: $(cat auto.yaml)"
"$PENSTOCK" train -q run.yaml transport=self name=auto plan=auto.yaml 'recompute={full:auto}' || fail "train by {full: auto}"
[ "$(weights runs/auto)" = "$(weights runs/kept)" ] || fail "{full: auto} has other weights"

# devices that cannot compute in this precision are left out
"$PENSTOCK" plan run.yaml precision=bf16 --cluster '1x2 h100 nvlink:900GB/s + 1x2 v100 nvlink:300GB/s ib:200Gb/s' -o mixed.yaml >out || fail "two kinds"
grep -q '^devices: \[0, 1\]' mixed.yaml || fail "not on devices 0 and 1: $(grep '^devices' mixed.yaml)"

# of a job that is too large to be simulated whole, the pipeline that was planned for
"$PENSTOCK" plan run.yaml layers=4 batch=64 --cluster '16x8 h100 ib:400Gb/s' --time-limit 1 -o large.yaml >out || fail "128 devices"
"$PENSTOCK" simulate large.yaml --json --execute --svg large.svg >out 2>err || fail "simulate 128 devices: $(cat err)"
grep -q "\"makespan_ns\": $(step large.yaml)" out || fail "planned $(step large.yaml) ns: $(grep makespan out)"
grep -q ' 0 with a start or end that differs from the simulation' err || fail "128 devices: $(cat err)"
stages=$(sed -n 's/^ranks: \([0-9]*\).*/\1/p' large.yaml)
[ "$(grep -c '"busy_ns"' out)" = "$stages" ] && [ "$(grep -c '>rank [0-9]*<title>' large.svg)" = "$stages" ] ||
    fail "not $stages ranks: $(cat out)"

# what is open is no longer than what is given, and the plainer of equals
for zero in 0 1; do "$PENSTOCK" plan run.yaml -n 2 data=2 tensor=1 micro_batch=2 zero=$zero -o zero$zero.yaml >out || fail "zero $zero"; done
"$PENSTOCK" plan run.yaml -n 2 data=2 tensor=1 micro_batch=2 -o open.yaml >out || fail "zero open"
[ "$(step open.yaml)" -le "$(step zero0.yaml)" ] && [ "$(step open.yaml)" -le "$(step zero1.yaml)" ] ||
    fail "zero open: $(step open.yaml), 0: $(step zero0.yaml), 1: $(step zero1.yaml)"
"$PENSTOCK" plan run.yaml -n 11 --top 99 >out || fail "11 devices"
grep -q '^  *2  *1  *5 ' out || fail "10 of 11 devices are not looked at: $(cat out)"

"$PENSTOCK" plan run.yaml -n 4 --json >out || fail "json"
for key in fits step_s tokens_per_s lower_bound_s gap layout predicted peak_bytes rows why devices searched; do
    grep -q "\"$key\":" out || fail "no $key in the JSON"
done

# of a layout, its bound and what is in flight are what simulate says of its plan
"$PENSTOCK" plan run.yaml -n 4 pipeline=4 micro_batch=1 schedule=zb-h2 -o h2.yaml --json >json || fail "zb-h2"
"$PENSTOCK" simulate h2.yaml --json >out || fail "simulate zb-h2"
bound=$(sed -n 's/.*"bound_s": \([0-9.e-]*\).*/\1/p' json | head -n 1)
least=$(sed -n 's/.*"lower_bound": \([0-9.e-]*\).*/\1/p' out)
awk -v a="$bound" -v b="$least" 'BEGIN { exit !(a > 0 && a * 1e3 - b < 1e-6 && b - a * 1e3 < 1e-6) }' || fail "bound $bound s, simulated $least ms"
numbers() { tr -d ' \n' <"$2" | sed "s/.*\"$1\":\[\([^]]*\)\].*/\1/"; }
held=$(tr -d ' \n' <json | sed 's/"rows".*//; s/.*"in_flight":\[\([^]]*\)\].*/\1/')
[ "$held" = 7.0,5.0,3.0,1.0 ] && [ "$held" = "$(numbers peak_activations out)" ] || fail "in flight $held, simulated $(numbers peak_activations out)"
"$PENSTOCK" plan run.yaml -n 20 layers=4 batch=32 micro_batch=1 pipeline=20 schedule=1f1b -o deep.yaml >out || fail "20 stages"
most=$(sed -n 's/^ *peak_bytes: \[\(.*\)\].*/\1/p' deep.yaml | tr ',' '\n' | awk '$1 > most { most = $1; at = NR - 1 } END { print at }')
grep -q "more stages; stage $most uses the largest share of its memory\$" out || fail "stage $most has most: $(cat out)"
# stages that are alike are one line, with the least and the most memory
"$PENSTOCK" plan run.yaml -n 4 pipeline=4 micro_batch=1 schedule=gpipe -o alike.yaml >out || fail "gpipe"
most=$(sed -n 's/^ *peak_bytes: \[\(.*\)\].*/\1/p' alike.yaml | tr ',' '\n' | awk '$1 > most { most = $1; at = NR - 1 } END { print at }')
grep -q "^memory      stages 0 to 3: [0-9.]* KiB (stage [0-3]) to [0-9.]* KiB (stage $most).* 8 micro-batches in flight" out ||
    fail "stages 0 to 3, most on $most: $(grep ^memory out)"
! grep -q 'kept free' out || fail "a margin of processors: $(cat out)"

# a GPU's memory is the chip's, without what driver, libraries and NCCL take, and without a margin
"$PENSTOCK" plan run.yaml --cluster '2 h100' >out || fail "2 h100"
grep -q ' of 72.76 GiB, ' out && grep -q 'kept free of 79.65 GiB of each H100: 2.91 GiB for driver, context and libraries, with 2 NCCL communicators, a margin of 5%$' out ||
    fail "memory of an H100: $(cat out)"
"$PENSTOCK" plan run.yaml --cluster '1 h100' --margin 0 --json >out || fail "no margin"
grep -q '"usable_bytes": 83843088384$' out && grep -q '"reserved_bytes": 1677721600,' out || fail "no margin: $(cat out)"
"$PENSTOCK" plan run.yaml --cluster '2 h100 memory:64GiB' >out || fail "a memory that is given"
grep -q ' of 64.00 GiB, ' out && ! grep -q 'kept free' out || fail "less than is given: $(cat out)"
"$PENSTOCK" plan run.yaml --cluster '2 h100 memory:64GiB' --margin 0.25 --report margin.html >out || fail "a margin of what is given"
grep -q ' of 48.00 GiB, ' out && grep -q 'kept free of 64.00 GiB of each H100: a margin of 25%$' out || fail "48 GiB: $(cat out)"
grep -q 'limit of 48.0 GiB' margin.html || fail "the page has another limit"
expect_plan 2 'margin 97%: nothing is left of the 79.65 GiB of a device of kind H100' run.yaml --cluster '2 h100' --margin 97%
expect_plan 2 "margin: expected a share of each device's memory, such as 5% or 0.05, found '5GiB'" run.yaml -n 2 --margin 5GiB
expect_plan 2 'expected one of cpu.*MI300X; describe others in .kinds. of a cluster file' run.yaml --cluster '2 abacus'
"$PENSTOCK" plan run.yaml -n 2 pipeline=1 data=2 tensor=1 -o two.yaml >out || fail "two replicas"
"$PENSTOCK" plan run.yaml -n 2 pipeline=1 data=2 tensor=1 parallel.local.steps=10 -o islands.yaml >out || fail "islands"
grep -q '^islands     2 of 1 replica, an outer step after every 10 steps' out || fail "islands: $(cat out)"
"$PENSTOCK" plan run.yaml -n 4 pipeline=1 tensor=1 parallel.local.steps=10 parallel.local.islands=2 >out || fail "islands"
grep -q '^islands     2 of 2 replicas, an outer step' out || fail "islands of two: $(cat out)"
"$PENSTOCK" simulate islands.yaml >out || fail "islands"
awk '/^makespan/ { outer = $2 } /^islands/ { inner = $14; mean = $17 }
    END { exit !(outer > inner && inner > 0 && (outer + 9 * inner) / 10 - mean < 0.001 && mean - (outer + 9 * inner) / 10 < 0.001) }' out ||
    fail "the mean of ten steps: $(cat out)"
"$PENSTOCK" verify run.yaml -n 2 data=2 parallel.local.steps=2 >out 2>err && fail "verify compares islands"
grep -q 'use parallel.local.steps=0' err || fail "verify of islands: $(cat err)"
"$PENSTOCK" plan run.yaml -n 2 pipeline=1 data=2 tensor=1 schedule=interleaved >out || fail "chunks on one stage"
grep -q '^chunks      [0-9]* on one stage: replicas sum' out || fail "chunks on one stage: $(cat out)"
"$PENSTOCK" simulate two.yaml --what-if device.1.speed=0.25 >out || fail "a slow replica"
awk '/lower bound/ { bound = $9 - $5 } $1 == 1 { busy = $2 } END { exit !(busy > 0 && bound + 0.001 >= busy) }' out ||
    fail "the bound is below what the slow replica computes: $(cat out)"

"$PENSTOCK" plan run.yaml -n 4 memory=100K --json >out 2>err && fail "100K fits"
grep -q '"lower_bound_s": null' out || fail "a bound of nothing: $(grep lower_bound_s out)"
"$PENSTOCK" plan run.yaml -n 2 pipeline=2 threads=4096 >out || fail "4096 threads"
grep -q '^oversubscribed: 2 ranks of 4096 threads share' out || fail "not oversubscribed: $(cat out)"
"$PENSTOCK" plan run.yaml -n 1 threads=1 >out && ! grep -q '^oversubscribed' out || fail "one rank is oversubscribed: $(cat out)"

expect_plan 4 'no layout fits.*more on stage.*a layout would fit with [0-9.]* KiB of memory per device' run.yaml -n 4 memory=100K --report none.html
kib=$(sed -n 's/.*a layout would fit with \([0-9]*\)\.[0-9]* KiB .*/\1/p' err)
"$PENSTOCK" plan run.yaml -n 4 memory=$((kib * 103 / 100))K >out 2>err || fail "it does not fit with $kib KiB, as was said: $(cat err)"
! "$PENSTOCK" plan run.yaml -n 4 memory=$((kib * 9 / 10))K >out 2>err || fail "it fits with much less than $kib KiB"
expect_plan 4 'a layout would fit with [a-z]*\.[a-z_]*=' run.yaml -n 2 pipeline=2 schedule=gpipe micro_batch=1 recompute=none memory=515K
[ -s none.html ] && grep -q 'Would fit with' none.html || fail "no page about what does not fit"
expect_plan 2 'h10.*H100' run.yaml --cluster '2x8 h10'
expect_plan 2 "'2xh100' is neither a file nor a short form such as" run.yaml --cluster 2xh100
expect_plan 4 'memory per device (parallel.memory)' run.yaml -n 1 memory=100K
least=$(sed -n 's/.*a layout would fit with \([0-9.]*\) \([KM]\)iB of memory.*/\1\2iB/p' err)
"$PENSTOCK" plan run.yaml -n 1 memory="$least" >out || fail "it does not fit with $least, as was said"
expect_plan 2 'no link between nodes.*such as' run.yaml --cluster '2x1 h100'
expect_plan 2 'run.yaml is an input of the plan' run.yaml -n 2 -o ./run.yaml
expect_plan 2 'run.yaml is an input of the plan' run.yaml -n 2 --report run.yaml
rc=0
"$PENSTOCK" plan run.yaml -n 2 channels=48 -o wide.yaml >out && "$PENSTOCK" train run.yaml plan=wide.yaml transport=self >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'another model.*made with model.channels=48' err || fail "plan of another model: status $rc, $(cat err)"
expect_plan 2 'from 1 to' run.yaml -n 0
expect_plan 2 'at least 8, but there are only 4 devices' run.yaml -n 4 pipeline=8
expect_plan 2 'infeasible: 64 pipeline stages need at least one operator each, but the model has 22' run.yaml -n 64 pipeline=64
expect_plan 2 'has only 4 devices' run.yaml --cluster '1x4 h100' -n 5
expect_plan 2 '8 samples are too few for 4 replicas with each allowed micro_batch' run.yaml -n 4 micro_batch=3 data=4
expect_plan 2 'deepspeed needs micro-batches of equal size, but the first one of this layout has 2 samples instead of 3' run.yaml \
    -n 2 micro_batch=3 data=2 --export deepspeed
expect_plan 2 'program megatron-core needs micro-batches of equal size' run.yaml --cluster '4 h100' precision=bf16 micro_batch=3 \
    --program megatron-core
expect_plan 2 'fp8 needs micro-batches of equal size.*; choose one that does, or bf16$' run.yaml --cluster '4 h100' \
    precision=fp8 micro_batch=3
# a two-level exchange that is asked for: no layout with zero 2 is tried, and keys that contradict it are refused at once
"$PENSTOCK" plan run.yaml --cluster '4 cpu' batch=64 data=4 parallel.exchange=two-level >out 2>&1 || fail "two-level: $(cat out)"
"$PENSTOCK" plan run.yaml --cluster '2x2 cpu ethernet:1Gb/s' batch=64 data=4 -o two.yaml >out 2>&1 || fail "auto: $(cat out)"
for exchange in two-level flat; do
    "$PENSTOCK" simulate two.yaml --json >out 2>&1 || fail "$exchange: $(cat out)"
    grep -q "\"exchange\": \"$exchange\"" out || fail "not $exchange: $(cat out)"
    sed -i 's/"parallel.data=4"/&, "parallel.exchange=flat"/' two.yaml
done
expect_plan 2 'adds the gradients of a whole step.*use parallel.zero=1$' run.yaml --cluster '2x2 cpu' parallel.exchange=two-level zero=2
expect_plan 2 'use parallel.compress.up=none' run.yaml --cluster '2x2 cpu' parallel.exchange=two-level parallel.compress.up=int8
expect_plan 2 'omit one of the two' run.yaml --cluster '2x2 cpu' parallel.exchange=two-level parallel.servers=1
"$PENSTOCK" plan run.yaml --cluster '2x2 cpu' parallel.exchange=two-level zero=2 data=1 >out 2>&1 || fail "one replica: $(cat out)"
expect_plan 2 'micro_batch (9) is larger than train.batch (8)' run.yaml -n 4 micro_batch=9
expect_plan 2 'schedule solved for at most 64 devices' run.yaml --cluster '16x8 h100 ib:400Gb/s' schedule=solved
expect_plan 2 'does not support schedule custom' run.yaml -n 4 schedule=custom
expect_plan 2 'one mode for all chunks' run.yaml -n 4 'recompute=[none, full]'
expect_plan 2 "one of none, selective, full, {full: N}, found '{full: 0}'" run.yaml -n 4 'recompute={full: 0}'
expect_plan 2 "found '{fool: 1}'" run.yaml -n 4 'recompute={fool: 1}'
expect_plan 2 'no layout is feasible' run.yaml -n 4 tensor=4
expect_plan 2 'parallel.replicas has 2 numbers' run.yaml -n 4 data=4 'replicas=[4, 4]'
expect_plan 2 'does not divide train.batch 8' run.yaml -n 2 'replicas=[2, 3]'
printf 'machine: {cpu: A, isa: avx2, cpus: 2, threads: 1, ranks: 2}\nprecision: fp32\noptimizer: adamw\noperators: [{op: a, ns: 1}]\n' >other.yaml
expect_plan 2 "other.yaml: the profile was measured with processor 'A'" run.yaml -n 2 --profile other.yaml
"$PENSTOCK" plan run.yaml -n 2 'replicas=[1, 3]' >out && grep -q 'per replica 1, 3$\|per replica 1, 3,' out || fail "replicas as given: $(cat out)"
# packed gradients: said where they pay, and where they do not; the step is that of the layout with the keys set
plan_pair() { "$PENSTOCK" plan run.yaml --cluster "2x1 cpu ethernet:$1" pipeline=1 zero=1 schedule=1f1b channels=256 "$2" -o packed.yaml >out 2>err || fail "$*: $(cat err)"; }
step_ns() { sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' packed.yaml; }
plan_pair 1Mb/s micro_batch=4
said=$(sed -n 's/^compress  *with parallel.compress.up=\(.*\): \([0-9.]*\) \([mu]*s\) per step.*/\1 = \2 \3/p' out)
case $said in
'int8 parallel.compress.down=int8 = '*) ;;
*) fail "no packing is said at 1 Mbit/s: $(cat out)" ;;
esac
"$PENSTOCK" plan run.yaml --cluster '2x1 cpu ethernet:1Mb/s' pipeline=1 zero=1 micro_batch=4 schedule=1f1b channels=256 --json >json || fail "json"
both=$(tr -d ' \n' <json | sed -n 's/.*"down":"int8","stages":"none","step_s":\([0-9.e-]*\).*/\1/p')
"$PENSTOCK" plan run.yaml --cluster '2x1 cpu ethernet:1Mb/s' pipeline=1 zero=1 micro_batch=4 schedule=1f1b channels=256 parallel.compress.up=int8 parallel.compress.down=int8 -o packed.yaml >out || fail "packed"
! grep -q '^compress' out || fail "advice on keys that are set: $(cat out)"
[ "$(awk "BEGIN {printf \"%.0f\", $both * 1e9}")" = "$(step_ns)" ] || fail "$both s were said, and $(step_ns) ns are planned"
plan_pair 100Gb/s micro_batch=4
grep -q '^compress  *does not pay' out || fail "packing on a fast link: $(cat out)"
"$PENSTOCK" plan run.yaml --cluster '2x1 cpu ethernet:1Mb/s' pipeline=2 micro_batch=4 schedule=1f1b channels=256 >out || fail "stages"
grep -q '^compress  *with parallel.compress.stages=int8: ' out || fail "packed activations: $(cat out)"
plan_pair 1Mb/s parallel.compress.min_bytes=1G
! grep -q '^compress' out || fail "advice on codecs that pack nothing: $(cat out)"
expect_plan 2 'leave those options out' run.yaml --graph x
expect_plan 2 'need --graph' run.yaml --devices 4
expect_plan 2 'nowhere.yaml' nowhere.yaml
expect_plan 2 'no run file; usage'

exit $bad
