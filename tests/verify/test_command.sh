#!/bin/sh
# test: timeout=120
# `penstock verify`: all checks pass on a clean layout, also as JSON, and wrong input is refused with one line.
. "$(dirname "$0")/../script.sh"
write_run 2

# passes CHECKS ARGUMENT...: so many checks, all passed
passes() {
    checks=$1
    shift
    rc=0
    "$PENSTOCK" verify run.yaml "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 0 ] && [ "$(grep -c '^passed ' out)" = "$checks" ] && tail -n 1 out | grep -q "^verified: " ||
        fail "verify $*: status $rc, expected 0 and $checks checks: $(cat out err)"
}

passes 12 -n 4 parallel.tensor=2 parallel.recompute=selective model.dropout=0.1 elastic.min=1

"$PENSTOCK" verify run.yaml -n 2 --json >out 2>err || fail "verify --json: $(cat out err)"
grep -q '"verify": "passed"' out || fail "no result in JSON: $(cat out)"

"$PENSTOCK" verify run.yaml -n 2 parallel.memory=300KiB >out 2>err && fail "more memory than parallel.memory: $(cat out)"
grep -q "^failed  instruction lists" out && grep -q "rank 0 needs .* but the limit is 300.0 KiB" out ||
    fail "the limit of parallel.memory is not named: $(cat out err)"

# refuses PATTERN ARGUMENT...: status 2 and one line that matches
refuses() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" verify "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "verify $*: status $rc, expected 2 and '$pattern': $(cat out err)"
}

refuses "missing.yaml" missing.yaml
refuses "nowhere.txt" run.yaml data.paths=nowhere.txt
refuses "parallel.plan auto" run.yaml parallel.plan=auto
refuses "M parameters" run.yaml model.channels=8192 model.heads=8
refuses "timed" run.yaml parallel.device=timed
mkdir there
refuses "exists already" run.yaml --keep there
exit $bad
