#!/bin/sh
# test: label=quick timeout=60 isa=any
# On an asynchronous device (far_module.c) single operators are timed in the first three steps, every tenth and the one
# that is drawn; metrics and timeline have them there, and what fails elsewhere is said with its instruction.
. "$(dirname "$0")/../script.sh"
use_far
write_measured 8 12 'device: far, pipeline: 1'
echo 'checkpoint: {every: 0}' >>run.yaml
echo 'log: {trace: 6}' >>run.yaml
"$PENSTOCK" train run.yaml -q --runs . 2>err || fail "train: $(cat err)"
steps=$(sed -n 's/^{"step":\([0-9]*\),.*"work_s":{.*"linear":.*"optimizer":.*/\1/p' run/metrics.jsonl | tr '\n' ' ')
[ "$steps" = "1 2 3 6 10 " ] || fail "work_s in steps $steps"
[ "$(grep -c '"step_ms"' run/metrics.jsonl)" = 12 ] || fail "not all steps: $(cat run/metrics.jsonl)"
[ "$(grep -c '"cat": *"operator"' run/trace.json)" -ge 200 ] || fail "no operators in the timeline"
grep -q 'linear' run/report.html || fail "no work in the report"

# Each operator runs twice a step: the 9th time is in the fifth, in which 32 have an event together.
rc=0
FAR_FAIL=h.3.attn:F:9 "$PENSTOCK" train run.yaml -q --runs . 2>err || rc=$?
[ $rc = 5 ] && grep -q 'rank 0 F c0 m[01]: far: an illegal address' err || fail "failure: status $rc, $(cat err)"
rc=0
FAR_FAIL=h.3.attn:F:2 "$PENSTOCK" train run.yaml -q --runs . 2>err || rc=$?
[ $rc = 5 ] && grep -q 'rank 0 F c0 m1: h.3.attn, pass F: far: an illegal address' err || fail "failure: status $rc, $(cat err)"
exit $bad
