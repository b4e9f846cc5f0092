#!/bin/sh
# test: label=full timeout=300
# eval: the loss of a run's own evaluation; last words and choices that a model has learned; transformers' numbers.
. "$(dirname "$0")/../script.sh"
. "$SOURCE_DIR/tests/parity/torch.sh"
evaluate() { out=$1; shift; "$PENSTOCK" eval "$@" >"$out" 2>err || fail "eval $*: $(cat err)"; }
# value FILE LINE KEY: of a file of JSON Lines
value() { sed -n "$2p" "$1" | sed "s/.*\"$3\":\"\{0,1\}\([^,}\"]*\).*/\1/"; }
# near A B LIMIT
near() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a - b < d && b - a < d) }'; }

for i in $(seq 400); do
    case $((i % 3)) in
    0) echo "the cat sat on the mat" ;;
    1) echo "a dog ran to the tree" ;;
    *) echo "one hen is in the coop" ;;
    esac
done >text.txt
tail -n 5 text.txt >other.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 48, context: 24}
data: {kind: text, paths: [text.txt], validation: 0.1}
train: {steps: 500, batch: 16, warmup: 20, lr: 1.0e-2}
checkpoint: {every: 0}
eval: {tokens: all, sets: {other: other.txt}}
END
"$PENSTOCK" train run.yaml -q -n 1 parallel.threads=1 || exit 1

# what the run has found
evaluate a runs/run --json
grep '"validation"' runs/run/metrics.jsonl | tail -n 1 >last
ran=$(sed 's/.*"step":[0-9]*,"loss":\([^,]*\).*/\1/' last)
near "$(value a 1 loss)" "$ran" 1e-5 && [ -n "$ran" ] || fail "validation: $(cat a last)"
[ "$(value a 1 set)" = validation ] && [ "$(value a 2 set)" = other ] && [ "$(wc -l <a)" = 2 ] || fail "sets: $(cat a)"
[ "$(value a 2 tokens)" = "$(value a 2 bytes)" ] && [ "$(value a 2 tokens)" -gt 100 ] || fail "bytes: $(cat a)"
near "$(value a 2 perplexity)" "$(value a 2 perplexity_per_byte)" 1e-9 || fail "bytes are tokens: $(cat a)"
evaluate b runs/run --data again=other.txt --json
near "$(value a 2 loss)" "$(value b 1 loss)" 1e-6 || fail "the same set: $(cat a b)"
evaluate b runs/run
grep -q '^set .* perplexity' b && grep -q '^validation  *text ' b || fail "table: $(cat b)"

# what was learned
printf 'the cat sat on the mat\na dog ran to the tree\n\none hen is in the coop\none hen is in the dog\n' >words
evaluate c runs/run --words words --json
[ "$(value c 1 accuracy)" = 0.75 ] && [ "$(value c 1 n)" = 4 ] || fail "words: $(cat c)"
sed 's/.*/{"text": "&"}/; /""/d' words >words.jsonl
evaluate d runs/run --words words=words.jsonl --json
[ "$(cat c)" = "$(cat d)" ] || fail "JSON Lines: $(cat c d)"
cat >choices.jsonl <<END
{"ctx": "a dog ran", "endings": ["in the mat", "to the tree", "tree"], "label": 1, "id": 7}
{"ctx": "the cat", "endings": ["sat on the mat", "is in the coop"], "label": "0"}
{"ctx": "one hen", "endings": ["ran on the mat", "is in the coop"], "label": 0}
END
evaluate e runs/run --choices q=choices.jsonl --json
near "$(value e 1 accuracy)" 0.6666667 1e-6 && [ "$(value e 1 n)" = 3 ] || fail "choices: $(cat e)"
evaluate f runs/run --choices choices.jsonl --words words --limit 2
grep -q '^choices.jsonl  *choices  *2 .* 100.00%  *100.00%' f && grep -q '^words  *words  *2 .* 100.00%' f ||
    fail "limit: $(cat f)"

# refuses PATTERN ARGUMENT...
refuses() {
    pattern=$1 rc=0
    shift
    "$PENSTOCK" eval "$@" >out 2>err || rc=$?
    [ $rc = 2 ] && grep -q "$pattern" err || fail "$*: status $rc: $(cat out err)"
}
echo 'one' >one
refuses 'one, line 1: the line has no word before its last one' runs/run --words one
echo '{"ctx": "a", "endings": ["b", "c"], "label": 2}' >bad.jsonl
refuses 'bad.jsonl, line 1: the field "label" must be the number of an ending, 0 to 1' runs/run --choices bad.jsonl
echo '{"ctx": "a", "endings": ["b"], "label": 0}' >bad.jsonl
refuses 'bad.jsonl, line 1: expected the fields "ctx"' runs/run --choices bad.jsonl
echo 'no JSON' >bad.jsonl
refuses 'bad.jsonl, line 1: not JSON' runs/run --choices bad.jsonl
: >empty
refuses 'empty has no lines' runs/run --words empty
refuses 'none: No such file' runs/run --words none
"$PENSTOCK" convert runs/run hf || exit 1
refuses 'hf has no data of its own' hf
refuses 'neither a run' text.txt
[ $bad = 0 ] || exit $bad

# transformers' numbers
need_torch ', transformers'
# compare MODEL TEXT WORDS CHOICES
compare() {
    evaluate ours "$1" --data "$2" --words "$3" --choices "$4" --json
    "$python" "$SOURCE_DIR/tests/generate/scores.py" "$@" >theirs 2>err || { fail "transformers: $(cat err)"; return; }
    "$python" - <<END || fail "$1: other numbers than transformers"
import json
for ours, theirs in zip(open("ours"), open("theirs"), strict=True):
    ours, theirs = json.loads(ours), json.loads(theirs)
    for key in theirs:
        a, b = ours.get(key), theirs[key]
        same = a == b if isinstance(b, (str, type(None))) else abs(a - b) <= 1e-4 * max(1, abs(b))
        assert same, (key, ours, theirs)
END
}
sed 's/"label": "0"/"label": 0/' choices.jsonl >integers.jsonl
sed '/^$/d' words >all-words
compare hf other.txt all-words integers.jsonl
# Llama: shared keys and values, Llama 3's positions and biases (Qwen 2); a window and YaRN (Mistral)
llama() { # NAME KEYS...
    name=$1
    shift
    "$PENSTOCK" train run.yaml -q -n 1 parallel.threads=1 "name=$name" model.kind=llama model.heads=4 model.kv_heads=2 \
        model.intermediate=64 model.rope_factor=2 model.rope_context=12 steps=60 "$@" || exit 1
    "$PENSTOCK" convert "runs/$name" "$name" || exit 1
    compare "$name" other.txt all-words integers.jsonl
    "$PENSTOCK" generate "$name" --temperature 0 -t 10 --json -p "the cat" -p "a dog ran to" >"$name.text" || exit 1
}
llama qwen model.rope_scaling=llama3 model.bias=true
llama mistral model.rope_scaling=yarn model.window=7
"$python" - 2>err <<END || fail "other tokens than transformers: $(cat err)"
import json
import torch
from transformers import AutoModelForCausalLM
for folder in "qwen", "mistral":
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for line in open(folder + ".text"):
        line = json.loads(line)
        ids = torch.tensor([list(line["prompt"].encode())])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=10, pad_token_id=0)
        text = bytes(out[0, ids.shape[1]:].tolist()).decode(errors="replace")
        assert text == line["text"], (folder, text, line)
END
tiny=${PST_CHECKPOINTS:-$SOURCE_DIR/../shared/data/checkpoints}/tiny_gpt2
[ -d "$tiny" ] || { echo "skipped: tiny_gpt2: needs PST_CHECKPOINTS=a folder with it"; exit $bad; }
for i in $(seq 700); do printf 'lower newer lowest wider '; done >low.txt
printf 'lower newer lower\nlowest wer newer lowest\n' >low.words
echo '{"ctx": "lower", "endings": ["newer lower", "lowest"], "label": 1}' >low.jsonl
compare "$tiny" low.txt low.words low.jsonl
exit $bad
