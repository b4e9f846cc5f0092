#!/bin/sh
# test: label=full timeout=300
# BERT classifies texts: learned from CSV, the same in any layout, evaluated, best checkpoint by accuracy, written for
# transformers, whose numbers are the same, and read again; a new head on a trained encoder.
. "$(dirname "$0")/../script.sh"
. "$SOURCE_DIR/tests/parity/torch.sh"
weights() { "$PENSTOCK" inspect "runs/$1" | sed -n 's/^  //p' | cut -d' ' -f1-40 | sed 's/rank-.*//'; }
# value FILE KEY: of the last line of a file of JSON Lines
value() { tail -n 1 "$1" | sed "s/.*\"$2\":\"\{0,1\}\([^,}\"]*\).*/\1/"; }
near() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a - b < d && b - a < d) }'; }
refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$PENSTOCK" train run.yaml -q -n 1 name=no "$@" >out 2>err
    [ $? = 2 ] || fail "$*: not refused"
    grep -q -e "$pattern" err || fail "$*: $(cat err)"
}

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' '##s' , $(seq 0 40) pump valve gate big small and the >vocab.txt
{
    echo 'text,topic'
    for i in $(seq 240); do
        echo "\"the pump, $((i % 40)) and big $((i % 7))\",pumping"
        echo "small valves $((i * 7 % 41)) and $((i % 11)),closing"
        [ $((i % 2)) = 0 ] && echo "$((i % 23)) gate $((i % 5)) the $((i % 3)),opening"
    done
} >train.csv
sed -n '1p; 200,260p' train.csv >test.csv
cat >run.yaml <<END
name: run
model: {kind: bert, task: classification, layers: 2, heads: 2, channels: 24, context: 12, intermediate: 40, norm_eps: 1.0e-6, dropout: 0.1}
data: {kind: labels, paths: [train.csv], label: topic, tokenizer: vocab.txt}
train: {steps: 200, batch: 16, micro_batch: 4, lr: 3.0e-3, warmup: 20}
eval: {every: 50, tokens: all, sets: {test: test.csv}}
checkpoint: {every: 0, metric: accuracy}
parallel: {threads: 1}
END
"$PENSTOCK" train run.yaml -n 1 >out 2>&1 || fail "train: $(cat out)"
grep -q 'labels: \[closing, opening, pumping\]' runs/run/run.yaml || fail "labels: $(grep labels runs/run/run.yaml)"
grep -q 'validation after step 200: loss .* nats per text over 60 texts, accuracy 100.00%; test .* (100.00%)' out ||
    fail "learns: $(grep validation out)"
[ "$(grep -c '"accuracy":' runs/run/metrics.jsonl)" = 204 ] || fail "accuracies: $(grep -c accuracy runs/run/metrics.jsonl)"
"$PENSTOCK" inspect runs/run | grep -q '^highest so far   1.000000' || fail "best: $(head -12 out)"

# any layout; replicas and tensor ranks with the keys for that
"$PENSTOCK" train run.yaml -q -n 3 name=stages parallel.schedule=zb-h1 >out 2>&1 || fail "stages: $(cat out)"
weights run >one
weights stages >two
grep -q 'classifier.weight' one && cmp -s one two || fail "weights of one rank and of three stages differ"
grep '"event":"validation"' runs/run/metrics.jsonl | sed 's/"seconds":[^,]*,//' >one
grep '"event":"validation"' runs/stages/metrics.jsonl | sed 's/"seconds":[^,]*,//' >two
cmp -s one two || fail "validations differ: $(cat one two)"
"$PENSTOCK" verify run.yaml -n 4 parallel.tensor=2 parallel.sequence=true >out 2>&1 || fail "verify: $(cat out)"

# evaluated, written and read again
"$PENSTOCK" eval runs/run --data test.csv --json >a 2>err || fail "eval: $(cat err)"
[ "$(value a kind)" = labels ] && [ "$(value a accuracy)" = 1.0 ] && [ "$(value a perplexity)" = null ] || fail "eval: $(cat a)"
"$PENSTOCK" convert runs/run hf >out 2>&1 || fail "convert: $(cat out)"
"$PENSTOCK" eval hf --data test.csv --label topic --json >b 2>err || fail "eval of a folder: $(cat err)"
near "$(value a loss)" "$(value b loss)" 1e-6 && [ "$(value b accuracy)" = 1.0 ] || fail "eval of a folder: $(cat a b)"
"$PENSTOCK" eval hf --data test.csv >out 2>err
[ $? = 2 ] && grep -q 'test.csv: line 1: there is no column "label" (data.label)' err || fail "no column: $(cat err)"
"$PENSTOCK" train run.yaml -q -n 1 name=again steps=2 model.weights=hf model.layers=0 model.heads=0 model.channels=0 \
    model.context=0 model.intermediate=0 model.norm_eps=0 model.dropout=0 >out 2>&1 || fail "from a folder: $(cat out)"
[ "$(value runs/again/metrics.jsonl accuracy)" = 1.0 ] || grep '"event":"validation"' runs/again/metrics.jsonl | grep -q '"accuracy":1.0' ||
    fail "from a folder: $(cat runs/again/metrics.jsonl)"

# the encoder of a model that was trained on text, with fewer positions and a new head
cut -d, -f1 train.csv | tr -d '"' >text.txt
"$PENSTOCK" train run.yaml -q -n 1 name=text steps=2 data.kind=lines data.paths=text.txt data.label= model.task=pretraining \
    model.context=16 checkpoint.metric=loss "eval.sets={}" eval.every=0 >out 2>&1 || fail "pretraining: $(cat out)"
"$PENSTOCK" convert runs/text encoder >out 2>&1 || fail "convert: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 name=tuned steps=2 model.weights=encoder >out 2>&1 || fail "a new head: $(cat out)"
grep -q 'encoder has 16 positions; the first 12 are taken' out &&
    grep -q 'encoder has no weights for pooler.weight, pooler.bias, classifier.weight, classifier.bias; they begin as' out ||
    fail "a new head: $(cat out)"
"$PENSTOCK" train run.yaml -q -n 2 name=tuned-2 steps=2 model.weights=encoder parallel.tensor=2 >out 2>&1 || fail "tensor ranks: $(cat out)"
a=$(sed -n 's/^{"step":1,"loss":\([^,]*\).*/\1/p' runs/tuned/metrics.jsonl)
b=$(sed -n 's/^{"step":1,"loss":\([^,]*\).*/\1/p' runs/tuned-2/metrics.jsonl)
near "$a" "$b" 1e-5 && [ -n "$a" ] || fail "a new head on tensor ranks: $a $b"

refuses 'model.task classification learns labels, but data.kind lines has none' data.kind=lines data.paths=text.txt data.label=
refuses 'data.kind labels is for classification' model.task=pretraining
refuses 'train.csv: line 2: the label .pumping. is none of the 2 of model.labels' 'model.labels=[closing, opening]'
refuses 'checkpoint.metric is accuracy, but the model gives neither' model.task=pretraining data.kind=lines data.paths=text.txt \
    data.label= "eval.sets={}"
refuses '2 tensors do not fit: tensor classifier.weight has shape \[3,24\], but the model needs \[4,24\]' model.weights=hf \
    'model.labels=[closing, opening, pumping, other]'

# another width of the MLP, without a pooler
if [ -d "${PST_CHECKPOINTS:-/nowhere}/bert_tiniest" ]; then
    { cat vocab.txt; seq 1000 31466; } | head -n 30522 >large.txt
    "$PENSTOCK" train run.yaml -n 1 name=tiniest steps=2 model.weights="$PST_CHECKPOINTS/bert_tiniest" model.layers=0 model.heads=0 \
        model.channels=0 model.intermediate=0 model.norm_eps=0 data.tokenizer=large.txt >out 2>&1 || fail "bert_tiniest: $(cat out)"
    grep -q 'bert_tiniest has 512 positions; the first 12 are taken' out || fail "bert_tiniest: $(cat out)"
else
    echo "skipped: bert_tiniest: PST_CHECKPOINTS names no folder that has it"
fi

# A score of transformers
[ $bad = 0 ] || exit $bad
need_torch ', transformers'
"$python" - >theirs 2>err <<END || fail "transformers: $(cat err)"
import csv
import torch
import transformers
model = transformers.AutoModelForSequenceClassification.from_pretrained("hf", dtype=torch.float32).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained("hf")
loss = right = n = 0
with torch.no_grad():
    for row in csv.DictReader(open("test.csv", encoding="utf-8")):
        ids = tokenizer(row["text"], return_tensors="pt", truncation=True, max_length=12)
        logits, label = model(**ids).logits, model.config.label2id[row["topic"]]
        loss += torch.nn.functional.cross_entropy(logits, torch.tensor([label])).item()
        right += int(logits.argmax()) == label
        n += 1
print(f'{{"loss":{loss / n},"accuracy":{right / n},"n":{n}}}')
END
near "$(value a loss)" "$(value theirs loss)" 1e-5 && [ "$(value a accuracy)" = "$(value theirs accuracy)" ] &&
    [ "$(value a n)" = "$(value theirs n)" ] || fail "transformers: $(cat a theirs)"
exit $bad
