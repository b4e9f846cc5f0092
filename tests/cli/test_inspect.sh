#!/bin/sh
# test: label=quick timeout=60
# inspect and convert: every kind of thing that can be shown, and nothing overwritten by accident.
. "$(dirname "$0")/../script.sh"

echo "all work and no play makes jack a dull boy, all work and no play makes jack a dull boy" >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 10, activation: relu}
data: {kind: text, paths: [text.txt]}
train: {steps: 1, batch: 6, micro_batch: 2, warmup: 0}
END
"$PENSTOCK" train run.yaml -q -n 2 >out 2>err || exit 1
[ ! -s out ] && [ ! -s err ] || fail "train -q says something: $(cat out err)"

# shows ARGUMENT...: what standard output must contain is on standard input, one pattern per line
shows() {
    "$PENSTOCK" inspect "$@" >out 2>err || fail "inspect $*: $(cat err)"
    while read -r pattern; do grep -q -e "$pattern" out || fail "inspect $*: no '$pattern'"; done
}
refuses() { # PATTERN ARGUMENT...
    pattern=$1 rc=0
    shift
    "$PENSTOCK" "$@" >out 2>err || rc=$?
    [ $rc = 2 ] && grep -q -e "$pattern" err || fail "$*: status $rc: $(cat err)"
}
shows runs/run <<END
wte.weight.m  *\[256,24\]
END
shows runs/run/plan.yaml <<END
1f1b, 2 ranks
END
sed 's/layers: 2, heads: 2/layers: 2800, heads: 1/; s/, micro_batch: 2/, micro_batch: 6/' run.yaml >deep.yaml
shows deep.yaml -n 2 -s plan <<END
micro_batches: 1 
END
shows run.yaml -n 2 -s memory <<END
rank 1 of 2
END
[ "$(grep -c '^rank 0' out)" = 1 ] || fail "rank 0 is there more than once"
shard=$(echo runs/run/checkpoints/step-*/rank-0-of-2.safetensors)
shows "$shard" <<END
wte.weight .* [0-9a-f]\{16\}$
END
grep -q xxh3 out && fail "hashes are shown apart from their tensors"

cp "$shard" good
printf 'damage' | dd of="$shard" bs=1 seek=$(($(wc -c <good) - 6)) conv=notrunc 2>err
refuses 'rank-0-of-2.safetensors: tensor .* is damaged: its hash is' inspect runs/run
grep -q '^wte.weight\|^  wte.weight' out || fail "a damaged checkpoint is not listed"
mv good "$shard"

"$PENSTOCK" convert runs/run hf || fail "convert"
shows hf <<END
2 layers, 2 heads, 24 channels, context 10, vocabulary 256, relu
transformer.wte.weight
END
"$PENSTOCK" convert runs/run hf2 && cmp hf/config.json hf2/config.json || fail "convert again"
refuses 'already exists; use --force' convert runs/run hf
"$PENSTOCK" convert runs/run hf --force || fail "convert --force"
refuses 'is not a run file' inspect hf -s plan
refuses 'is not a run file' inspect runs/run -n 2
refuses 'is not a run file' inspect runs/run/plan.yaml -s graph
# The graph of a run file, read again: the same text and tape, and what it costs: 2 x 20 x 24 x 24 x (3 + 1 + 4 + 4) FLOP of
# the linear layers of a block, and 2 x 20 x 24 x 256 of the head, in each pass.
for what in graph tape; do
    "$PENSTOCK" inspect run.yaml -n 1 -s $what >$what.txt || fail "inspect run.yaml -s $what"
    "$PENSTOCK" inspect graph.txt -s $what >again.txt || fail "inspect graph.txt -s $what"
    cmp $what.txt again.txt || fail "another $what is read than was written"
done
shows graph.txt <<END
micro-batches of 2, F32: 28 parameters with 20880 elements
reads       tokens \[2,10\], targets \[2,10\]
linear  *9  *0.79872  *0.79872  *0.79872
^all  *[0-9]
END
hash=$(sed -n 's/^hash  *\([0-9a-f]*\) .*/\1/p' out)
"$PENSTOCK" inspect run.yaml -n 1 -s plan | grep -q "graph_hash: .*$hash" || fail "the plan has another hash than $hash"
sed 's/features=72/features=73/' graph.txt >wrong.txt
refuses '^penstock: wrong.txt:[0-9]*: .*' inspect wrong.txt
refuses '--show .memory.: expected graph or tape' inspect graph.txt -s memory
refuses 'is not a run file' inspect graph.txt -n 2

head -c 3000 hf/model.safetensors >cut.safetensors
refuses 'truncated' generate cut.safetensors
exit $bad
