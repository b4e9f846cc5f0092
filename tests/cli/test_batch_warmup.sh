#!/bin/sh
# test: label=quick timeout=120
# train.batch_warmup: the same weights in every layout and after a resume in the middle, the weights of a run whose batch is
# that of the first steps, and what is said of values that do not go.
. "$(dirname "$0")/../script.sh"
write_run 2
sed -i 's/^train:.*/train: {steps: 9, batch: 16, micro_batch: 2, lr: 1.0e-2, warmup: 0, decay: none, batch_warmup: {from: 4, tokens: 500}}/' run.yaml
echo "parallel: {threads: 1, reproducible: {data: 2, tensor: 2}}" >>run.yaml

# train NAME ARGUMENT...
train() {
    name=$1
    shift
    "$PENSTOCK" train run.yaml "name=$name" "$@" >out 2>err || fail "$name $*: status $?: $(cat err)"
}
hash_of() { tail -n 1 "$1/metrics.jsonl" | sed 's/.*weights_xxh64": *"\([0-9a-f]*\)".*/\1/'; }
# expect PATTERN ARGUMENT...: refused with one line
expect() {
    pattern=$1
    shift
    "$PENSTOCK" train "$@" >out 2>err && fail "$*: accepted"
    grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] || fail "$*: expected '$pattern': $(cat err)"
}

# sizes grow when 500/3 tokens have been read, 2.6 steps of 4 samples of 16 tokens, and so on
train one checkpoint.every=1 checkpoint.keep=20
sizes=$(sed -n 's/.*"tokens": *\([0-9]*\),"step_ms.*/\1/p' runs/one/metrics.jsonl | awk '{ printf " %d", ($1 - before) / 16; before = $1 }')
[ "$sizes" = " 4 4 4 8 8 12 16 16 16" ] || fail "the steps have$sizes samples"
grep -q '"run_tokens":1408,' runs/one/metrics.jsonl || fail "the length of the run: $(head -n 1 runs/one/metrics.jsonl)"
same=$(hash_of runs/one)
while read -r arguments; do
    # shellcheck disable=SC2086 # arguments
    train other $arguments
    [ "$(hash_of runs/other)" = "$same" ] || fail "other weights with $arguments"
    rm -r runs/other
done <<END_OF_LAYOUTS
-n 2 parallel.schedule=gpipe
-n 2 parallel.schedule=zb-v parallel.post_validation=true
-n 2 parallel.schedule=solved
-n 2 parallel.data=2 zero=1
-n 4 parallel.data=2 parallel.schedule=interleaved parallel.transport=self
-n 2 parallel.tensor=2 parallel.sequence=true
END_OF_LAYOUTS

# in the middle of the warm-up and behind it, in other layouts
for step in 2 4 8; do
    cp -r runs/one/checkpoints/step-0000000$step from
    "$PENSTOCK" train --resume from --runs resumed -q -n 2 parallel.data=$((step % 4 ? 2 : 1)) 2>err || fail "resume: $(cat err)"
    [ "$(hash_of resumed/*)" = "$same" ] || fail "other weights when resumed after step $step"
    rm -r resumed from
done
cp -r runs/one/checkpoints/step-00000004 from
expect 'train.batch_warmup {from: 4, tokens: 500}, not {from: 8, tokens: 500}' --resume from train.batch_warmup.from=8
expect 'train.batch 16, not 32' --resume from batch=32

# the first steps are those of a run with this batch; its length in tokens counts them
train first train.tokens=192
grep -q '"event":"end","steps":3,' runs/first/metrics.jsonl || fail "192 tokens: $(tail -n 1 runs/first/metrics.jsonl)"
train plain batch=4 train.batch_warmup.from=0 train.batch_warmup.tokens=0 steps=3
[ "$(hash_of runs/first)" = "$(hash_of runs/plain)" ] || fail "other weights than with the batch of the first steps"

# means over the samples of a smaller step: of 2 texts, neither, one or both are right
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b >vocab.txt
{
    echo text,label
    for i in $(seq 40); do printf 'a %s,x\nb %s,y\n' "$i" "$i"; done
} >texts.csv
cat >labels.yaml <<END_OF_LABELS
model: {kind: bert, task: classification, layers: 1, heads: 1, channels: 16, context: 8}
data: {kind: labels, paths: [texts.csv], tokenizer: vocab.txt}
train: {steps: 3, batch: 16, micro_batch: 2, batch_warmup: {from: 2, tokens: 1000}}
parallel: {threads: 1}
END_OF_LABELS
"$PENSTOCK" train labels.yaml -q 2>err || fail "classification: $(cat err)"
[ "$(grep '"step_ms"' runs/labels/metrics.jsonl | grep -c '"accuracy":\(0\.0\|0\.5\|1\.0\)[,}]')" = 3 ] ||
    fail "shares of two texts: $(grep -o '"accuracy":[^,}]*' runs/labels/metrics.jsonl)"
grep '"step_ms"' runs/labels/metrics.jsonl | grep -q '"accuracy":\(0\.5\|1\.0\)[,}]' || fail "no text is right"

# a loss scale that overflows skips the step and its samples
for ranks in 1 2; do
    train half-$ranks -n $ranks train.precision=fp16 train.loss_scale_start=16777216
done
grep -q '"skipped_steps":[1-9]' runs/half-1/metrics.jsonl || fail "no step is skipped: $(tail -n 2 runs/half-1/metrics.jsonl)"
[ "$(hash_of runs/half-1)" = "$(hash_of runs/half-2)" ] || fail "other weights in fp16 on two ranks"

# a plan whose replicas fit the smallest batch, with the time of the smaller ones; what is shown is the whole batch
"$PENSTOCK" plan run.yaml --cluster '8 cpu' parallel.reproducible.data=0 -o plan.yaml >out 2>err || fail "plan: $(cat err)"
grep -q '^batches  *from 4 samples to 16 in 6 steps of 640 tokens: [0-9.]* ms; all 9 steps: ' out || fail "the plan: $(cat out)"
grep -q '^ *1  *1  *8 .* infeasible: 4 samples are too few for 8 replicas with each allowed micro_batch' out ||
    fail "eight replicas of two micro-batches: $(cat out)"
"$PENSTOCK" simulate plan.yaml --svg plan.svg >out 2>err || fail "simulate: $(cat err)"
grep -q '^batch  *all 16 samples; the first steps have fewer, from 4 on' out || fail "simulate: $(cat out)"
grep -q ', 16 samples, simulated' plan.svg || fail "the picture does not say which batch"
"$PENSTOCK" verify run.yaml -n 2 >out 2>err || fail "verify: $(cat out err)"
grep -q 'train.batch_warmup.tokens from 500 to' out || fail "verify has no smaller batches: $(cat out)"

expect 'batch_warmup.from=3.*: train.batch_warmup.from is 3; with train.batch 16 expected 1, 2, 4 or 8' run.yaml train.batch_warmup.from=3
expect 'run.yaml:3:.*: train.batch_warmup needs both from and tokens' run.yaml train.batch_warmup.tokens=0
expect 'batch_warmup.from=2.*: batches of 2 samples are not possible in this layout: 1 micro-batch per step for 4 replicas.*can run: 8$' \
    run.yaml -n 4 parallel.data=4 parallel.reproducible=0 train.batch_warmup.from=2
printf '0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7\n' >order.csv
expect 'batches of 4 samples .*order.csv: the schedule has 1 ranks and 8 micro-batches.*can run: none' run.yaml \
    parallel.schedule=custom parallel.schedule_file=order.csv
exit $bad
