#!/bin/sh
# test: label=full isa=any timeout=120
# Conversations as data: any layout gives the same weights, broken lines are refused or left out, and a tokenizer
# without the special tokens of the template is refused.
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

for i in $(seq 40); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"pump $i?\"}," \
        "{\"role\": \"assistant\", \"content\": \"$(seq -s ' ' "$i" | cut -c1-40)\"}]}"
done >chat.jsonl
seq 2000 >text.txt
"$PENSTOCK" tokenize --train --vocabulary 280 -o tok text.txt >out || fail "learning: $(cat out)"
cp -r tok plain
sed -i 's/"added_tokens" *: *\[/&{"id": 280, "content": "<|im_start|>", "special": true}, {"id": 281, "content": "<|im_end|>", "special": true}, /' \
    tok/tokenizer.json
cat >run.yaml <<END
model: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 64}
data: {kind: chat, paths: [chat.jsonl], tokenizer: tok, cache: cache}
train: {steps: 4, batch: 8, micro_batch: 2}
checkpoint: {every: 2}
END
"$PENSTOCK" train run.yaml -n 1 >out 2>&1 || fail "train: $(cat out)"
"$PENSTOCK" train run.yaml -n 2 name=stages >out 2>&1 || fail "stages: $(cat out)"
weights run >one
weights stages >two
grep -q 'wte.weight' one && cmp -s one two || fail "weights of one rank and of two stages differ"
"$PENSTOCK" train --resume runs/run -n 2 steps=6 >out 2>&1 || fail "resume: $(cat out)"
cmp -s tok/tokenizer.json runs/run/tokenizer/tokenizer.json || fail "the run has no copy of its tokenizer"
"$PENSTOCK" generate runs/run -p "pump" -t 3 >out 2>err || fail "generate: $(cat err)"
# A prompt in the run's template is the same text with the template's tokens written out.
# asks FILE ARGUMENT...: prompt_tokens, text and end
asks() {
    file=$1
    shift
    "$PENSTOCK" generate runs/run --json -t 4 -s 5 "$@" >"$file" 2>err || fail "generate $*: $(cat err)"
    sed -i 's/.*"text"/"text"/' "$file"
}
asks one --chat run -p 'pump 3?' -p 'pump 12?'
asks two -p "<|im_start|>user
pump 3?<|im_end|>
<|im_start|>assistant
" -p "<|im_start|>user
pump 12?<|im_end|>
<|im_start|>assistant
"
grep -q '"end":"end"' one || cmp -s one two || fail "a chat template: $(cat one two)"
[ "$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' one)" = "$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' two)" ] ||
    fail "tokens of a chat template: $(cat one two)"
asks one --chat chatml --system 'Count.' -p 'pump 3?'
asks two -p "<|im_start|>system
Count.<|im_end|>
<|im_start|>user
pump 3?<|im_end|>
<|im_start|>assistant
"
grep -q '"end":"end"' one || cmp -s one two || fail "a system message: $(cat one two)"
"$PENSTOCK" verify run.yaml -n 2 parallel.data=2 >out 2>&1 || fail "verify: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=qwen data.template=qwen context=256 >out 2>&1 || fail "qwen: $(cat out)"

refuses 'data.template chatml: the tokenizer has no special token "<|im_start|>"' data.tokenizer=plain
refuses 'data.template llama3: the tokenizer has no special token "<|begin_of_text|>"' data.template=llama3
refuses 'use data.kind: lines' model.kind=bert
refuses 'data.template is not used by data.kind text' data.kind=text data.template=chatml
echo '{"messages": [{"role": "user", "content": "no answer"}]}' >>chat.jsonl
refuses 'chat.jsonl: line 41: no message has the role "assistant"'
"$PENSTOCK" train run.yaml -n 1 name=skip data.on_error=skip >out 2>&1 || fail "skip: $(cat out)"
grep -q '1 line of chat.jsonl without a conversation left out' out || fail "skipped: $(cat out)"
echo '{"messages": []}' >empty.jsonl
refuses 'all lines of empty.jsonl are without a conversation, and data.on_error: skip' data.paths=empty.jsonl \
    data.on_error=skip
exit $bad
