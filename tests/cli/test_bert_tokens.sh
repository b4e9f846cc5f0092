#!/bin/sh
# test: label=full timeout=120
# BERT on a tokenizer's tokens: lines, text and files of tokens; any layout gives the same weights; a tokenizer without a
# token that is needed is refused.
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

words="the valve of pump opens and water flows through a penstock into reservoir"
# shellcheck disable=SC2086  # one word per line
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' $words '##s' '.' >vocab.txt
for i in $(seq 60); do
    echo "The valves of pump $i opens. Water flows through a penstock."
    [ $((i % 3)) = 0 ] && echo "Water flows into the reservoir."
done >text.txt
cat >run.yaml <<END
model: {kind: bert, layers: 2, heads: 2, channels: 16, context: 16}
data: {kind: lines, paths: [text.txt], tokenizer: vocab.txt, cache: cache}
train: {steps: 4, batch: 8, micro_batch: 2}
checkpoint: {every: 2}
END
"$PENSTOCK" train run.yaml -n 1 >out 2>&1 || fail "lines: $(cat out)"
"$PENSTOCK" train run.yaml -n 2 name=stages >out 2>&1 || fail "stages: $(cat out)"
! grep -q encoding out || fail "encoded again"
weights run >one
weights stages >two
grep -q 'wte.weight' one && cmp -s one two || fail "weights of one rank and of two stages differ"
"$PENSTOCK" inspect runs/run | grep -q '^tokenizer  *[0-9a-f]\{16\}$' || fail "no hash of the tokenizer"

# transformers is told that the vocabulary is of lower-case text
"$PENSTOCK" convert runs/run hf >out 2>&1 && grep -q '"do_lower_case": true' hf/tokenizer_config.json || fail "convert: $(cat out)"

# pairs of segments need two documents, and a type for each segment
refuses 'text.txt: the text to train on is one document.*next_sentence: false' data.kind=text model.next_sentence=true
sed 's/reservoir[.]$/&\n/' text.txt >documents.txt
refuses 'model.token_types is 1' data.paths=documents.txt model.next_sentence=true model.token_types=1
"$PENSTOCK" train run.yaml -n 1 name=documents data.paths=documents.txt model.next_sentence=true >out 2>&1 || fail "documents: $(cat out)"

# the same windows from text and from an indexed data set of it
"$PENSTOCK" tokenize --tokenizer vocab.txt --end '[SEP]' -o set text.txt >out || fail "tokenize: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=text data.kind=text >out 2>&1 || fail "text: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=set data.kind=tokens data.paths=set data.cache= >out 2>&1 || fail "tokens: $(cat out)"
weights text >one
weights set >two
cmp -s one two || fail "text and its tokens differ"
"$PENSTOCK" train --resume runs/set -n 2 steps=6 >out 2>&1 || fail "resume: $(cat out)"
"$PENSTOCK" verify run.yaml -n 2 >out 2>&1 || fail "verify: $(cat out)"

# pairs of segments: of sentences, whose documents end at blank lines, and of whole texts
for i in $(seq 40); do
    [ $((i % 5)) = 0 ] && echo
    echo "The valves of pump $i opens. Water flows through a penstock."
    echo "Water flows into the reservoir."
done >sentences.txt
cp sentences.txt other.txt
pairs="model.next_sentence=true data.mask=words model.context=24"
# shellcheck disable=SC2086  # three arguments
"$PENSTOCK" train run.yaml -n 1 name=pairs $pairs data.paths=sentences.txt >out 2>&1 || fail "pairs: $(cat out)"
# shellcheck disable=SC2086
"$PENSTOCK" train run.yaml -n 3 name=pairs-3 $pairs data.paths=sentences.txt >out 2>&1 || fail "pairs, stages: $(cat out)"
weights pairs >one
weights pairs-3 >two
grep -q 'nsp.weight' one && cmp -s one two || fail "weights of pairs differ between one rank and three stages"
# both losses, of steps, of the validation, whatever the layout, and of penstock eval
parts='"loss":[^,]*|"masked_loss":[^,]*|"next_sentence_loss":[^,]*|"next_sentence_accuracy":[^,}]*'
for run in pairs pairs-3; do
    grep -E '^{"step"|"event":"validation"' runs/$run/metrics.jsonl | grep -oE "$parts" >$run
done
[ "$(grep -c accuracy pairs)" = 5 ] && cmp -s pairs pairs-3 || fail "losses of pairs: $(cat pairs pairs-3)"
"$PENSTOCK" eval runs/pairs --json >out 2>err || fail "eval of pairs: $(cat err)"
{
    grep '"event":"validation"' runs/pairs/metrics.jsonl | tail -n 1
    cat out
} | awk -F'[,:}]' '
    { for (i = 1; i < NF; i++) if ($i ~ /loss"|accuracy"/) { gsub(/"/, "", $i); v[NR, $i] = $(i + 1) } }
    END {
        for (k in v) { split(k, at, SUBSEP); d = v[1, at[2]] - v[2, at[2]]; if (d > 1e-5 || d < -1e-5) exit 1; n++ }
        d = v[2, "loss"] - v[2, "masked_loss"] - v[2, "next_sentence_loss"]
        exit !(n == 8 && d < 1e-9 && d > -1e-9 && v[2, "next_sentence_loss"] > 0.5)
    }' || fail "eval of pairs: $(grep validation runs/pairs/metrics.jsonl) $(cat out)"
"$PENSTOCK" eval runs/pairs >out 2>err
grep -q '^  masked tokens  *[0-9]* ' out && grep -q '^  next sentence .*%' out || fail "table of pairs: $(cat out)"
# shellcheck disable=SC2086
"$PENSTOCK" train run.yaml -n 2 name=pairs-text $pairs data.kind=text data.paths='[sentences.txt, other.txt]' \
    parallel.tensor=2 parallel.sequence=true >out 2>&1 || fail "pairs of text: $(cat out)"
# shellcheck disable=SC2086
"$PENSTOCK" verify run.yaml -n 4 $pairs data.paths=sentences.txt parallel.tensor=2 parallel.sequence=true >out 2>&1 ||
    fail "verify pairs: $(cat out)"
refuses 'files of tokens have no segments' data.kind=tokens data.paths=set data.cache= model.next_sentence=true
refuses 'too little text for pairs' model.next_sentence=true model.context=4000 data.validation=0

for token in CLS SEP MASK; do
    sed "s/^.$token.\$/[unused]/" vocab.txt >lacks.txt
    refuses "lacks.txt: .*no special token \"\\[$token\\]\"" data.tokenizer=lacks.txt
done
refuses 'need the tokenizer that made the tokens' data.kind=tokens data.paths=set data.tokenizer=byte data.cache=
refuses 'use data.kind: lines' data.kind=text data.tokenizer=byte data.cache=
refuses 'model.vocabulary is 12, but the data has 20' model.vocabulary=12
exit $bad
