#!/bin/sh
# test: label=quick isa=any timeout=60
# penstock plan --program: another program's steps, the keys that contradict it, and the range of the prediction;
# --calibrate: predictions corrected by a run. simulate --program likewise.
. "$(dirname "$0")/../script.sh"

cat >gpt.yaml <<'END_OF_RUN'
model: {kind: gpt, layers: 12, heads: 16, channels: 2048, context: 2048, vocabulary: 51200}
data: {paths: [text]}
train: {batch: 64, micro_batch: 4, precision: bf16}
END_OF_RUN
cluster='2x8 a100-80 nvlink:600GB/s ib:8x200Gb/s'

# value KEY FILE: of the answer's JSON, the first with this key
value() { sed -n "s/^ *\"$1\": *\([0-9.e+-]*\),*\$/\1/p" "$2" | tail -n 1; }
# above A B: A is above B
above() { awk "BEGIN { exit !($1 > $2) }"; }

plan() { "$PENSTOCK" plan gpt.yaml data=16 pipeline=1 tensor=1 recompute=none zero=1 --cluster "$cluster" --json "$@"; }
for program in penstock fsdp 'fsdp attention=flash2' megatron-2021 megatron-core llm.c; do
    plan --program "$program" >"$program.json" || fail "plan --program '$program'"
    above "$(value step_high_s "$program.json")" "$(value step_s "$program.json")" || fail "$program: above its range"
    above "$(value step_s "$program.json")" "$(value step_low_s "$program.json")" || fail "$program: below its range"
done
plan >default.json || fail "plan"
[ "$(value step_s default.json)" = "$(value step_s penstock.json)" ] || fail "penstock is not the default"
above "$(value step_s fsdp.json)" "$(value step_s 'fsdp attention=flash2.json')" || fail "FlashAttention 2 is not faster"
above "$(value step_s megatron-2021.json)" "$(value step_s megatron-core.json)" || fail "stored scores are not slower"
above "$(value step_s llm.c.json)" 0.9 && fail "llm.c takes $(value step_s llm.c.json) s"

# what contradicts the program is overridden and listed
"$PENSTOCK" plan gpt.yaml pipeline=2 zero=0 schedule=zb-h1 --cluster "$cluster" --program fsdp >out || fail "plan fsdp"
for line in '^program  *fsdp: ' 'contradicts it: parallel.pipeline=1, not 2' 'parallel.zero=2, not 0' \
    'parallel.schedule=[a-z0-9]*, not zb-h1' '1 stage x 16 replicas' 'measured steps are expected from [0-9.]* '; do
    grep -q -e "$line" out || fail "no line '$line' in: $(cat out)"
done
plan --program fsdp zero=0 >over.json && grep -q '"parallel.zero=2, not 0"' over.json || fail "not in the JSON"

# other programs recompute layer by layer: SC'21's 7.5 billion parameters fit in 80 GB
sed 's/layers: 12, heads: 16, channels: 2048/layers: 36, heads: 32, channels: 4096/; s/batch: 64, micro_batch: 4/batch: 512, micro_batch: 16/' gpt.yaml >large.yaml
large='pipeline=1 tensor=4 data=32 sequence=false recompute=full zero=0 precision=fp16 schedule=1f1b'
# shellcheck disable=SC2086
"$PENSTOCK" plan large.yaml $large --cluster '16x8 a100-80 nvlink:600GB/s ib:8x200Gb/s' --program megatron-2021 --json >out ||
    fail "does not fit: $(cat out)"
grep -A 2 '"recompute": \[' out | grep -q '"full": 36' || fail "not layer by layer: $(grep -A 3 recompute out)"
# shellcheck disable=SC2086
"$PENSTOCK" plan large.yaml $large --cluster '16x8 a100-80 nvlink:600GB/s ib:8x200Gb/s' >out 2>&1 && fail "36 layers at once fit"

# the plan of another program, simulated: with its durations only if it is named
"$PENSTOCK" plan gpt.yaml data=16 pipeline=1 zero=1 --cluster "$cluster" --program megatron-2021 -o plan.yaml >out ||
    fail "plan to simulate"
"$PENSTOCK" simulate plan.yaml --json >own.json || fail "simulate"
"$PENSTOCK" simulate plan.yaml --program megatron-2021 --json >other.json || fail "simulate --program"
step=$(sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' plan.yaml)
above 0.001 "$(awk "BEGIN { x = $(value makespan other.json) * 1e6 / $step - 1; print x < 0 ? -x : x }")" ||
    fail "simulated $(value makespan other.json) ms, planned $step ns"
[ "$(value makespan own.json)" != "$(value makespan other.json)" ] || fail "simulate ignores the program"

expect_plan 2 "unknown program 'fsdb'; did you mean 'fsdp'" gpt.yaml --cluster "$cluster" --program fsdb
expect_plan 2 "unknown program 'x'; expected penstock, " gpt.yaml --cluster "$cluster" --program x
expect_plan 2 "unknown attention 'flash9'; expected stored, " gpt.yaml --cluster "$cluster" --program 'fsdp attention=flash9'
expect_plan 2 'moves: expected a number from 0.1 to 10, ' gpt.yaml --cluster "$cluster" --program 'fsdp moves=99'
expect_plan 2 "unknown key 'speed'; expected attention, " gpt.yaml --cluster "$cluster" --program 'fsdp speed=2'
"$PENSTOCK" simulate --schedule 1f1b --stages 2 --micro-batches 2 --program fsdp 2>out && fail "a program without a plan"
grep -q -e '--program needs a plan' out || fail "not said: $(cat out)"

# a run's measured step corrects the prediction for that run to it
write_run 2
"$PENSTOCK" train -q run.yaml steps=6 batch=64 transport=self pipeline=1 name=cal || fail "train"
"$PENSTOCK" plan run.yaml -n 1 pipeline=1 data=1 batch=64 micro_batch=8 --json >plain.json || fail "plan run.yaml"
"$PENSTOCK" plan run.yaml -n 1 pipeline=1 data=1 batch=64 micro_batch=8 --calibrate runs/cal --json >cal.json ||
    fail "plan --calibrate"
factor=$(value calibration cal.json)
above 0.02 "$(awk "BEGIN { x = $(value step_s cal.json) / $(value step_s plain.json) / $factor - 1; print x < 0 ? -x : x }")" ||
    fail "factor $factor, but $(value step_s plain.json) s became $(value step_s cal.json) s"
grep -q '"step_low_s": null' plain.json || fail "a nominal core has a range"
above "$(value step_high_s cal.json)" "$(value step_s cal.json)" || fail "a calibrated step has no range"
expect_plan 2 'runs/none/metrics.jsonl: No such file' run.yaml -n 1 --calibrate runs/none
"$PENSTOCK" train -q run.yaml transport=self pipeline=1 name=short || fail "train"
expect_plan 2 'calibrate runs/short: metrics.jsonl has 1 measured steps' run.yaml -n 1 --calibrate runs/short
exit $bad
