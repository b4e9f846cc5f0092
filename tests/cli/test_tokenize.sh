#!/bin/sh
# test: label=quick timeout=60
# tokenize, and runs on tokens: a tokenizer learned from text, ids, an indexed data set, the cache of encoded text,
# generation with the run's tokenizer, and what is refused.
. "$(dirname "$0")/../script.sh"
refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$PENSTOCK" "$@" >out 2>err
    [ $? = 2 ] || fail "$*: not refused"
    grep -q -e "$pattern" err || fail "$*: $(cat err)"
}
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }

i=0
while [ $i -lt 200 ]; do
    echo "the valve of pump $i opens, and the water of the reservoir flows through the penstock"; i=$((i + 1))
done >text.txt
printf 'the water' >one.txt
printf 'flows<|endoftext|>' >two.txt

"$PENSTOCK" tokenize --train --vocabulary 300 -o tok text.txt >out || fail "learning"
grep -q '300: 256 bytes, 43 merges' out || fail "learned: $(cat out)"
"$PENSTOCK" tokenize --train --vocabulary 300 -o again.json text.txt >out && same again.json tok/tokenizer.json
refuses 'again.json already exists; use --force' tokenize --train --vocabulary 300 -o again.json one.txt
refuses 'tok/tokenizer.json already exists; use --force' tokenize --train --vocabulary 300 -o tok one.txt
same again.json tok/tokenizer.json
mkdir here
(cd here && "$PENSTOCK" tokenize --train --vocabulary 300 ../text.txt) >out || fail "learning: $(cat out)"
same again.json here/tokenizer.json
for option in '--tokenizer tok' '--end x' --ids --special '--threads 2'; do
    # shellcheck disable=SC2086 # an option and its value
    refuses '--train learns a tokenizer' tokenize --train --vocabulary 300 -o no $option text.txt
done
refuses 'belong together' tokenize --train text.txt
refuses 'belong together' tokenize --vocabulary 300 --tokenizer tok text.txt
refuses 'pairs for only [0-9]* tokens' tokenize --train --vocabulary 90000 -o tok2 text.txt

# WordPiece: special tokens, characters, whole words; the order of files does not matter; BERT's text and its case
printf 'The valve, the Valves; open\n' >caps.txt
"$PENSTOCK" tokenize --train --kind wordpiece --vocabulary 90 -o wp text.txt caps.txt >out || fail "WordPiece: $(cat out)"
grep -q '^tokens *90: special tokens' out && [ "$(wc -l <wp/vocab.txt)" = 90 ] || fail "WordPiece: $(cat out)"
[ "$(head -n 5 wp/vocab.txt | tr '\n' ' ')" = '[PAD] [UNK] [CLS] [SEP] [MASK] ' ] || fail "special tokens: $(cat wp/vocab.txt)"
grep -qx the wp/vocab.txt && grep -qx '##s' wp/vocab.txt && ! grep -v '^\[' wp/vocab.txt | grep -q '[A-Z]' || fail "tokens: $(cat wp/vocab.txt)"
[ "$(sort -u wp/vocab.txt | wc -l)" = 90 ] || fail "a token occurs twice: $(sort wp/vocab.txt | uniq -d)"
"$PENSTOCK" tokenize --train --kind wordpiece --vocabulary 90 -o other.txt caps.txt text.txt >out && same other.txt wp/vocab.txt
"$PENSTOCK" tokenize --tokenizer wp --ids text.txt caps.txt | tr ' ' '\n' | grep -qx 1 && fail "an unknown word"
"$PENSTOCK" tokenize --train --kind wordpiece --cased --vocabulary 60 -o cased.txt caps.txt text.txt >out || fail "cased: $(cat out)"
grep -qx T cased.txt && grep -qx '##a' cased.txt || fail "cased: $(cat cased.txt)"
refuses 'vocab.txt already exists; use --force' tokenize --train --kind wordpiece --vocabulary 90 -o wp text.txt
refuses 'a vocabulary of 20 is too small: 5 special tokens and the characters' tokenize --train --kind wordpiece --vocabulary 20 -o no text.txt
refuses 'pairs for only [0-9]* tokens; use' tokenize --train --kind wordpiece --vocabulary 5000 -o no text.txt
refuses 'no letter from A to Z' tokenize --train --kind wordpiece --cased --vocabulary 90 -o no text.txt
refuses "kind 'bert': expected bpe or wordpiece" tokenize --train --kind bert --vocabulary 300 -o no text.txt
refuses 'cased is for --kind wordpiece' tokenize --train --cased --vocabulary 300 -o no text.txt
refuses 'are for --train' tokenize --kind wordpiece --tokenizer wp text.txt
refuses 'a vocabulary of 100 is too small: 256 bytes' tokenize --train --vocabulary 100 -o no text.txt

# ids: the same from a file, a folder and bytes; special tokens if asked for
"$PENSTOCK" tokenize --tokenizer tok --ids one.txt two.txt >ids || fail "ids"
[ "$(wc -l <ids)" = 2 ] || fail "ids: $(cat ids)"
"$PENSTOCK" tokenize --tokenizer tok/tokenizer.json --ids one.txt two.txt | cmp -s - ids || fail "ids of the file"
[ "$("$PENSTOCK" tokenize --tokenizer byte --ids one.txt)" = '116 104 101 32 119 97 116 101 114' ] || fail "bytes"
"$PENSTOCK" tokenize --tokenizer tok --ids --special two.txt | grep -q ' 299$' || fail "special"
"$PENSTOCK" tokenize --tokenizer tok --ids --end '<|endoftext|>' one.txt | grep -q ' 299$' || fail "end"
"$PENSTOCK" tokenize --tokenizer tok text.txt | grep -q '^tokens ' || fail "summary"
refuses 'tok: the tokenizer has no special token "<|eot|>"' tokenize --tokenizer tok --end '<|eot|>' one.txt
refuses 'needs --tokenizer' tokenize one.txt
refuses 'nowhere: no such file or folder' tokenize --tokenizer nowhere one.txt
refuses 'missing.txt: No such file' tokenize --tokenizer tok missing.txt

# a data set: processes that write it together, written once, and replaced only by --force
for i in 1 2 3; do
    for process in 1 2 3; do
        "$PENSTOCK" tokenize --tokenizer tok -o both text.txt >out.$process 2>&1 &
        eval "process_$process=$!"
    done
    for process in 1 2 3; do
        eval "wait \$process_$process" || fail "together: $(cat out.$process)"
        grep -q '^\(written\|unchanged\)  *both.bin' out.$process || fail "together: $(cat out.$process)"
    done
    [ ! -e both.parts ] || fail "pieces stay: $(ls both.parts)"
    rm both.bin both.idx both.record.json
done
"$PENSTOCK" tokenize --tokenizer tok -o both text.txt >out || fail "both: $(cat out)"
cp both.bin first.bin
"$PENSTOCK" tokenize --tokenizer tok -o both text.txt >out || fail "the same again: $(cat out)"
grep -q '^unchanged ' out || fail "encoded again: $(cat out)"
refuses 'both.bin already exists; use --force' tokenize --tokenizer tok -o both one.txt
[ ! -e both.parts ] || fail "refused, but both.parts stays"
same both.bin first.bin
"$PENSTOCK" tokenize --tokenizer tok -f -o both one.txt >out || fail "forced: $(cat out)"
[ "$(wc -c <both.bin)" -lt 20 ] || fail "not replaced"
printf x | dd of=both.bin bs=1 conv=notrunc 2>/dev/null
refuses 'both.bin already exists; use --force' tokenize --tokenizer tok -o both one.txt

# text with a tokenizer is encoded once; tokens of the same text give the same run
export XDG_CACHE_HOME="$folder/cache"
cat >run.yaml <<END
model: {kind: gpt, layers: 1, heads: 2, channels: 16, context: 16}
data: {kind: text, paths: [text.txt], tokenizer: tok}
train: {steps: 6, batch: 8, micro_batch: 4}
checkpoint: {every: 3}
END
"$PENSTOCK" train run.yaml -n 2 >out 2>&1 || fail "train: $(cat out)"
[ "$(grep -c 'encoding text.txt' out)" = 1 ] || fail "not encoded once: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=again >out 2>&1 || fail "train again: $(cat out)"
! grep -q 'encoding' out || fail "encoded again"
"$PENSTOCK" tokenize --tokenizer tok --end '<|endoftext|>' -o set text.txt >out || fail "set: $(cat out)"
set -- "$folder"/cache/penstock/tokens/*.bin
same "$1" set.bin
"$PENSTOCK" train run.yaml -n 1 name=set data.kind=tokens data.paths=set >out 2>&1 || fail "tokens: $(cat out)"
for run in run again set; do
    "$PENSTOCK" inspect runs/$run | sed -n 's/^  //p' | cut -d' ' -f1-40 | sed 's/rank-.*//' >$run.weights
done
same run.weights again.weights
same run.weights set.weights
"$PENSTOCK" inspect runs/run | grep -q '^tokenizer  *[0-9a-f]\{16\}$' || fail "no hash of the tokenizer"
"$PENSTOCK" generate runs/run -p "the water" -t 5 >out 2>err || fail "generate: $(cat err)"
grep -q '^the water' out || fail "generate: $(cat out)"

# bits per byte: the loss of all tokens by the bytes of the text, for text and tokens, one replica and two; not of bytes
bits() { # NAME ARGUMENT...
    name=$1
    shift
    "$PENSTOCK" train run.yaml -q name="$name" train.steps=2 eval.tokens=all data.validation=0.2 "$@" >out 2>&1 ||
        fail "$name: $(cat out)"
}
bits text -n 1 eval.sets.whole=text.txt
bits tokens -n 1 data.kind=tokens data.paths=set eval.sets.whole=set
bits replicas -n 2 parallel.data=2
bits bytes -n 1 data.tokenizer=byte
grep -q '"loss"' runs/bytes/metrics.jsonl && ! grep -q bits_per_byte runs/bytes/metrics.jsonl || fail "bits of bytes"
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "bits per byte"
import json, math, struct
vocabulary = json.load(open("tok/tokenizer.json"))["model"]["vocab"]
length = {number: len(text) for text, number in vocabulary.items()}  # of byte-level BPE, a character is a byte
with open("set.bin", "rb") as f:
    data = f.read()
ids = struct.unpack(f"<{len(data) // 2}H", data)
split = ids[len(ids) - int(len(ids) * 0.2):]
text = sum(length.get(i, 0) for i in ids)  # the end of a document has no bytes
assert text == len(open("text.txt", "rb").read()), text
def equal(of, tokens):
    count, size = len(tokens) - 1, sum(length.get(i, 0) for i in tokens[1:])
    want = of["loss"] * count / math.log(2) / size
    assert of["tokens"] == count and abs(of["bits_per_byte"] / want - 1) < 1e-12, (of, want)
for name in "text", "tokens", "replicas":
    lines = [json.loads(line) for line in open(f"runs/{name}/metrics.jsonl")]
    last = [line for line in lines if line.get("event") == "validation"][-1]
    equal(last, split)
    if name != "replicas":
        equal(last["sets"]["whole"], ids)
    steps = [line["bits_per_byte"] for line in lines if "event" not in line]
    assert len(steps) == 2 and all(1 < bits < 8.5 for bits in steps), steps
    first = steps if name == "text" else first
    assert all(abs(a / b - 1) < 1e-5 for a, b in zip(first, steps)), (name, first, steps)
END
fi

# JSON Lines, and a blend of two sources
for i in $(seq 40); do echo "{\"text\": \"pump $i opens the valve of the reservoir\"}"; done >docs.jsonl
"$PENSTOCK" tokenize --tokenizer tok --field text --ids docs.jsonl | wc -l | grep -qx ' *40' || fail "documents"
"$PENSTOCK" train run.yaml -q -n 1 name=blend 'data.paths=[text.txt, docs.jsonl]' 'data.blend=[3, 1]' >out 2>&1 ||
    fail "blend: $(cat out)"
sed 's/.*"text": "\(.*\)"}/\1/' docs.jsonl >lines.txt
"$PENSTOCK" tokenize --train --vocabulary 300 --field text -o field.json docs.jsonl >out || fail "field: $(cat out)"
"$PENSTOCK" tokenize --train --vocabulary 300 -o lines.json lines.txt >out || fail "lines: $(cat out)"
same field.json lines.json
echo '{"body": 1}' >>docs.jsonl
refuses 'docs.jsonl: line 41: no text in the field "text"' tokenize --train --vocabulary 300 --field text -o no docs.jsonl
refuses 'docs.jsonl: line 41: no text in the field "text"' tokenize --tokenizer tok --field text -o no docs.jsonl
[ ! -e no ] && [ ! -e no.parts ] || fail "refused, but something is written"
refuses '--on-error is stop or skip, not "go"' tokenize --tokenizer tok --field text --on-error go docs.jsonl
refuses '--on-error skip needs --field' tokenize --tokenizer tok --on-error skip docs.jsonl
for how in '--tokenizer tok' '--tokenizer tok --ids' '--tokenizer tok -o left' '--tokenizer tok -o left' \
    '--train --vocabulary 300 -o skip.json'; do
    # shellcheck disable=SC2086 # several words
    "$PENSTOCK" tokenize $how --field text --on-error skip docs.jsonl >out 2>err || fail "$how: $(cat err)"
    grep -q '1 line without text in the field "text" left out' err || fail "$how: not counted: $(cat err)"
done
same field.json skip.json
"$PENSTOCK" train run.yaml -n 1 name=left data.kind=tokens 'data.paths=[left.*]' >out 2>&1 || fail "a pattern: $(cat out)"
refuses 'docs.jsonl: line 41: no text in the field "text"' train run.yaml -q -n 1 name=no data.paths=docs.jsonl
"$PENSTOCK" train run.yaml -n 1 name=skip data.paths=docs.jsonl data.on_error=skip >out 2>&1 || fail "skip: $(cat out)"
grep -q '1 line of docs.jsonl without text' out || fail "skipped: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=skip2 data.paths=docs.jsonl data.on_error=skip >out 2>&1 || fail "skip: $(cat out)"
! grep -q encoding out || fail "encoded again: $(cat out)"
grep -q '1 line of docs.jsonl without text' out || fail "skipped, from the cache: $(cat out)"
refuses 'data: all lines of docs.jsonl are without text in the field "x", and data.on_error: skip' train run.yaml -q -n 1 \
    name=no data.paths=docs.jsonl data.on_error=skip data.field=x
refuses "data.blend: '0' is not a number above 0" train run.yaml -q -n 1 name=no 'data.paths=[text.txt, two.txt]' \
    'data.blend=[1, 0]'

# a byte order mark, half of a surrogate pair, and compressed files; bytes of JSON Lines
printf '\357\273\277{"text": "the \\ud83d water"}\n' >mark.jsonl
[ "$("$PENSTOCK" tokenize --tokenizer byte --field text --ids mark.jsonl)" = \
    '116 104 101 32 239 191 189 32 119 97 116 101 114' ] || fail "a mark and half of a pair"
gzip -k text.txt
"$PENSTOCK" tokenize --tokenizer tok --end '<|endoftext|>' -o packed text.txt.gz >out || fail "gzip: $(cat out)"
same set.bin packed.bin
"$PENSTOCK" train run.yaml -q -n 1 name=gzip data.paths=text.txt.gz data.tokenizer=byte >out 2>&1 || fail "bytes: $(cat out)"
"$PENSTOCK" train run.yaml -q -n 1 name=plain data.tokenizer=byte >out 2>&1 || fail "bytes: $(cat out)"
for run in gzip plain; do "$PENSTOCK" inspect runs/$run | sed -n 's/^  //p' | cut -d' ' -f1-40 | sed 's/rank-.*//' >$run.weights; done
same gzip.weights plain.weights
head -c 100 text.txt.gz >cut.txt.gz
refuses 'cut.txt.gz: unexpected end of file' tokenize --tokenizer tok cut.txt.gz
refuses 'data.field is for files of JSON Lines, but no file' train run.yaml -q -n 1 name=no data.field=body
refuses 'text.txt.gz is compressed (gzip)' train run.yaml -q -n 1 name=no model.kind=bert data.kind=lines \
    data.paths=text.txt.gz data.tokenizer=byte

# a damaged cache is encoded again; nothing of an interrupted encoding stays in the way
for file in "$folder"/cache/penstock/tokens/*.bin; do printf 'x' | dd of="$file" bs=1 conv=notrunc 2>/dev/null; done
"$PENSTOCK" train run.yaml -n 1 name=damaged >out 2>&1 || fail "damaged: $(cat out)"
grep -q 'is damaged, or was changed; the text is encoded again' out || fail "damaged: $(cat out)"
"$PENSTOCK" inspect runs/damaged | sed -n 's/^  //p' | cut -d' ' -f1-40 | sed 's/rank-.*//' >damaged.weights
same run.weights damaged.weights
mkdir parts.parts
echo x >parts.parts/0123456789abcdef-000000-000000
"$PENSTOCK" tokenize --tokenizer tok --end '<|endoftext|>' -o parts --threads 2 text.txt >out 2>&1 || fail "$(cat out)"
same set.bin parts.bin
[ ! -e parts.parts ] || fail "pieces stay: $(ls parts.parts)"

# another tokenizer
refuses 'model.vocabulary is 299, but the data has 300 different tokens' train run.yaml -q -n 1 name=no model.vocabulary=299
refuses 'token [0-9]* is [0-9]*, but model.vocabulary is 100' train run.yaml -q -n 1 name=no data.kind=tokens \
    data.paths=set data.tokenizer=byte model.vocabulary=100
refuses 'set model.vocabulary\|model.vocabulary is 0' train run.yaml -q -n 1 name=no data.kind=tokens data.paths=set \
    data.tokenizer=byte
tr a-y b-z <text.txt >mixed.txt
"$PENSTOCK" tokenize --train --force --vocabulary 300 -o tok mixed.txt >out || fail "other tokenizer"
refuses 'was trained with the tokenizer of hash [0-9a-f]*, but data.tokenizer tok has the hash [0-9a-f]*; resume with' \
    train run.yaml --resume runs/run -n 1 train.steps=8
"$PENSTOCK" tokenize --train --vocabulary 280 -o small mixed.txt >out || fail "small tokenizer"
for tokenizer in small tok; do # of another size and of the same; the text that is new is not encoded first
    "$PENSTOCK" train run.yaml --resume runs/run -n 1 train.steps=8 data.tokenizer=$tokenizer data.paths=mixed.txt >out 2>&1
    grep -q "was trained with the tokenizer of hash .*, but data.tokenizer $tokenizer has the hash" out &&
        ! grep -q encoding out || fail "resume with $tokenizer: $(cat out)"
done
refuses 'but data.tokenizer byte has the hash 0* (0: bytes or unknown tokens); resume with' \
    train run.yaml --resume runs/run -n 1 train.steps=8 data.tokenizer=byte
"$PENSTOCK" train --resume runs/run -n 1 -q train.steps=8 >out 2>&1 || fail "resume with its own: $(cat out)"

# the files of the tokenizer are in the run's folder and in its checkpoints, so that both can be moved
rm -r tok
mkdir elsewhere
mv runs/run elsewhere/moved
same again.json elsewhere/moved/tokenizer/tokenizer.json
grep -q '^  tokenizer: tokenizer$' elsewhere/moved/run.yaml || fail "run.yaml names another tokenizer"
"$PENSTOCK" generate elsewhere/moved -p "the water" -t 5 >again 2>err || fail "generate, moved: $(cat err)"
cd elsewhere || exit 1
"$PENSTOCK" generate moved -p "the water" -t 5 2>err | cmp -s - ../again || fail "generate, from its folder: $(cat err)"
"$PENSTOCK" train --resume moved -n 1 -q train.steps=10 'data.paths=[../text.txt]' >out 2>&1 ||
    fail "resume, moved: $(cat out)"
cp -r moved/checkpoints/step-00000010 alone
rm -r moved/tokenizer
"$PENSTOCK" train --resume moved -n 2 train.steps=11 'data.paths=[../text.txt]' >out 2>&1 ||
    fail "resume with the checkpoint's tokenizer: $(cat out)"
[ "$(grep -c 'moved/tokenizer is missing; it is copied from .*/step-00000010/tokenizer' out)" = 1 ] || fail "copied: $(cat out)"
same ../again.json moved/tokenizer/tokenizer.json
rm -r moved/tokenizer moved/checkpoints/step-*/tokenizer
refuses 'the folder moved/tokenizer is missing, and so is moved/checkpoints/step-00000011/tokenizer' \
    train --resume moved -n 1 train.steps=12
cp -r alone/tokenizer moved
cd ..
"$PENSTOCK" generate elsewhere/alone -p "the water" -t 5 >out 2>err || fail "generate, a checkpoint alone: $(cat err)"
"$PENSTOCK" train elsewhere/moved/run.yaml -n 1 -q name=new steps=1 data.paths=text.txt >out 2>&1 ||
    fail "a new run: $(cat out)"

# beside exported weights
"$PENSTOCK" convert elsewhere/alone hf >out 2>&1 || fail "convert: $(cat out)"
same again.json hf/tokenizer.json
"$PENSTOCK" generate hf -p "the water" -t 5 >out.hf 2>err || fail "generate, converted: $(cat err)"
"$PENSTOCK" generate elsewhere/alone -p "the water" -t 5 | cmp -s - out.hf || fail "converted: another text"
"$PENSTOCK" train run.yaml -n 1 -q name=hf model.weights=hf data.tokenizer=hf steps=1 >out 2>&1 ||
    fail "weights: $(cat out)"
rm hf/config.json hf/model.safetensors
refuses 'hf/tokenizer.json already exists; use --force' convert elsewhere/alone hf
! [ -e hf/config.json ] || fail "refused, but written"
rm elsewhere/alone/tokenizer/tokenizer.json
cp out elsewhere/alone/tokenizer/README
refuses 'no tokenizer in this folder' generate elsewhere/alone
exit $bad
