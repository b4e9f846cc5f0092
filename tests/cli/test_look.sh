#!/bin/sh
# test: label=quick timeout=60
# Looking at what is to be computed in bf16 asks nothing of this CPU, and shows the same everywhere; computing it does.
. "$(dirname "$0")/../script.sh"
write_run 2
sed -i 's/batch: 8/batch: 8, micro_batch: 2, precision: bf16/' run.yaml

# looks NAME ARGUMENT...: that command shows something with plain C alone, and the same on this CPU as it is, in NAME
looks() {
    name=$1
    shift
    PENSTOCK_ISA=generic "$PENSTOCK" "$@" >"$name" 2>err </dev/null && [ -s "$name" ] || fail "$*: $(cat err)"
    if "$PENSTOCK" "$@" >here 2>err </dev/null; then cmp here "$name"; else false; fi || fail "$*: something else here"
}
PENSTOCK_ISA=generic "$PENSTOCK" plan run.yaml -n 2 -o plan.yaml >out 2>err
[ -s plan.yaml ] && grep -q '^warning: .* needs AVX512-BF16, which .*: penstock train will reject this plan on this machine$' err ||
    fail "plan: no plan, or no warning: $(cat err)"
PENSTOCK_ISA=generic "$PENSTOCK" plan run.yaml --cluster '1x2 h100' -o cluster.yaml >out 2>err && [ ! -s err ] ||
    fail "plan --cluster: $(cat err)"
for file in plan.yaml cluster.yaml; do
    looks simulated simulate $file
    looks changed simulate $file --what-if device.1.speed=0.25
    ! cmp -s simulated changed || fail "simulate $file --what-if changes nothing"
    looks executed simulate $file --execute
    looks inspected inspect $file
done
for what in graph plan schedule memory; do looks $what inspect run.yaml -n 2 -s $what; done
sed 's/bf16/bf16}\nparallel: {plan: auto/' run.yaml >auto.yaml
looks auto inspect auto.yaml -n 2
sed -i 's/bf16/fp32/' run.yaml
"$PENSTOCK" inspect run.yaml -n 2 -s memory >fp32 || fail "inspect of fp32"
! cmp -s memory fp32 || fail "what is shown of bf16 is fp32's"
sed -i 's/fp32/bf16/' run.yaml

# refuses ARGUMENT...: what computes names what the CPU lacks, or that the variable hides it
refuses() {
    rc=0
    PENSTOCK_ISA=generic "$PENSTOCK" "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q '^penstock: .*bf16 needs AVX512-BF16, which \(PENSTOCK_ISA hides\|this CPU lacks\)' err ||
        fail "$*: status $rc: $(cat err)"
}
refuses train run.yaml -n 2
refuses train run.yaml -n 2 plan=plan.yaml
refuses train auto.yaml -n 2
refuses profile run.yaml -o profile.yaml
refuses bench kernels --precision bf16

# a level that is none, or more than there is
PENSTOCK_ISA=sse9 "$PENSTOCK" train run.yaml -n 1 precision=fp32 >out 2>err
[ $? = 2 ] && grep -q "^penstock: PENSTOCK_ISA is 'sse9'; it can be generic, avx2, avx512 (without bf16) or avx512_bf16$" err ||
    fail "sse9: $(cat err)"
PENSTOCK_ISA=sse9 "$PENSTOCK" doctor >out 2>err
[ $? = 4 ] && grep -q '^penstock: missing, but needed for training: .*PENSTOCK_ISA' err || fail "doctor, sse9: $(cat err)"
exit $bad
