#!/bin/sh
# test: label=full timeout=120 isa=any
# An elastic run gets another rank, and loses one on request (penstock resize, drain): the same weights as undisturbed;
# what is impossible is refused, and the run goes on.
. "$(dirname "$0")/../script.sh"
write_measured 3 150 ""
steps="train.batch=64 checkpoint.every=0"
"$PENSTOCK" train run.yaml -q -n 2 --runs ref $steps || fail "undisturbed"
expected=$(sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' ref/run/metrics.jsonl)

# refused PATTERN COMMAND ARGUMENT...
refused() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, expected 2 and '$pattern': $(cat out err)"
}

# changed FROM TO COMMAND ARGUMENT...
changed() {
    line="^$1 -> $2 ranks* at step [0-9]*; the change took [0-9.]* s (predicted [0-9.]*)\$"
    shift 2
    "$PENSTOCK" "$@" >out 2>err </dev/null || fail "$*: $(cat err log)"
    grep -q "$line" out || fail "$*: $(cat out)"
}

refused "cannot find the folder" resize nowhere -n 2
refused "expected the folder of a run" resize ref -n 2
refused "not running on this host" resize ref/run -n 3
refused "n is missing" resize ref/run
"$PENSTOCK" train run.yaml -n 2 --elastic=1:4 $steps >log 2>&1 </dev/null &
run=$!
until grep -q '"step":3,' runs/run/metrics.jsonl 2>/dev/null; do sleep 0.01; done
changed 2 3 resize runs/run -n 3
changed 3 2 drain runs/run 0
refused "expected 1 (elastic.min) to 4 (elastic.max) ranks" resize runs/run -n 5
refused "expected a rank, 0 to 1; a host of a run on several hosts leaves" drain runs/run host0
wait $run || fail "status $?: $(cat log)"
got=$(sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' runs/run/metrics.jsonl)
[ -n "$got" ] && [ "$got" = "$expected" ] || fail "weights $got, expected $expected: $(cat log)"
[ "$(grep -c '"event":"resize"' runs/run/metrics.jsonl)" = 2 ] || fail "events: $(grep event runs/run/metrics.jsonl)"
[ "$(grep -c '^{"step"' runs/run/metrics.jsonl)" = 150 ] || fail "not each step once"
[ "$(ls -A runs/run/checkpoints)" = step-00000150 ] || fail "left: $(ls -A runs/run/checkpoints)"
grep -q 'id="members"' runs/run/report.html && grep -q '>2 to 3 ranks over' runs/run/report.html ||
    fail "the report has no members"
grep -q resumed runs/run/report.html && fail "a change of ranks is shown as a resumed run"
grep -q '"event":"end".*"lost_seconds":{"start":[0-9.]*,"recovery":0.0,"resize":0*[.0-9]*[1-9]' runs/run/metrics.jsonl ||
    fail "no time lost: $(tail -n 1 runs/run/metrics.jsonl)"
exit $bad
