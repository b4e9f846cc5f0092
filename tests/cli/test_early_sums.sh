#!/bin/sh
# test: label=quick timeout=60
# Replicas exchange gradients between parts of the last pass: how many parts, and what is added between them, follows from
# the link and changes no bit.
. "$(dirname "$0")/../script.sh"

i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt

# run_file KEYS: of parallel
run_file() {
    cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 3, heads: 2, channels: 64, context: 16, vocabulary: 256}
data: {kind: text, paths: [text.txt], validation: 0}
train: {steps: 2, batch: 12, micro_batch: 1, warmup: 0, lr: 1.0e-3}
parallel: {transport: self, threads: 1, $1}
checkpoint: {every: 0}
END
}

# look NAME KEYS: parts of passes, and sums before the last of them, go to NAME.parts and NAME.sums
look() {
    name=$1
    run_file "$2"
    "$PENSTOCK" inspect --show instructions -n 4 run.yaml >"$name.list" || exit 1
    grep -c ' operators ' "$name.list" >"$name.parts"
    awk '/ operators / { n += held; held = 0 } $4 == "REDUCE" { held++ } $4 == "NORM" { held = 0 } END { print n + 0 }' \
        "$name.list" >"$name.sums"
}

hash_of() { sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' "$1/run/metrics.jsonl"; }

# same NAME KEYS: the same bits whatever the link
same() {
    way=$1
    for link in 1G 800G; do
        look "$way-$link" "cluster: \"4x1 cpu ethernet:${link}b/s\", $2"
        "$PENSTOCK" train run.yaml -q -n 4 --runs "$way-$link" || exit 1
        hash_of "$way-$link" >>"$way.hashes"
    done
    [ -s "$way.hashes" ] && [ "$(sort -u "$way.hashes" | wc -l)" = 1 ] || fail "$way: the link changes bits: $(cat "$way.hashes")"
    [ "$(cat "$way-1G.parts")" -gt 2 ] || fail "$way: no parts at 1 Gb/s"
    [ "$(cat "$way-1G.sums")" -gt 0 ] || fail "$way: nothing is added between parts at 1 Gb/s"
    cmp -s "$way-1G.list" "$way-800G.list" && fail "$way: the same list whatever the link"
}

same plain "data: 4"
same stages "data: 2, pipeline: 2"
same shared-out "data: 2, pipeline: 2, zero: 1"
same split "data: 2, pipeline: 2, schedule: zb-h1, recompute: selective"
same tensor "data: 2, tensor: 2, sequence: true"
same narrow "data: 4, gradients: bf16"

# without replicas, and where gradients leave otherwise, passes are whole
look alone "pipeline: 4"
look rounds "data: 4, zero: 2"
look exact "data: 2, pipeline: 2, reproducible: 4"
for way in alone rounds exact; do
    [ "$(cat $way.parts)" = 0 ] || fail "$way: parts"
done
# the pass of the last stage is whole: the first one waits for it
grep 'rank [23] .* operators ' stages-1G.list && fail "parts where another stage waits"
exit $bad
