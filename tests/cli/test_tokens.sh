#!/bin/sh
# test: label=quick timeout=60
# Runs on files of tokens: patterns, changed files at resume, wrong indexed data sets, and sources of blends.
. "$(dirname "$0")/../script.sh"
refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$PENSTOCK" "$@" >out 2>err
    [ $? = 2 ] || fail "$*: not refused"
    grep -q -e "$pattern" err || fail "$*: $(cat err)"
}
trains() { # ARGUMENT...
    timeout 30 "$PENSTOCK" train run.yaml -q -n 1 "$@" >out 2>&1 || fail "$*: $(cat out)"
}

for i in $(seq 60); do echo "pump $i opens the valve of reservoir $i"; done >c1.txt
for i in $(seq 60); do echo "valve $i fills the tank of turbine $i"; done >c2.txt
: >nothing.txt
for name in c1 c2 nothing; do
    "$PENSTOCK" tokenize --tokenizer byte -o $name $name.txt >out 2>&1 || fail "tokenize $name: $(cat out)"
done
cat >run.yaml <<END
model: {kind: gpt, layers: 1, heads: 2, channels: 16, context: 16, vocabulary: 256}
data: {kind: tokens, paths: [c1]}
train: {steps: 2, batch: 4, micro_batch: 4}
checkpoint: {every: 2}
END

# patterns: of either file, of both and of prefixes
weights() { sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' "runs/$1/metrics.jsonl"; }
trains name=both 'data.paths=[c1, c2]'
for pattern in 'c*.idx' 'c*.bin' 'c[12].[bi]*' 'c?'; do
    rm -rf runs/pattern
    trains name=pattern "data.paths=$pattern"
    [ "$(weights pattern)" = "$(weights both)" ] || fail "$pattern: other data"
done
refuses "data.paths: no file matches 'd\*.idx'" train run.yaml -q -n 1 name=no 'data.paths=d*.idx'
refuses "data.paths: no file matches 'd?'" train run.yaml -q -n 1 name=no 'data.paths=d?'

# other contents of the same size are noticed; another name is not
trains name=run
"$PENSTOCK" train --resume runs/run -q -n 1 steps=3 >out 2>&1 || fail "resume: $(cat out)"
cp c1.bin moved.bin
cp c1.idx moved.idx
"$PENSTOCK" train --resume runs/run -q -n 1 steps=4 data.paths=moved >out 2>&1 || fail "renamed: $(cat out)"
printf 'X' | dd of=moved.bin bs=1 seek=100 conv=notrunc 2>out
refuses 'was trained on different data: its hash is [0-9a-f]\{16\}, that of data.paths [0-9a-f]\{16\} ' \
    train --resume runs/run -q -n 1 steps=5
refuses '(data.kind, data.blend, data.isolate, data.validation, data.field, .* differ' train --resume runs/run -q -n 1 \
    steps=5 data.validation=0.3

# wrong files; the index has two places of 8 bytes before the lengths (at 34) and places (at 38) of one sequence
wrong() { # PATTERN: of the data set `bad`, which is then whole again
    refuses "$1" train run.yaml -q -n 1 name=no data.paths=bad
    cp c1.bin bad.bin
    cp c1.idx bad.idx
}
put() { printf '%b' "$2" | dd of=bad.idx bs=1 seek="$1" conv=notrunc 2>/dev/null; }
cp c1.bin bad.bin
cp c1.idx bad.idx
truncate -s -1 bad.bin
wrong 'bad.idx: sequence 0, [0-9]* bytes at byte 0, ends beyond the .bin file'
truncate -s -1 bad.idx
wrong 'bad.idx: the file ends within its tables'
truncate -s 20 bad.idx
wrong 'bad.idx: not an index of Megatron'
for size in '\0377\0377\0377\0377\0377\0377\0377\0177' '\0\0\0\0\0\0\0\0200'; do # 2^63 - 1 and 2^63
    put 18 "$size"
    wrong 'bad.idx: the file ends within its tables'
    put 26 "$size"
    wrong 'bad.idx: the file ends within its tables'
    put 38 "$size"
    wrong 'bad.idx: sequence 0, .* ends beyond the .bin file'
done
put 34 '\0377\0377\0377\0377'
wrong 'bad.idx: sequence 0 has -1 tokens'
put 34 '\0377\0377\0377\0177'
wrong 'bad.idx: sequence 0, 4294967294 bytes at byte 0, ends beyond the .bin file'
rm bad.bin
wrong 'bad.bin: No such file'
rm bad.idx
mv bad.bin bad
refuses 'bad: neither an indexed data set, nor tokens of llm.c' train run.yaml -q -n 1 name=no data.paths=bad

# a token that the model does not have, or a negative one, is found when the files are opened
head -c 400000 /dev/zero >zeros.bin
printf '\377\001' | dd of=zeros.bin bs=2 seek=199000 conv=notrunc 2>/dev/null # 511, in the validation split
refuses 'data: zeros.bin: token 199000 is 511, but model.vocabulary is 256' train run.yaml -q -n 1 name=no \
    steps=1 eval.tokens=20 data.paths=zeros.bin
cp c1.bin bad.bin
cp c1.idx bad.idx
printf '\002' | dd of=bad.idx bs=1 seek=17 conv=notrunc 2>/dev/null # int8
printf '\377\377' | dd of=bad.bin bs=2 seek=100 conv=notrunc 2>/dev/null
refuses 'data: bad: the token at byte 200 is -1' train run.yaml -q -n 1 name=no steps=1 data.paths=bad

# empty documents have no tokens; a source without tokens, or without a weight, is refused
"$PENSTOCK" tokenize --tokenizer byte -o gaps nothing.txt c1.txt nothing.txt nothing.txt >out || fail "gaps: $(cat out)"
trains name=c1
trains name=gaps data.paths=gaps
[ "$(weights gaps)" = "$(weights c1)" ] || fail "empty documents have tokens"
refuses 'data: nothing is empty: there is nothing to train on' train run.yaml -q -n 1 name=no data.paths=nothing
refuses 'data: nothing is empty: there is nothing to train on' train run.yaml -q -n 1 name=no \
    'data.paths=[c1, nothing]' 'data.blend=[1, 1]'
for weight in 0 -1 nan inf 1e-400 x; do
    refuses "data.blend: '$weight' is not a number above 0" train run.yaml -q -n 1 name=no 'data.paths=[c1, c2]' \
        "data.blend=[1, $weight]"
done
refuses 'data.blend: the sum of the weights is too large' train run.yaml -q -n 1 name=no 'data.paths=[c1, c2]' \
    'data.blend=[1e308, 1e308]'
refuses 'data.blend has 1 values, but data.paths has 2' train run.yaml -q -n 1 name=no 'data.paths=[c1, c2]' data.blend=1

# each source of a blend has a validation split of its own
tokens() { sed -n 's/.*"event":"validation".*"tokens":\([0-9]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -n 1; }
trains name=c2 data.paths=c2 eval.tokens=all
trains name=c1-all eval.tokens=all
trains name=blend 'data.paths=[c1, c2]' 'data.blend=[3, 1]' eval.tokens=all
[ "$(tokens blend)" = "$(($(tokens c1-all) + $(tokens c2)))" ] || fail "validation: $(tokens blend) tokens"

# what data.tokenizer means for tokens
"$PENSTOCK" generate runs/run -p "pump" -t 3 >out 2>err || fail "generate bytes: $(cat err)"
trains name=unknown model.vocabulary=300
refuses 'runs/unknown: data.tokenizer is byte, but the model has 300 tokens, not 256' generate runs/unknown
refuses 'model.vocabulary is 0; set this key, model.preset, or data.tokenizer, the tokenizer' train run.yaml -q -n 1 name=no model.vocabulary=0
exit $bad
