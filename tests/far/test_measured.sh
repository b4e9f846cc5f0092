#!/bin/sh
# test: label=quick timeout=60 isa=any
# Measuring on a device that the host cannot reach and that runs ahead (far_module.c): a profile of it is what its runs
# are predicted from, and no other device's; a traced step has its operators in order.
. "$(dirname "$0")/../script.sh"
use_far

write_measured 2 2 'device: far'
echo 'checkpoint: {every: 0}' >>run.yaml

"$PENSTOCK" profile run.yaml --seconds 0.05 -o p.yaml >out 2>err || fail "profile: $(cat err)"
for what in 'device: "far", model: "Distant 1"' 'linear F 2x16x32 w 96x32' 'linear W 2x16x32 w 96x32' 'work: step' 'work: norm'; do
    grep -q "$what" p.yaml || fail "no $what: $(cat p.yaml)"
done
"$PENSTOCK" profile run.yaml --seconds 0.05 --micro-batches 1 -o p.yaml >out 2>err || fail "more of it: $(cat err)"

# Every operator takes 0.1 s: so does what is predicted.
sed 's/ns: [0-9.e+]*/ns: 1e8/g' p.yaml >slow.yaml
"$PENSTOCK" train run.yaml -q --runs . name=slow log.trace=1 parallel.profile=slow.yaml 2>err || fail "train: $(cat err)"
ms=$(sed -n 's/.*"predicted_step_ms": *\([0-9]*\).*/\1/p' slow/metrics.jsonl | head -n 1)
[ "$ms" -gt 5000 ] || fail "predicted $ms ms from operators of 100 ms"
grep -q '"work_s":{.*"linear":[0-9.e-]*[1-9].*"optimizer"' slow/metrics.jsonl || fail "no work: $(cat slow/metrics.jsonl)"
tr '{' '\n' <slow/trace.json | sed -n 's/.*"cat": *"operator".*"ts": *\([0-9.]*\), *"dur": *\([0-9.]*\).*/\1 \2/p' >spans
awk '$1 + 0.01 < end { exit 1 } { end = $1 + $2; n++ } END { if (n < 60) exit 1 }' spans ||
    fail "operators overlap, or there are not 60: $(cat spans)"

refused() { # PATTERN KEY=VALUE...
    pattern=$1 rc=0
    shift
    "$PENSTOCK" train run.yaml -q parallel.profile=p.yaml "$@" 2>err || rc=$?
    [ $rc = 2 ] && grep -q "parallel.profile: p.yaml: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, $(cat err)"
}
# A GPU's is for the devices of its kind in a cluster.
sed 's/device: "far", model: "Distant 1"/device: "cuda", model: "NVIDIA H200"/' slow.yaml >h200.yaml
"$PENSTOCK" plan run.yaml parallel.device=cpu parallel.profile=h200.yaml train.micro_batch=2 --cluster '1x2 h200' --json \
    >plan 2>err || fail "plan: $(cat err)"
s=$(sed -n 's/.*"step_s": *\([0-9]*\).*/\1/p' plan | head -n 1)
[ "$s" -ge 2 ] || fail "planned $s s from operators of 0.1 s: $(cat plan err)"
for kind in h100 cpu; do
    rc=0
    "$PENSTOCK" plan run.yaml parallel.device=cpu parallel.profile=h200.yaml --cluster "1x2 $kind" >out 2>err || rc=$?
    [ $rc = 2 ] && grep -q "on device 'NVIDIA H200', which the cluster does not have" err || fail "$kind: status $rc, $(cat err)"
done

refused "measured with device 'far', not 'cpu'" parallel.device=cpu
FAR_MODEL="Distant 2"
export FAR_MODEL
refused "measured with device 'Distant 1', not 'Distant 2'"
exit $bad
