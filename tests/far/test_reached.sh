#!/bin/sh
# test: label=full timeout=120 isa=any
# Messages of a device whose memory UCX says that it reaches (ucx_reaches.c; far_module.c with memory at addresses that are
# some): straight from there, when it does so on all ranks, else through the host's, with the same bits; the run says which.
. "$(dirname "$0")/../script.sh"
build=$(dirname "$PENSTOCK")
[ -z "${PST_SANITIZE:-}" ] || skip "a sanitizer's library wants to be loaded first"
export PENSTOCK_MODULE="$build/libpst-far.so" FAR_NEAR=1
[ -e "$PENSTOCK_MODULE" ] || fail "there is no $PENSTOCK_MODULE"
cat >run.yaml <<'END'
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 3, batch: 8, micro_batch: 2}
parallel: {threads: 1, pipeline: 2}
checkpoint: {every: 0}
END
for i in $(seq 60); do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }

train() { # NAME KEY=VALUE...
    name=$1
    shift
    "$PENSTOCK" train run.yaml --runs . -n 2 name="$name" "$@" </dev/null >"$name.out" 2>&1 || fail "$name: $(cat "$name.out")"
    [ "$(hash_of "$name")" = "$want" ] || fail "$name: weights '$(hash_of "$name")', not '$want'"
}
"$PENSTOCK" train run.yaml -q --runs . -n 2 name=cpu parallel.device=cpu </dev/null 2>err || fail "cpu: $(cat err)"
want=$(hash_of cpu)
[ -n "$want" ] || fail "no weights: $(cat cpu/metrics.jsonl)"

train staged parallel.device=far
grep -q '^messages:  through pinned host memory$' staged.out || fail "staged: $(cat staged.out)"
LD_PRELOAD="$build/libpst-reaches.so"
export LD_PRELOAD
train reached parallel.device=far
grep -q '^messages:  directly from device memory (far)$' reached.out || fail "reached: $(cat reached.out)"
train self parallel.device=far parallel.transport=self
grep -q '^messages:' self.out && fail "self: $(cat self.out)"

# One rank's UCX cannot: all go through the host.
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) PENSTOCK_SECRET=0123456789abcdef
set -- train run.yaml --runs . name=one parallel.device=far
LD_PRELOAD='' RANK=1 timeout 50 "$PENSTOCK" "$@" >1.log 2>&1 &
RANK=0 timeout 50 "$PENSTOCK" "$@" >0.log 2>&1 || fail "one of two: $(cat 0.log 1.log)"
wait $!
grep -q '^messages:  through pinned host memory' 0.log && [ "$(hash_of one)" = "$want" ] || fail "one of two: $(cat 0.log 1.log)"
exit $bad
