#!/bin/sh
# test: label=quick timeout=60
# Files for llama.cpp and llm.c: FILE.bin is read and written again with the same bytes, in both types; a GGUF file with
# its tokenizer is read back by the package gguf; wrong combinations are refused.
. "$(dirname "$0")/../script.sh"
refuse() { # WORDS COMMAND...
    words=$1; shift
    ! "$@" >out 2>&1 || fail "$* is not refused"
    grep -q -- "$words" out || fail "$* lacks '$words': $(cat out)"
}
weights() { sed -n 's/.*"weights_xxh64": *"\{0,1\}\([0-9a-f]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -1; }
write_run 2
cat >>run.yaml <<END
parallel: {threads: 1}
END
"$PENSTOCK" train run.yaml -q -n 1 || exit 1
"$PENSTOCK" convert runs/run a.bin && "$PENSTOCK" convert runs/run half.bin --type bf16 || exit 1
# a step this small changes no weight
cat >again.yaml <<END
model: {kind: gpt, weights: a.bin}
data: {paths: [text.txt]}
train: {steps: 1, batch: 8, lr: 1.0e-30}
checkpoint: {every: 0}
parallel: {threads: 1}
END
"$PENSTOCK" train again.yaml -q -n 1 && "$PENSTOCK" convert runs/again b.bin || exit 1
cmp a.bin b.bin || fail "fp32 changed"
[ "$(weights run)" = "$(weights again)" ] || fail "other weights than those of the run"
"$PENSTOCK" train again.yaml -q -n 2 parallel.tensor=2 name=tensor && "$PENSTOCK" convert runs/tensor c.bin || exit 1
cmp a.bin c.bin || fail "fp32 changed with tensor ranks"
"$PENSTOCK" train again.yaml -q -n 2 model.weights=half.bin name=half && "$PENSTOCK" convert runs/half d.bin --type bf16 ||
    exit 1
cmp half.bin d.bin || fail "bf16 changed"
"$PENSTOCK" generate runs/run -t 20 -s 3 >one 2>err && "$PENSTOCK" generate a.bin -t 20 -s 3 >two 2>err || fail "$(cat err)"
cmp one two || fail "generate: a.bin continues in another way than the run"
"$PENSTOCK" inspect half.bin | grep -q 'GPT-2 of llm.c: 2 layers, 2 heads, 32 channels, context 16, vocabulary 256 .*BF16' ||
    fail "inspect half.bin"

refuse 'a.bin already exists; use --force' "$PENSTOCK" convert runs/run a.bin
"$PENSTOCK" convert runs/run a.bin --force || fail "--force"
refuse 'have f32 or bf16' "$PENSTOCK" convert runs/run x.bin --type f16
refuse "type 'q4': expected f32, f16 or bf16" "$PENSTOCK" convert runs/run x.gguf --type q4
refuse 'is a folder, which has f32' "$PENSTOCK" convert runs/run folder --type f16
refuse 'a.bin has 2 layers, but the model has fewer' "$PENSTOCK" train again.yaml -q -n 1 name=x \
    model.layers=1 model.heads=2 model.channels=32 model.context=16
refuse 'needs \[256,16\]' "$PENSTOCK" train again.yaml -q -n 1 name=x \
    model.layers=2 model.heads=2 model.channels=16 model.context=16
head -c 5000 a.bin >cut.bin
refuse 'cut.bin has 5000 bytes, but' "$PENSTOCK" train again.yaml -q -n 1 name=x model.weights=cut.bin
head -c 5000 text.txt >text.bin
refuse 'text.bin is no GPT-2 checkpoint of llm.c' "$PENSTOCK" generate text.bin
refuse 'a.bin: n_head is 2, but the model has 4 heads' "$PENSTOCK" train again.yaml -q -n 1 name=x \
    model.layers=2 model.heads=4 model.channels=32 model.context=16
printf 'PK\003\004%01100d' 0 >torch.bin
refuse 'torch.bin is a file of torch.save' "$PENSTOCK" generate torch.bin
"$PENSTOCK" convert runs/run y.GGUF && [ -f y.GGUF ] || fail "y.GGUF is no file"
refuse 'y.GGUF is a GGUF file: .* none are read' "$PENSTOCK" inspect y.GGUF
cp y.GGUF renamed
refuse 'renamed is a GGUF file' "$PENSTOCK" generate renamed
refuse 'model.weights=y.GGUF.: y.GGUF is a GGUF file' "$PENSTOCK" train again.yaml -q -n 1 name=x model.weights=y.GGUF
refuse 'y.GGUF is a GGUF file' "$PENSTOCK" train run.yaml -q -n 1 name=x model.weights=y.GGUF
mkdir folder.bin
"$PENSTOCK" convert runs/run folder.bin && "$PENSTOCK" inspect folder.bin | grep -q 'Hugging Face GPT-2' || fail "folder.bin"
printf 'hello\nworld\n' >bert.txt
"$PENSTOCK" train -q -n 1 run.yaml name=bert model.kind=bert data.kind=lines 'data.paths=[bert.txt]' data.validation=0 >out 2>&1 ||
    fail "bert: $(cat out)"
refuse 'GGUF files are written of gpt and llama' "$PENSTOCK" convert runs/bert x.gguf
[ ! -e x.gguf ] || fail "a refused file is there"

"$PENSTOCK" tokenize --train --vocabulary 300 -o words text.txt >out 2>&1 || fail "tokenize: $(cat out)"
"$PENSTOCK" train run.yaml -q -n 1 name=bpe data.tokenizer=words model.vocabulary=320 || exit 1
for type in f32 f16 bf16; do
    "$PENSTOCK" convert runs/bpe "$type.gguf" --type "$type" || fail "convert $type"
done
python=${PST_TORCH_PYTHON:-python3}
if ! "$python" -c 'import gguf' 2>/dev/null; then
    echo "skipped: read GGUF back: the Python package gguf is missing"
    exit $bad
fi
"$python" - <<END || fail "gguf"
import gguf, json
tokens = json.load(open("words/tokenizer.json"))["model"]
for kind, number in (("f32", 0), ("f16", 1), ("bf16", 32)):
    r = gguf.GGUFReader(kind + ".gguf")
    f = lambda key: r.get_field(key).contents()
    assert r.alignment == 32 and r.data_offset % 32 == 0
    assert f("general.architecture") == "gpt2" and int(r.get_field("general.file_type").parts[-1][0]) == number
    assert f("tokenizer.ggml.pre") == "gpt-2" and f("tokenizer.ggml.eos_token_id") == 299
    words = f("tokenizer.ggml.tokens")
    assert len(words) == 320 and words[319] == "[PAD319]" and words[299] == "<|endoftext|>"
    assert all(words[i] == w for w, i in tokens["vocab"].items())
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokens["merges"]]
    assert f("tokenizer.ggml.merges") == merges
    types = f("tokenizer.ggml.token_type")
    assert types[298] == 1 and types[299] == 3 and types[319] == 5
    t = {x.name: x for x in r.tensors}
    assert t["blk.1.attn_qkv.weight"].tensor_type.name == kind.upper()
    assert list(t["blk.1.attn_qkv.weight"].shape) == [32, 96] and t["blk.1.attn_qkv.bias"].tensor_type.name == "F32"
END
exit $bad
