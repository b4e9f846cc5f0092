#!/bin/sh
# test: label=quick timeout=240 sanitize=address
# Every optimizer, with states in fp32 and bf16, gives the same weights in every layout and after a resume in another one; what its checkpoints hold; and
# what LAMB and Muon refuse.
. "$(dirname "$0")/../script.sh"
write_run 2
sed -i 's/steps: 2, batch: 8/steps: 5, batch: 8, micro_batch: 2, lr: 1.0e-2, clip: 0.5/' run.yaml

hash_of() { tail -n 1 "$1/metrics.jsonl" | sed 's/.*weights_xxh64": *"\([0-9a-f]*\)".*/\1/'; }

# same NAME RANKS ARGUMENT...: the weights of the run `one`
same() {
    name=$1 ranks=$2
    shift 2
    "$PENSTOCK" train run.yaml "name=$name" -n "$ranks" -q parallel.reproducible.data=4 "$@" 2>err || fail "$*: $(cat err)"
    [ "$(hash_of "runs/$name")" = "$(hash_of runs/one)" ] || fail "$*: other weights"
}

for optimizer in sgd adam lamb muon adamw-bf16 muon-bf16; do
    rm -rf runs
    set -- "train.optimizer=${optimizer%-bf16}"
    [ "${optimizer#*-}" = "$optimizer" ] || set -- "$@" train.optimizer_state=bf16
    [ $optimizer != sgd ] || set -- "$@" train.nesterov=true
    "$PENSTOCK" train run.yaml name=one -q parallel.reproducible.data=4 parallel.threads=1 "$@" 2>err || fail "$*: $(cat err)"
    same threads 1 "$@" parallel.threads=2
    same pipeline 2 "$@" parallel.post_validation=true
    same zero0 2 "$@" parallel.data=2 parallel.zero=0
    same zero1 2 "$@" parallel.data=2 parallel.zero=1
    same both 4 "$@" parallel.data=2 parallel.pipeline=2
    "$PENSTOCK" train run.yaml name=half -q parallel.reproducible.data=4 "$@" train.time_limit=0.001 2>err ||
        fail "$*: $(cat err)"
    "$PENSTOCK" train --resume runs/half -n 2 -q train.time_limit=0 parallel.data=2 2>err || fail "resume $*: $(cat err)"
    [ "$(hash_of runs/half)" = "$(hash_of runs/one)" ] || fail "$*: other weights after a resume"
done

# the matrices of the layers have one state, all other parameters two
index=runs/one/checkpoints/step-00000005/index.json
grep -q '"h.0.mlp.c_fc.weight.m"' $index || fail "no momentum of a matrix: $(grep -o '"h.0[^"]*"' $index | sort -u)"
grep -q '"h.0.mlp.c_fc.weight.v"' $index && fail "a second state of a matrix"
for param in wte.weight h.0.ln_1.weight h.0.mlp.c_fc.bias; do
    grep -q "\"$param.v\"" $index || fail "$param does not follow adamw"
done

# states in bf16: half the bytes; another type is converted with a message
tr -d ' \n' <$index >flat
grep -q '"h.0.mlp.c_fc.weight.m":{[^}]*"BF16"' flat || fail "the momentum is not bf16: $(grep -o '"h.0.mlp.c_fc.weight.m".\{80\}' flat)"
grep -q '"h.0.mlp.c_fc.weight":{[^}]*"F32"' flat || fail "the weight is not fp32"
"$PENSTOCK" inspect runs/one >out 2>err || fail "inspect: $(cat err)"
grep -q '^optimizer  *muon, state in bf16$' out || fail "inspect: $(head -n 8 out)"
"$PENSTOCK" train --resume runs/one train.steps=6 train.optimizer_state=fp32 >out 2>&1 || fail "resume in fp32: $(cat out)"
grep -q "has optimizer state in bf16, which is converted to fp32" out || fail "no message: $(cat out)"
"$PENSTOCK" train --resume runs/one train.steps=7 train.optimizer_state=bf16 >out 2>&1 || fail "resume in bf16: $(cat out)"
grep -q "has optimizer state in fp32, which is converted to bf16 (rounded to nearest)" out || fail "no message: $(cat out)"

# refuses ARGUMENTS PATTERN
refuses() {
    # shellcheck disable=SC2086 # words
    "$PENSTOCK" train run.yaml $1 2>err && fail "$1 is accepted"
    grep -q "$2" err || fail "$1: expected '$2': $(cat err)"
}
refuses "train.optimizer=muon parallel.tensor=2 parallel.post_validation=true" \
    "train.optimizer muon on tensor ranks needs the norm of all gradients before its step; use parallel.post_validation=false"
"$PENSTOCK" plan run.yaml train.optimizer=muon --cluster '4 cpu' >out 2>err || fail "plan: $(cat err)"
grep -q '^layout .* 1 tensor rank' out || fail "a plan with tensor ranks: $(cat out)"
"$PENSTOCK" plan run.yaml train.optimizer=lamb batch=8 --cluster '2 h100' >out 2>err ||
    fail "plan on GPUs: $(cat err)"
grep -q '^layout .* 1 tensor rank' out || fail "a plan with tensor ranks on GPUs: $(cat out)"
"$PENSTOCK" plan run.yaml train.optimizer=lamb parallel.tensor=2 --cluster '2 h100' 2>err && fail "tensor ranks on GPUs are accepted"
grep -q "train.optimizer lamb on tensor ranks runs on CPUs only" err || fail "plan on GPUs: $(cat err)"
exit $bad
