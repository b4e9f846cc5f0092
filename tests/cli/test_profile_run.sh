#!/bin/sh
# test: label=full isa=any timeout=120
# profile: what it measures, a run predicts from; a profile of another model or machine is refused by name.
. "$(dirname "$0")/../script.sh"

# expect STATUS PATTERN ARGUMENT...: exit status, and one line on stderr that matches
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$PENSTOCK" "$@" >out 2>err </dev/null || rc=$?
    [ $rc = "$status" ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, expected $status and '$pattern': $(cat err)"
}
write_measured 2 2 'pipeline: 2'
echo 'checkpoint: {every: 0}' >>run.yaml
expect 2 "--micro-batches '0': expected up to" profile run.yaml --micro-batches 0 -o p.yaml
expect 2 "expected up to" profile run.yaml --tensor 1,,2 -o p.yaml
"$PENSTOCK" profile run.yaml --seconds 0.05 -o p.yaml >out 2>err || fail "profile: $(cat err)"
grep -q 'linear F 2x16x32 w 96x32' p.yaml && grep -q 'work: step' p.yaml || fail "profile: $(cat p.yaml)"
"$PENSTOCK" profile run.yaml --seconds 0.05 --micro-batches 1 --tensor 1,2 -o p.yaml >out 2>err || fail "more: $(cat err)"
grep -q 'linear F 2x16x32 w 96x32' p.yaml && grep -q 'linear F 1x16x32 w 48x32' p.yaml &&
    { [ "$(nproc)" -lt 2 ] || grep -q 'parts: 2' p.yaml; } || fail "more: $(cat p.yaml)"
[ -d runs ] && fail "profile has left a run"

# Every operator a thousand times as long: so is the prediction.
sed 's/ns: [0-9.e+]*/ns: 1e8/g' p.yaml >slow.yaml
for p in p slow; do
    "$PENSTOCK" train run.yaml -q --runs . name=$p parallel.profile=$p.yaml 2>err || fail "train: $(cat err)"
    sed -n 's/.*"predicted_step_ms": *\([0-9]*\).*/\1/p' $p/metrics.jsonl | head -n 1 >$p.ms
done
[ "$(cat slow.ms)" -gt 5000 ] && [ "$(cat slow.ms)" -gt $((20 * $(cat p.ms))) ] ||
    fail "predicted $(cat p.ms) ms, and $(cat slow.ms) ms from slow operators"
expect 2 "parallel.profile: p.yaml: .*measured with precision 'fp32', not 'fp16'.*profile_force" train run.yaml -q parallel.profile=p.yaml train.precision=fp16
expect 2 "the profile is of another model: .*linear F 2x" train run.yaml -q parallel.profile=p.yaml model.channels=64
"$PENSTOCK" train run.yaml -q name=larger parallel.profile=p.yaml train.micro_batch=4 2>err || fail "micro_batch 4: $(cat err)"
[ -s err ] && fail "a micro-batch that was not measured is reckoned from others, but was warned of: $(cat err)"
sed 's/cpu: "[^"]*"/cpu: "Z80"/' p.yaml >z80.yaml
expect 2 "measured with processor 'Z80'" train run.yaml -q parallel.profile=z80.yaml
# sizes that the weights give
"$PENSTOCK" train run.yaml -q name=weights train.steps=1 2>err && "$PENSTOCK" convert runs/weights hf || fail "weights: $(cat err)"
sed 's/^model: .*/model: {kind: gpt, weights: hf}/' run.yaml >from.yaml
"$PENSTOCK" profile from.yaml --seconds 0.05 -o from-p.yaml >out 2>err || fail "model.weights: $(cat err)"
grep -q 'linear F 2x16x32 w 96x32' from-p.yaml || fail "model.weights: $(cat from-p.yaml)"
"$PENSTOCK" train run.yaml -q name=forced parallel.profile=z80.yaml parallel.profile_force=true 2>err || fail "forced: $(cat err)"
exit $bad
