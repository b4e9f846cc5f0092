#!/bin/sh
# test: label=quick timeout=60 isa=any
# penstock plan on a machine whose device is a module's (far_module.c): its memory and its datasheet count, not the
# processor's, and so does what its transport refuses.
. "$(dirname "$0")/../script.sh"
write_run 2
use_far
echo 'parallel: {device: far}' >>run.yaml
plan() { "$PENSTOCK" plan run.yaml -n 2 "$@" >out 2>&1; }

FAR_MODEL='NVIDIA H200' plan && grep -q '^costs .*datasheet of H200' out || fail "a kind that is known: $(cat out)"
plan && grep -q '^costs .*a nominal CPU core, not device far' out || fail "one that is not: $(cat out)"
FAR_MEMORY=104857600 plan && grep -q '^memory .* of 95.0* MiB' out && grep -q 'kept free of 100.00 MiB: a margin of 5%' out || fail "memory: $(cat out)"
FAR_MEMORY=1000 plan
[ $? = 4 ] && grep -q 'no layout fits' out || fail "too little memory: $(cat out)"
plan parallel.transport=nccl || fail "nccl: $(cat out)"
"$PENSTOCK" plan run.yaml -n 3 parallel.transport=nccl >out 2>&1
[ $? = 2 ] && grep -q 'transport nccl: more ranks than GPUs' out || fail "more ranks than GPUs: $(cat out)"
plan parallel.transport=nccl parallel.device=cpu
[ $? = 2 ] && grep -q 'needs a GPU, but device cpu is not a GPU' out || fail "no GPU: $(cat out)"

# A cluster of GPUs is planned for as a run on one computes, whether or not their module can be loaded here: logits with
# gaps, layer norms whose B leaves sums, and with tensor ranks their exchanges. The run predicts the same bytes and step.
predicted() { grep -E '^ *(peak_bytes|step_ns):' "$1"; }
export FAR_GAPS=1 FAR_SUMS=1
for degrees in 'pipeline=2 parallel.tensor=1' 'pipeline=1 parallel.tensor=2'; do
    # shellcheck disable=SC2086
    gpus() { plan model.vocabulary=259 parallel.cluster='1x2 h100' parallel.$degrees -o "$@" || fail "$*: $(cat out)"; }
    gpus plan.yaml parallel.device=far
    PENSTOCK_MODULE=/nowhere gpus nowhere.yaml parallel.device=far
    gpus processors.yaml parallel.device=cpu
    "$PENSTOCK" train run.yaml model.vocabulary=259 parallel.cluster='1x2 h100' parallel.plan=plan.yaml \
        name=planned-${degrees%% *} >out 2>&1 || fail "a run of the plan: $(cat out)"
    predicted plan.yaml >of-plan
    [ "$(wc -l <of-plan)" = 2 ] || fail "no prediction in $(cat plan.yaml)"
    predicted nowhere.yaml | cmp -s - of-plan || fail "$degrees: without a module $(predicted nowhere.yaml), not $(cat of-plan)"
    predicted runs/planned-${degrees%% *}/plan.yaml | cmp -s - of-plan ||
        fail "$degrees: the run $(predicted runs/planned-${degrees%% *}/plan.yaml), the plan $(cat of-plan)"
    ! predicted processors.yaml | cmp -s - of-plan || fail "$degrees: as of processors"
done
unset FAR_GAPS FAR_SUMS

# What kernels take beside what is laid out counts where memory is limited.
for apart in 0 1048576; do
    FAR_APART=$apart "$PENSTOCK" train run.yaml name=apart-$apart parallel.memory=1536KiB parallel.pipeline=1 >out 2>&1
    rc=$?
    [ $apart = 0 ] && [ $rc = 0 ] && continue
    [ $rc = 4 ] && grep -q '1.00 MiB of workspace for its kernels; the limit is 1.50 MiB' out ||
        fail "$apart bytes apart: status $rc: $(cat out)"
done

# What cannot be slowed down is not.
plan 'parallel.throttle=[1, 2]'
[ $? = 2 ] && grep -q 'parallel.throttle needs a CPU, but device far is not a CPU' out || fail "throttle: $(cat out)"
plan 'parallel.throttle=[1]' || fail "throttle that does nothing: $(cat out)"
exit $bad
