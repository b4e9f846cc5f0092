#!/bin/sh
# A script test that has failed ends with status 1, also if it forgets `exit $bad`, or is skipped later.
. "$(dirname "$0")/../script.sh"
# ends STATUS LINE...: what a script of these lines ends with
ends() {
    expected=$1 rc=0
    shift
    printf '%s\n' ". '$SOURCE_DIR/tests/script.sh'" "$@" >test.sh
    sh test.sh >out 2>&1 || rc=$?
    [ $rc = "$expected" ] || fail "status $rc, expected $expected: $(cat test.sh out)"
}
ends 0 'echo good'
ends 0 'exit $bad'
ends 1 'fail here' 'echo more'
ends 1 'fail here' 'skip there'
ends 1 'fail here' 'exit $bad'
ends 77 'skip there'
exit $bad
