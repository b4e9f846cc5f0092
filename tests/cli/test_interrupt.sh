#!/bin/sh
# test: label=quick timeout=60
# penstock profile that is interrupted ends at once, as an interrupted program does, and leaves nothing behind.
. "$(dirname "$0")/../script.sh"

cat >run.yaml <<'END'
model: {kind: gpt, layers: 12, heads: 8, channels: 1024, context: 512}
data: {paths: [nowhere.txt]}
train: {steps: 1, batch: 16, micro_batch: 16}
END
mkdir tmp
# interrupted SIGNAL STATUS: after a second of several
interrupted() {
    rc=0
    TMPDIR=$PWD/tmp timeout --preserve-status -k 30 -s "$1" 1 "$PENSTOCK" profile run.yaml -o profile.yaml >out 2>err || rc=$?
    [ $rc = "$2" ] || fail "$1: status $rc, expected $2: $(cat out err)"
    [ ! -s out ] && [ ! -s err ] || fail "$1: $(cat out err)"
    [ "$(ls)" = "$(printf 'err\nout\nrun.yaml\ntmp')" ] && [ -z "$(ls tmp)" ] || fail "$1 leaves: $(ls . tmp)"
}
interrupted INT 130
interrupted TERM 143

exit $bad
