#!/bin/sh
# test: label=quick timeout=90 sanitize=address
# Llama: trained in layouts with the same bits, written as a Hugging Face folder, started from it with its sizes, resumed
# and continued without the folder; what contradicts itself is refused.
. "$(dirname "$0")/../script.sh"
refuse() { # WORDS COMMAND...
    words=$1; shift
    ! "$@" >out 2>&1 || fail "$* is not refused"
    grep -q -- "$words" out || fail "$* lacks '$words': $(cat out)"
}
weights() { sed -n 's/.*"weights_xxh64": *"\{0,1\}\([0-9a-f]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -1; }

i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
name: run
model: {kind: llama, layers: 3, heads: 4, kv_heads: 2, channels: 32, intermediate: 44, context: 24, bias: "true",
        tied: "true", rope_scaling: llama3, rope_factor: 2, rope_context: 12}
data: {kind: text, paths: [text.txt]}
train: {steps: 6, batch: 4, micro_batch: 2, warmup: 1, lr: 1.0e-2}
checkpoint: {every: 3}
parallel: {threads: 1}
END
train() { # NAME ARGUMENTS...
    name=$1; shift
    "$PENSTOCK" train "$@" name="$name" -q || exit 1
}
train run run.yaml -n 1
train pipeline run.yaml -n 3
train window run.yaml -n 2 model.window=5 model.bias=false
train one run.yaml -n 1 model.window=5 model.bias=false
[ "$(weights run)" = "$(weights pipeline)" ] || fail "three stages give other weights than one"
[ "$(weights window)" = "$(weights one)" ] || fail "two stages with a window give other weights than one"
[ "$(weights run)" != "$(weights one)" ] || fail "a window changes nothing"

refuse 'was trained with model.window 0, not 7' "$PENSTOCK" train --resume runs/run -n 1 steps=8 model.window=7
refuse 'was trained with other rotary positions' "$PENSTOCK" train --resume runs/run -n 1 steps=8 model.rope_theta=99

"$PENSTOCK" convert runs/run hf || exit 1
grep -q Qwen2ForCausalLM hf/config.json || fail "biases are not Qwen 2's: $(cat hf/config.json)"
[ -e hf/generation_config.json ] || fail "generation_config.json is missing"
"$PENSTOCK" convert runs/window hf-window || exit 1
grep -q MistralForCausalLM hf-window/config.json || fail "a window is not Mistral's: $(cat hf-window/config.json)"
"$PENSTOCK" generate runs/run -t 30 -s 7 >a 2>err || fail "generate runs/run: $(cat err)"
"$PENSTOCK" generate hf -t 30 -s 7 >b 2>err || fail "generate hf: $(cat err)"
cmp -s a b || fail "the folder continues a text in another way than the run"
# as much memory and time as the text needs, whatever config.json allows
sed 's/"max_position_embeddings": *24/"max_position_embeddings": 131072/' hf/config.json >config
cp -r hf far && cp config far/config.json
grep -q 131072 far/config.json || fail "config.json: $(cat far/config.json)"
"$PENSTOCK" generate far -t 23 -s 7 >b 2>err || fail "generate far: $(cat err)"
head -c 24 a >c
head -c 24 b | cmp -s - c || fail "a longer context changes the text: $(cat a b)"
"$PENSTOCK" generate hf -t 40 --context 60 >b 2>err || fail "generate --context: $(cat err)"
grep -q 'a context of 60 tokens is longer than the 24 for which the rotary positions of hf were trained' err ||
    fail "no warning of the longer context: $(cat err)"
"$PENSTOCK" generate hf -t 40 --context 60 -n 3 >c 2>err || fail "generate -n 3: $(cat err)"
cmp -s b c || fail "three ranks: $(cat b c)"
[ "$(grep -c 'is longer than the 24' err)" = 1 ] || fail "not one warning of three ranks: $(cat err)"
# tokens that end a text, also as a list; every token of this text is a byte
"$PENSTOCK" generate hf -t 30 -s 7 --json >b || exit 1
grep -q '"tokens":30,"end":"tokens"' b || fail "generate --json: $(cat b)"
sixth=$(od -An -tu1 -j6 -N1 a) # byte 0 is the prompt
echo "{\"eos_token_id\": [7, $sixth]}" >hf/generation_config.json
"$PENSTOCK" generate hf -t 30 -s 7 --json >c || exit 1
grep -q '"tokens":[1-6],"end":"end"' c || fail "no end at token $sixth: $(cat b c)"
"$PENSTOCK" generate hf -t 30 -s 7 --json --ignore-eos >c || exit 1
cmp -s b c || fail "--ignore-eos: $(cat b c)"
refuse 'generation_config.json: eos_token_id must be an integer' env sh -c \
    "echo '{\"eos_token_id\": \"x\"}' >hf/generation_config.json; '$PENSTOCK' generate hf"
echo '{}' >hf/generation_config.json
"$PENSTOCK" inspect hf >out || exit 1
grep -q 'Hugging Face Llama: 3 layers, 4 heads' out || fail "inspect: $(cat out)"

# sizes come from config.json; the checkpoint needs neither
cat >tuned.yaml <<END
model: {kind: llama, weights: hf}
data: {kind: text, paths: [text.txt]}
train: {steps: 2, batch: 4, micro_batch: 2, warmup: 1, lr: 1.0e-3}
checkpoint: {every: 1}
parallel: {threads: 1}
END
train tuned tuned.yaml -n 2 parallel.tensor=2
# more tensor ranks than heads of keys and values
train few run.yaml -n 3 steps=1 model.kv_heads=2 parallel.tensor=3
for how in '-s 3' '--temperature 0'; do
    # shellcheck disable=SC2086 # an option and its value
    "$PENSTOCK" generate runs/few -t 50 $how >one 2>err || fail "one rank: $(cat err)"
    # shellcheck disable=SC2086
    "$PENSTOCK" generate runs/few -t 50 $how -n 3 >three 2>err || fail "three tensor ranks: $(cat err)"
    cmp -s one three || fail "$how: three tensor ranks generate other tokens"
done
refuse 'model.kv_heads is 3, which does not divide model.heads 4' "$PENSTOCK" train run.yaml name=x model.kv_heads=3
refuse 'model.rope_low is 5 and model.rope_high 4' "$PENSTOCK" train run.yaml name=x model.rope_low=5
refuse 'model.rope_theta is 0.5; expected more than 1' "$PENSTOCK" train run.yaml name=x model.rope_theta=0.5
"$PENSTOCK" train run.yaml name=idle -n 1 steps=1 model.rope_scaling=none model.rope_attention=2 >out 2>&1 || exit 1
grep -q 'model.rope_factor has no effect: model.rope_scaling is none' out &&
    grep -q 'model.rope_attention has no effect' out || fail "no warning of keys without effect: $(cat out)"
refuse 'has a model of kind llama, but model.kind is gpt' "$PENSTOCK" train tuned.yaml name=x model.kind=gpt
refuse 'tensor layers.2.mlp.up_proj.weight is not part\|is not part of the model' "$PENSTOCK" train tuned.yaml name=x model.layers=2
"$PENSTOCK" train tuned.yaml -n 1 name=long model.context=30 >out 2>&1 || exit 1
grep -q 'trained for 24' out || fail "no warning of the longer context: $(cat out)"
stretch='model.rope_scaling=yarn model.rope_factor=4 model.rope_context=12'
# shellcheck disable=SC2086 # keys
"$PENSTOCK" train tuned.yaml -n 1 name=yarn model.context=48 $stretch >out 2>&1 || fail "stretched: $(cat out)"
grep -q warning out && fail "a warning of a context to which the positions are stretched: $(cat out)"
# shellcheck disable=SC2086 # keys
"$PENSTOCK" train tuned.yaml -n 1 name=farther model.context=50 $stretch >out 2>&1 || fail "stretched: $(cat out)"
grep -q 'model.context is 50, but the rotary positions of hf are stretched to 48' out || fail "no warning: $(cat out)"
cp -r hf odd && sed -i 's/"rope_type": *"llama3"/"rope_type":"llama3","beta_fast":3/' odd/config.json
"$PENSTOCK" generate odd -t 1 >out 2>&1 || fail "odd: $(cat out)"
[ "$(grep -c 'odd/config.json: beta_fast has no effect with rope_type llama3' out)" = 1 ] || fail "one warning: $(cat out)"
"$PENSTOCK" eval hf --data tuned.yaml --json >out 2>&1 || fail "eval hf: $(cat out)"
grep -q '"perplexity"' out || fail "eval hf: $(cat out)"
"$PENSTOCK" eval far --data tuned.yaml --json --context 24 >b 2>&1 || fail "eval far: $(cat b)"
cmp -s b out || fail "another context in config.json: $(cat b out)"
"$PENSTOCK" eval far --data text.txt >b 2>&1 || fail "eval far: $(cat b)"
grep -q "samples have 2048 tokens, but the model's context is 131072" b || fail "eval far: $(cat b)"
"$PENSTOCK" eval runs/tuned --data tuned.yaml >out 2>&1 || fail "eval runs/tuned: $(cat out)"
rm -r hf
"$PENSTOCK" train --resume runs/tuned -n 1 -q steps=3 parallel.tensor=1 || exit 1
"$PENSTOCK" convert runs/tuned again || exit 1
grep -q '"num_key_value_heads": 2' again/config.json || fail "sizes were lost: $(cat again/config.json)"
exit $bad
