#!/bin/sh
# test: label=quick timeout=60
# What `penstock bench` prints, as text and as JSON, on the smallest model; no speeds are asserted.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}
bench() { "$PENSTOCK" bench kernels --preset nano -B 1 -T 8 --threads 1 --precision fp32 "$@" </dev/null; }

bench --op layer_norm >text || fail "status $?"
[ "$(grep -c '^layer_norm' text)" = 3 ] || fail "F, B and W of layer_norm: $(cat text)"
grep -q 'FMA peak' text || fail "no peak: $(cat text)"
bench --op add --json >json || fail "--json: status $?"
for key in '"kernels"' '"peak_flops"' '"bandwidth_bytes_per_s"' '"roofline"' '"share"' '"op": "add"' '"pass": "F"'; do
    grep -q "$key" json || fail "no $key in the JSON"
done

refused() { # PATTERN ARGUMENT...
    pattern=$1 rc=0
    shift
    "$PENSTOCK" bench "$@" >/dev/null 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q "$pattern" err && [ "$(wc -l <err)" = 1 ] || fail "bench $*: status $rc, $(cat err)"
}
refused "did you mean 'kernels'" kernel
refused "expected fp32, bf16 or both" --precision fp16
refused "nanno" kernels --preset nanno
refused "no operator 'convolution'" kernels --preset nano -B 1 -T 8 --op convolution
refused "nosuch.yaml" kernels --run nosuch.yaml
exit $bad
