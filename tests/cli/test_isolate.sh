#!/bin/sh
# test: label=full isa=any timeout=120
# Documents kept apart: any layout and number of threads gives the same weights, text and its tokens are the same, and
# what cannot keep documents apart is refused.
. "$(dirname "$0")/../script.sh"
refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$PENSTOCK" train run.yaml -q -n 1 name=no "$@" >out 2>err
    [ $? = 2 ] || fail "$*: not refused"
    grep -q -e "$pattern" err || fail "$*: $(cat err)"
}
weights() { # RUN: the hashes of its tensors
    "$PENSTOCK" inspect "runs/$1" | sed -n 's/^  //p' | cut -d' ' -f1-40 | sed 's/rank-.*//'
}

for i in $(seq 60); do
    echo "{\"text\": \"pump $i: $(seq -s ' ' $((i % 7)))\"}"
done >docs.jsonl
seq 2000 >text.txt
"$PENSTOCK" tokenize --train --vocabulary 280 -o tok text.txt >out || fail "learning: $(cat out)"
cat >run.yaml <<END
model: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 32}
data: {kind: text, paths: [docs.jsonl], tokenizer: tok, cache: cache, isolate: true}
train: {steps: 4, batch: 8, micro_batch: 2}
parallel: {threads: 1}
checkpoint: {every: 2}
END
"$PENSTOCK" train run.yaml -n 1 >out 2>&1 || fail "train: $(cat out)"
"$PENSTOCK" train run.yaml -n 2 name=other threads=2 recompute=full >out 2>&1 || fail "stages: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=mixed data.isolate=false >out 2>&1 || fail "mixed: $(cat out)"
"$PENSTOCK" tokenize --tokenizer tok --field text --end '<|endoftext|>' -o set docs.jsonl >out || fail "set: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=set data.kind=tokens data.paths=set data.cache= >out 2>&1 || fail "set: $(cat out)"
"$PENSTOCK" tokenize --tokenizer tok --field text -o endless docs.jsonl >out || fail "endless: $(cat out)"
refuses 'endless has no token 279 (<|endoftext|>), which ends a document, among \([0-9]*\) of its \1 tokens; the borders of 60 documents in the .idx file are not used; write the tokens with penstock tokenize --end' \
    data.kind=tokens data.paths=endless data.cache=
"$PENSTOCK" train run.yaml -n 1 name=held data.kind=tokens data.paths=set data.cache= eval.sets.held=endless >out 2>&1 ||
    fail "a set without ends: $(cat out)"
weights run >one
for run in other set; do
    weights $run >two
    grep -q 'wte.weight' one && cmp -s one two || fail "weights of run and $run differ"
done
weights mixed >two
! cmp -s one two || fail "isolation changes nothing"
"$PENSTOCK" train --resume runs/run -n 2 steps=6 >out 2>&1 || fail "resume: $(cat out)"
"$PENSTOCK" generate runs/run -p "pump" -t 3 >out 2>err || fail "generate: $(cat err)"
"$PENSTOCK" verify run.yaml -n 2 >out 2>&1 || fail "verify: $(cat out)"
"$PENSTOCK" verify run.yaml -n 2 parallel.tensor=2 parallel.sequence=true >out 2>&1 || fail "verify tensor: $(cat out)"
"$PENSTOCK" verify run.yaml -n 2 parallel.data=2 parallel.zero=1 >out 2>&1 || fail "verify data: $(cat out)"
"$PENSTOCK" plan run.yaml -n 2 -o plan.yaml >out 2>err || fail "plan: $(cat err)"
"$PENSTOCK" simulate plan.yaml >out 2>err || fail "simulate: $(cat err)"
if [ -e "$(dirname "$PENSTOCK")/libpenstock-cuda.so" ]; then
    "$PENSTOCK" plan run.yaml --cluster "4 h100" >out 2>err && fail "planned for GPUs"
    grep -q 'device cuda cannot keep documents apart' err || fail "plan for GPUs: $(cat err)"
else
    echo "skipped: plan for GPUs: built without the CUDA module"
fi

refuses 'data.isolate needs data.tokenizer' data.tokenizer=byte data.paths=text.txt data.cache=
sed 's/<|endoftext|>/<|other|>/' tok/tokenizer.json >other.json
refuses 'the tokenizer other.json has no token that ends a document' data.tokenizer=other.json
refuses 'model.kind bert cannot keep documents apart; only gpt and llama can' model.kind=bert
refuses 'data.isolate is not used by data.kind lines' data.kind=lines
use_far
refuses 'cannot keep documents apart (data.isolate)' parallel.device=far
exit $bad
