#!/bin/sh
# test: label=full timeout=120 isa=any
# penstock bench kernels on a device that the host cannot reach (far_module.c): every pass and the optimizer have a row, by
# the device's clock, beside peaks that were measured there; no speeds are asserted.
. "$(dirname "$0")/../script.sh"
use_far
bench() { "$PENSTOCK" bench kernels --preset nano -B 1 -T 8 --threads 1 --precision fp32 "$@" </dev/null; }

bench --device far >text 2>err || fail "status $?: $(cat err)"
for what in '^kernels: nano, far Distant 1, the device.s clock' '^fp32: large matrix product [0-9.]* GFLOP/s; large copy' \
    '^linear .* F ' '^linear .* B ' '^linear .* W ' '^attention .* B ' '^embedding .* W ' '^adamw ' '^norm ' '^pack ' '^unpack-2bit '; do
    grep -q "$what" text || fail "no row $what: $(cat text)"
done
awk '/^[a-z_]+ .* [FBW-] +[0-9]+ / { n++; for (i = 1; i <= NF; i++) if ($i ~ /nan|inf/) exit 1 } END { if (n < 20) exit 1 }' text ||
    fail "rows: $(cat text)"

# What could be chosen for each product, which this device makes up: the first takes twice as long as the fastest.
grep -q '^Distant 1: 384x128 .* 1\.0000 *7 *50\.0 *80\.0$' text || fail "choices: $(cat text)"
grep -q '^lowest rate of all products: 50.0 % with parallel.products=library, 79.[0-9] % with measured$' text || fail "choices: $(cat text)"

bench --device far --op layer_norm --json >json 2>err || fail "--json: status $?: $(cat err)"
for what in '"device": "far"' '"device_model": "Distant 1"' '"peak_flops"' '"bandwidth_bytes_per_s"' '"op": "layer_norm"'; do
    grep -q "$what" json || fail "no $what: $(cat json)"
done
grep -q '"op": "linear"' json && fail "an operator that was not asked for: $(cat json)"

# Whole steps, of a run file's model: what its layout says is left out.
cat >run.yaml <<END2
model: {kind: gpt, preset: nano, context: 8}
data: {paths: [none]}
train: {batch: 4, micro_batch: 1}
parallel: {pipeline: 2, data: 2, schedule: zb-h1, throttle: [1, 2, 1, 1]}
END2
FAR_MODEL='NVIDIA H200' "$PENSTOCK" bench step --run run.yaml --device far --precision fp32 --threads 1 --json >json 2>err ||
    fail "step: status $?: $(cat err)"
for what in '"device": "far"' '"device_model": "NVIDIA H200"' '"micro_batch": 1' '"steps": [1-9]' '"peak_flops": 6.7e13' \
    '"peak_from": "datasheet of H200"' '"product_flops": [1-9]' '"of_peak": [0-9.e-]*[1-9]'; do
    grep -q "$what" json || fail "step: no $what: $(cat json)"
done
[ "$(sed -n 's/.*"peak_bytes": //p' json)" = "$(sed -n 's/.*"predicted_peak_bytes": \([0-9]*\).*/\1,/p' json)" ] ||
    fail "step: memory: $(cat json)"

refused() { # PATTERN ARGUMENT...
    pattern=$1 rc=0
    shift
    bench "$@" >/dev/null 2>err || rc=$?
    [ $rc = 2 ] && grep -q -e "$pattern" err && [ "$(wc -l <err)" = 1 ] || fail "bench $*: status $rc, $(cat err)"
}
refused "unknown device 'farr'" --device farr
refused "computes nothing" --device timed
refused "--op convolution: the model has no such operator" --device far --op convolution
exit $bad
