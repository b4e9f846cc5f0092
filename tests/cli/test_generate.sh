#!/bin/sh
# test: label=quick timeout=60
# generate: the same text for the same seed from a run, its checkpoint and its Hugging Face form; options; broken pipes.
. "$(dirname "$0")/../script.sh"
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
differ() { ! cmp -s "$1" "$2" || fail "$1 and $2 are the same"; }
generate() { out=$1; shift; "$PENSTOCK" generate "$@" >"$out" 2>err || fail "generate $*: $(cat err)"; }

i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, activation: gelu_erf, dropout: 0.2}
data: {kind: text, paths: [text.txt]}
train: {steps: 40, batch: 8, micro_batch: 4, warmup: 1, lr: 1.0e-2}
checkpoint: {every: 20}
END
"$PENSTOCK" train run.yaml -q -n 1 parallel.threads=1 || exit 1
"$PENSTOCK" convert runs/run hf || exit 1

generate a runs/run -t 50 -s 7
generate b runs/run -t 50 -s 7
generate c runs/run/checkpoints/step-00000040 -t 50 -s 7
generate d runs/run/checkpoints -t 50 -s 7
generate e hf -t 50 -s 7
generate f hf/model.safetensors -t 50 -s 7
for other in b c d e f; do same a $other; done
generate g runs/run -t 50 -s 8
generate h runs/run/checkpoints/step-00000020 -t 50 -s 7
differ a g
differ a h
[ "$(wc -c <a)" = 52 ] || fail "1 byte of prompt, 50 tokens and a line end are $(wc -c <a) bytes"

# the most likely token: no seed, no top-k
generate i runs/run -t 40 --temperature 0 -s 1
generate j runs/run -t 40 --temperature 0 -s 2
generate k runs/run -t 40 --top-k 1 --temperature 3 -s 3
same i j
same i k
# top-k of everything is no top-k
generate l runs/run -t 40 -s 5
generate m runs/run -t 40 -s 5 -k 256
generate n runs/run -t 40 -s 5 -k 1000
generate o runs/run -t 40 -s 5 -k 2
same l m
same l n
differ l o

# the whole context as a prompt, but not more
long=$(head -c 20 text.txt)
generate p runs/run -t 30 -s 2 -p "$long"
[ "$(head -c 20 p)" = "$long" ] && [ "$(wc -c <p)" = 51 ] || fail "a prompt of the whole context: $(cat p)"
rc=0; "$PENSTOCK" generate runs/run -p "$long." >out 2>err || rc=$?
[ $rc = 2 ] && grep -q "prompt has 21 tokens, but the context is 20" err && [ ! -s out ] ||
    fail "a prompt longer than the context: status $rc: $(cat out err)"
# another context: a shorter one forgets, learned positions allow no longer one
generate q runs/run -t 40 --temperature 0 -p "$long" --context 20
generate r runs/run -t 40 --temperature 0 -p "$long"
same q r
generate q runs/run -t 40 --temperature 0 -p bottle --context 6
[ "$(wc -c <q)" = 47 ] || fail "a short context: $(cat q)"
rc=0; "$PENSTOCK" generate runs/run -p bottles --context 6 >out 2>err || rc=$?
[ $rc = 2 ] && grep -q "prompt has 7 tokens, but the context is 6" err || fail "a short context: $(cat err)"
rc=0; "$PENSTOCK" generate runs/run --context 21 >out 2>err || rc=$?
[ $rc = 2 ] && grep -q "a context of 21 tokens is too long: the model has learned positions for 20" err ||
    fail "more positions than were learned: $(cat err)"
# other ways to sample: with limits that leave one token, or all
generate s runs/run -t 40 --top-p 0.000001 -s 4
same i s
generate s runs/run -t 40 --min-p 1 -s 4
same i s
generate s runs/run -t 40 -s 5 --top-p 1 --min-p 0 --repetition-penalty 1
same l s
generate s runs/run -t 40 -s 5 --top-p 0.4
differ l s
generate s runs/run -t 40 --temperature 0 --repetition-penalty 50
differ i s
[ "$(head -c 9 s | fold -w 1 | sort | uniq -d | wc -l)" = 0 ] || fail "tokens occur again: $(cat s)"

# several prompts: each text is that of the prompt alone, except for its random numbers
generate s runs/run -t 12 --temperature 0 -p 'bottle' -p 'f' -p ''
for prompt in bottle f ''; do
    generate one runs/run -t 12 --temperature 0 -p "$prompt"
    printf '[%s]\n' $((number = ${number:-0} + 1))
    cat one
done >t
same s t

# stop strings, also such that never come
generate s runs/run -t 60 -s 7 --json
all=$(sed 's/.*"text":"\([^"]*\)".*/\1/' s)
stop=$(printf '%s' "$all" | cut -c 21-24)
before=${all%%"$stop"*}
generate s runs/run -t 60 -s 7 --stop "$stop" --stop never
printf '\n%b\n' "$before" >t
same s t
generate s runs/run -t 60 -s 7 --json --stop "$stop"
grep -q '"prompt_tokens":1,.*"end":"stop"}' s || fail "stopped: $(cat s)"
generate s runs/run -t 5 -s 7 --json --stop 'never, never'
grep -q '"tokens":5,"end":"tokens"}' s || fail "not stopped: $(cat s)"
grep -q 'no stop string occurred in 5 tokens' err || fail "a stop string that never comes: $(cat err)"

generate w runs/run -t 3 -p ""
[ "$(wc -c <w)" = 5 ] || fail "an empty prompt"
generate x runs/run -t 3 -p "$(printf '\303\244\377')"

# training learned something: the text's letters, mostly
generate y runs/run -t 200 -s 1 -p bottle
[ "$(tr -cd 'a-z ,' <y | wc -c)" -gt 120 ] || fail "the model has learned nothing: $(cat y)"

# chat templates
rc=0; "$PENSTOCK" generate runs/run --chat run >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'runs/run has no chat template, because its data.kind is text' err ||
    fail "no template: $(cat err)"
rc=0; "$PENSTOCK" generate runs/run --chat llama3 >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'llama3: the tokenizer has no special token "<|begin_of_text|>"' err || fail "tokens: $(cat err)"
rc=0; "$PENSTOCK" generate runs/run --chat alpaca >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'no chat template alpaca; expected chatml' err || fail "an unknown template: $(cat err)"
rc=0; "$PENSTOCK" generate runs/run --system x >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'a system message needs a chat template' err || fail "a system message: $(cat err)"

# a pipeline gives the same bits; tensor ranks, as in the run's layout, the same tokens
generate z runs/run -t 50 -s 7 -n 2
same a z
generate z runs/run -t 12 --temperature 0 --json -p 'bottle' -p 'f' -n 2
generate s runs/run -t 12 --temperature 0 --json -p 'bottle' -p 'f'
same s z
"$PENSTOCK" train run.yaml -q -n 2 parallel.tensor=2 parallel.threads=1 name=tensor || exit 1
for how in '-s 7' '--temperature 0'; do
    # shellcheck disable=SC2086 # an option and its value
    generate s runs/tensor -t 80 $how
    # shellcheck disable=SC2086
    generate z runs/tensor -t 80 $how -n 4
    same s z
done
rc=0; "$PENSTOCK" generate runs/tensor -n 3 >out 2>err || rc=$?
[ $rc = 2 ] && [ "$(cat err)" = "penstock: the job has 3 ranks; expected a multiple of 2 tensor ranks (parallel.tensor)" ] ||
    fail "three ranks: status $rc: $(cat out err)"

"$PENSTOCK" generate runs/run -t 3000 -n 2 2>err | head -c 5 >out
grep -q 'cannot write the text: Broken pipe' err && ! grep -q 'died' err || fail "a closed pipe: $(cat err)"

# one text for a job, however its ranks were started
export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 RANK=0
generate z runs/run -t 50 -s 7
same a z
RANK=1; generate z runs/run -t 50 -s 7
[ ! -s z ] || fail "rank 1 has written: $(cat z)"
unset WORLD_SIZE MASTER_ADDR MASTER_PORT RANK

# what is no model of bytes
# refuses PATTERN ARGUMENT...: status 2 and one line
refuses() {
    pattern=$1 rc=0
    shift
    "$PENSTOCK" "$@" >out 2>err || rc=$?
    [ $rc = 2 ] && grep -q "$pattern" err && [ "$(wc -l <err)" = 1 ] && [ ! -s out ] ||
        fail "$*: status $rc: $(cat out err)"
}
mkdir bare
cp hf/model.safetensors bare/
refuses 'bare contains no complete checkpoint; a Hugging Face model needs config.json' generate bare
refuses 'bare/config.json: .*No such file' generate bare/model.safetensors
refuses 'the model.s 64 tokens' generate "$SOURCE_DIR/tests/parity/fixture"
# Tokens that are bytes, though there is room for more: the exported model says so.
more="name=more model.vocabulary=50257 model.layers=1 model.channels=4 steps=2 parallel.threads=1"
"$PENSTOCK" train run.yaml -q -n 1 $more && "$PENSTOCK" convert runs/more more || exit 1
generate a1 runs/more -t 20 -s 3
generate a2 more -t 20 -s 3
same a1 a2
"$PENSTOCK" train run.yaml -q -n 1 $more model.weights=more name=on || fail "weights of its own: status $?"
# A model of others with as many tokens is no model of bytes.
cp -r more others
sed -i '/penstock_tokenizer/d' others/config.json
byte_pairs="the model.s 50257 tokens come from GPT-2.s byte-pair encoding (BPE), but"
refuses "$byte_pairs the files of a tokenizer .* are not beside it" generate others
refuses "$byte_pairs data.tokenizer is byte" train run.yaml -q -n 1 $more model.weights=others name=refused
refuses "$byte_pairs data.tokenizer is byte" train run.yaml -q -n 1 $more name=refused model.vocabulary=256 \
    model.weights=others
"$PENSTOCK" tokenize --tokenizer byte -o ids text.txt >out || fail "ids: $(cat out)"
refuses "$byte_pairs data.tokenizer is byte" train run.yaml -q -n 1 $more name=refused model.weights=others \
    data.kind=tokens data.paths=ids
sed -i 's/"vocab_size": 50257/"vocab_size": 300/' others/config.json
refuses 'the model.s 300 tokens come .*a model with bytes as tokens needs "penstock_tokenizer": "byte"' generate others
sed -i 's/"vocab_size"/"penstock_tokenizer": "words",\n  &/' others/config.json
refuses 'the model.s 300 tokens come from the tokenizer words, but' generate others
rm others/config.json
refuses "$byte_pairs data.tokenizer is byte" train run.yaml -q -n 1 $more name=refused \
    model.weights=others/model.safetensors
[ ! -e runs/refused ] || fail "a refused run has a folder"
# A tokenizer beside the model is used; weights need the same one.
cp -r hf own
sed -i '/penstock_tokenizer/d' own/config.json
"$PENSTOCK" tokenize --train --vocabulary 257 -o own text.txt >out || fail "tokenizer: $(cat out)"
refuses 'model.vocabulary is 256, but the data has 257 different tokens' generate own
# 256 tokens are bytes, unless a tokenizer lies beside them.
cp -r hf plain
sed -i '/penstock_tokenizer/d' plain/config.json
generate a3 plain -t 50 -s 7
same a a3
echo '{}' >plain/vocab.json
refuses 'plain/vocab.json: merges.txt is missing beside it' generate plain/model.safetensors
refuses 'the model.s 256 tokens come from vocab.json, but data.tokenizer is byte' train run.yaml -q -n 1 name=refused \
    model.weights=plain
cp plain/vocab.json hf/ && generate a3 hf -t 50 -s 7 && rm hf/vocab.json
same a a3
rm -rf cut; cp -r hf cut; rm cut/config.json
rc=0; "$PENSTOCK" generate cut/model.safetensors >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'config.json' err || fail "no config.json: status $rc: $(cat err)"

# a reader that leaves, a full disk
{ rc=0; "$PENSTOCK" generate runs/run -t 100000 2>err || rc=$?; echo $rc >rc; } | head -c 10 >out
[ "$(cat rc)" = 141 ] && [ ! -s err ] || fail "a reader that leaves: status $(cat rc): $(cat err)"
if [ -w /dev/full ]; then
    rc=0; "$PENSTOCK" generate runs/run -t 5 >/dev/full 2>err || rc=$?
    [ $rc = 4 ] || fail "full standard output: status $rc"
fi
exit $bad
