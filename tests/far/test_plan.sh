#!/bin/sh
# test: label=quick timeout=60
# penstock plan on a machine whose device is a module's (far_module.c): its memory and its datasheet count, not the
# processor's, and so does what its transport refuses.
. "$(dirname "$0")/../script.sh"
use_far
cat >run.yaml <<'END2'
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 2, batch: 8}
parallel: {device: far}
END2
plan() { "$PENSTOCK" plan run.yaml -n 2 "$@" >out 2>&1; }

FAR_MODEL='NVIDIA H200' plan && grep -q '^costs .*datasheet: H200' out || fail "a kind that is known: $(cat out)"
plan && grep -q '^costs .*a nominal processor core, not device far' out || fail "one that is not: $(cat out)"
FAR_MEMORY=104857600 plan && grep -q '^memory .* of 100.0* MiB' out || fail "memory: $(cat out)"
FAR_MEMORY=1000 plan
[ $? = 4 ] && grep -q 'no layout fits' out || fail "too little memory: $(cat out)"
plan parallel.transport=nccl || fail "nccl: $(cat out)"
"$PENSTOCK" plan run.yaml -n 3 parallel.transport=nccl >out 2>&1
[ $? = 2 ] && grep -q 'transport nccl: more ranks than GPUs' out || fail "more ranks than GPUs: $(cat out)"
plan parallel.transport=nccl parallel.device=cpu
[ $? = 2 ] && grep -q 'is for GPUs, and device cpu is none' out || fail "no GPU: $(cat out)"

# What cannot be slowed down is not.
plan 'parallel.throttle=[1, 2]'
[ $? = 2 ] && grep -q 'parallel.throttle slows processors down, and device far is none' out || fail "throttle: $(cat out)"
plan 'parallel.throttle=[1]' || fail "throttle that does nothing: $(cat out)"
exit $bad
