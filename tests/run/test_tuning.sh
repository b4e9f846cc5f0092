#!/bin/sh
# test: label=full timeout=120
# Frozen parameters (train.freeze) and adapters (adapt): the same bits in every layout, checkpoints with the trained
# parameters alone, resumed in another layout; merged weights in convert and eval; other or missing base weights.
. "$(dirname "$0")/../script.sh"
write_run 2
cat >run.yaml <<END_OF_RUN
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt], validation: 0}
train: {steps: 4, batch: 8, micro_batch: 2, lr: 1.0e-2, warmup: 0}
checkpoint: {every: 0}
parallel: {threads: 1}
END_OF_RUN

# train ARGUMENT...: into runs/run
train() {
    rm -rf runs/run
    "$PENSTOCK" train run.yaml --quiet "$@" >out 2>&1 </dev/null || fail "train $*: $(cat out)"
}
# bits ARGUMENT...: prints the hash of the weights
bits() {
    train "$@"
    sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' runs/run/metrics.jsonl
}
# same ARGUMENT... -- LAYOUT: the layout gives the bits of one rank
same() {
    [ "$(bits $common $2)" = "$one" ] || fail "$1, $2: other bits than one rank"
}
rounds() {
    common="$2 parallel.reproducible.data=2"
    one=$(bits $common)
    [ -n "$one" ] || fail "$1: no hash of the weights"
    same "$1" '-n 2'
    same "$1" '-n 2 parallel.schedule=zb-h1'
    same "$1" '-n 2 parallel.recompute=full'
    same "$1" '-n 2 parallel.data=2 parallel.zero=1'
    same "$1" '-n 4 parallel.data=2 parallel.post_validation=true'
    common="$2 parallel.reproducible.tensor=2"
    one=$(bits $common)
    same "$1" '-n 2 parallel.tensor=2'
    same "$1" '-n 2 parallel.tensor=2 parallel.sequence=true'
}
rounds 'frozen layers' 'train.freeze=["w?e.*","h.0.*","h.1.attn.c_attn.weight","h.1.mlp.c_proj.bias"]'
rounds 'adapters' 'adapt.on=[attention,mlp] adapt.rank=4'

# the first stage has no backward pass
passes=$("$PENSTOCK" inspect run.yaml -n 2 --show instructions 'train.freeze=["w?e.*","h.0.*"]' 2>&1 |
    sed -n '/rank 0/,/rank 1/p' | grep -c ' BW\{0,1\} \| W ')
[ "$passes" = 0 ] || fail "rank 0 has $passes backward passes, although it trains nothing"

# checkpoints: rank (inputs + outputs) numbers for each adapter, and m and v; from a Hugging Face folder
train steps=1
"$PENSTOCK" convert runs/run base >out 2>&1 || fail "convert: $(cat out)"
tuned='model.weights=base adapt.on=[attention] adapt.rank=4 adapt.alpha=8'
train $tuned checkpoint.every=2
trained=$((2 * 4 * ((32 + 96) + (32 + 32))))
"$PENSTOCK" inspect runs/run >out 2>&1 || fail "inspect: $(cat out)"
grep -q "^24 tensors, $((3 * trained)) elements, $((12 * trained)) bytes" out || fail "checkpoint: $(tail -n 1 out)"
grep -q "^frozen weights   .*/base " out || fail "inspect does not name the base: $(cat out)"
hash=$(sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' runs/run/metrics.jsonl)
rm -rf runs/run/checkpoints/step-00000004 runs/run/checkpoints/best
"$PENSTOCK" train --resume runs/run -n 2 --quiet >out 2>&1 || fail "resume: $(cat out)"
[ "$(sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' runs/run/metrics.jsonl)" = "$hash" ] ||
    fail "resumed: other bits"

# merged weights are those that were trained
"$PENSTOCK" convert runs/run merged >out 2>&1 || fail "convert: $(cat out)"
loss() {
    "$PENSTOCK" eval "$@" --data text.txt --json 2>err | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' | head -n 1
}
of_run=$(loss runs/run) of_merged=$(loss merged) of_base=$(loss base)
[ -n "$of_run" ] && [ "$of_run" = "$of_merged" ] || fail "eval: $of_run of the run, $of_merged of merged: $(cat err)"
[ "$of_run" != "$of_base" ] || fail "eval: the adapter changes nothing"
"$PENSTOCK" generate runs/run --prompt 'a pipe' --tokens 4 >text.of.run 2>&1 || fail "generate: $(cat text.of.run)"

# refused FILE PATTERN COMMAND...: the command ends with status 2 and says so
refused() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" "$@" >out 2>&1 </dev/null || rc=$?
    [ $rc = 2 ] && grep -q "$pattern" out || fail "$*: status $rc, expected 2 and '$pattern': $(cat out)"
}
refused 'was trained with adapt.alpha 8, not 4' train --resume runs/run steps=8 adapt.alpha=4
refused 'has trained .*lora_A\|it has no tensor h.0' train --resume runs/run steps=8 adapt.on=[mlp]
mv base elsewhere
refused 'has only the trained parameters; the others are in model.weights.*--base FOLDER' eval runs/run --data text.txt
[ "$(loss runs/run --base elsewhere)" = "$of_run" ] || fail "eval with --base: $(cat err)"
"$PENSTOCK" generate runs/run --prompt 'a pipe' --tokens 4 --base elsewhere >again 2>&1 && cmp -s text.of.run again ||
    fail "generate with --base: $(cat again)"
"$PENSTOCK" convert runs/run merged2 --base elsewhere >out 2>&1 && cmp -s merged/model.safetensors merged2/model.safetensors ||
    fail "convert with --base: $(cat out)"
refused 'was trained on other frozen weights' generate runs/run --base merged
refused 'merged has all weights of its model; --base is for' eval merged --data text.txt --base elsewhere
refused 'elsewhere has the frozen weights of this run' convert runs/run elsewhere --force --base elsewhere
mv merged base
refused 'was trained on other frozen weights' train --resume runs/run steps=8
refused 'was trained on other frozen weights' convert runs/run again
refused 'adapt.rank needs adapt.on' train run.yaml adapt.rank=4
refused 'base has the frozen weights of this run' convert runs/run base --force
refused "names no linear layer; the model has h.\*.attn.c_attn.weight" train run.yaml adapt.on=[conv]
refused 'expected 1 to 32' train run.yaml adapt.on=[mlp] adapt.rank=33
refused 'no parameter of the model has a name that matches' train run.yaml 'train.freeze=["h.9.*"]'
refused "'h.0.\*' would change nothing: with adapters" train run.yaml adapt.on=[mlp] 'train.freeze=["h.0.*"]'
"$PENSTOCK" train run.yaml -n 1 steps=1 name=all adapt.on=[attention] 'train.freeze=["!*"]' >out 2>&1 || fail "all: $(cat out)"
grep -q ' 0.03 M parameters and 0.00 M of adapters,' out || fail "parameters of a run that trains all: $(cat out)"
exit $bad
