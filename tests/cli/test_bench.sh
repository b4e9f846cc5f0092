#!/bin/sh
# test: label=quick timeout=60
# What `penstock bench` prints, as text and as JSON, on the smallest model; no speeds are asserted.
. "$(dirname "$0")/../script.sh"
bench() { "$PENSTOCK" bench kernels --preset nano -B 1 -T 8 --threads 1 --precision fp32 "$@" </dev/null; }

bench --op layer_norm >text || fail "status $?"
[ "$(grep -c '^layer_norm' text)" = 3 ] || fail "F, B and W of layer_norm: $(cat text)"
grep -q 'FMA peak' text || fail "no peak: $(cat text)"
[ -n "${PST_SANITIZE:-}" ] || bench --op add --json >json || fail "--json: status $?"
[ -n "${PST_SANITIZE:-}" ] ||
    for key in '"kernels"' '"peak_flops"' '"bandwidth_bytes_per_s"' '"roofline"' '"share"' \
        '"op": "add"' '"pass": "F"'; do
    grep -q "$key" json || fail "no $key in the JSON"
done

"$PENSTOCK" bench step --preset nano -B 1 -T 8 --threads 1 --precision fp32 >text 2>err </dev/null ||
    fail "step: status $?: $(cat err)"
number='[0-9][0-9.]*'
grep -q "^fp32: $number ms per step ($number to $number in $number steps), predicted $number ms; $number tokens/s; $number TFLOP/s, $number % of $number TFLOP/s (measured, FMA); memory \($number\) MiB, predicted \1 MiB\$" text ||
    fail "step: $(cat text)"

"$PENSTOCK" bench generate --preset nano -T 40 --json >json || fail "generate: status $?"
grep -q '"tokens": 39' json && grep -q '"of_bound": [0-9]' json || fail "generate --json: $(cat json)"
"$PENSTOCK" bench generate --preset nano -T 40 --threads 1 >text || fail "generate: status $?"
grep -q '^generate: nano, fp32, 1 threads\{0,1\}: .* % of the bound of ' text || fail "generate: $(cat text)"
"$PENSTOCK" bench p2p --bytes 65536 --seconds 0.01 >text 2>err </dev/null || fail "p2p: status $?: $(cat err)"
grep -q '^ *65536  *[0-9.]*  *[0-9.]*  *[0-9.]*$' text || fail "p2p: $(cat text)"
"$PENSTOCK" bench p2p --bytes 8 --compute 0.1 --seconds 0.01 --json >json </dev/null || fail "p2p --json: status $?"
grep -q '"gb_per_s"' json && grep -q '"compute_ms": 0.1' json || fail "p2p --json: $(cat json)"

"$PENSTOCK" bench collectives --collective all-reduce --bytes 65536 --seconds 0.01 >text 2>err </dev/null ||
    fail "collectives: status $?: $(cat err)"
grep -q '^all-reduce  *65536  shared .*direct .*(all ranks are on one host)$' text || fail "collectives: $(cat text)"
"$PENSTOCK" bench collectives --collective broadcast --bytes 8 --seconds 0.01 -n 3 --json >json </dev/null ||
    fail "collectives --json: status $?"
grep -q '"modelled_us"' json && grep -q '"ranks": 3' json || fail "collectives --json: $(cat json)"

refused() { # PATTERN ARGUMENT...
    pattern=$1 rc=0
    shift
    "$PENSTOCK" bench "$@" >/dev/null 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "$pattern" err && [ "$(wc -l <err)" = 1 ] || fail "bench $*: status $rc, $(cat err)"
}
refused "did you mean 'kernels'" kernals
refused "expected fp32, tf32, bf16, fp16, fp8 or both" --precision fp4
refused "--precision fp8: only GPUs support matrix products" kernels --preset nano --precision fp8
refused "did you mean 'all-reduce'" collectives --collective all-redcue
refused "nanno" kernels --preset nanno
refused "--op convolution: the model has no such operator" kernels --preset nano -B 1 -T 8 --op convolution
refused "nosuch.yaml" kernels --run nosuch.yaml
exit $bad
