#!/bin/sh
# test: label=full timeout=180
# `penstock verify`: layouts with and without equal bits, files of --save and --against, folders of --keep.
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

passes 11 -n 2 parallel.data=2 parallel.zero=2 train.micro_batch=1
grep -q "not promised: parallel.zero 2" out || fail "zero 2 is not said to be without a promise: $(cat out)"
passes 11 -n 2 parallel.data=2 parallel.gradients=bf16 train.micro_batch=1
grep -q "tolerance 1e-04 of the largest element, of sums of gradients 8e-03:" out || fail "no tolerance of bf16: $(cat out)"
for codec in 2bit topk; do
    passes 11 -n 2 parallel.data=2 parallel.compress.up=$codec parallel.compress.links=all parallel.compress.min_bytes=0
done
passes 11 -n 2 parallel.data=2 train.micro_batch=1 'parallel.replicas=[4, 4]'
grep -q "^passed  as configured, against one rank *bitwise equal" out || fail "equal replicas without equal bits: $(cat out)"
passes 11 -n 2 parallel.data=2 train.micro_batch=1 'parallel.replicas=[3, 5]'
grep -q "not promised: replicas have unequal numbers" out || fail "no reason for unequal replicas: $(cat out)"
passes 12 -n 4 parallel.tensor=2 parallel.recompute=selective model.dropout=0.1

# refuses PATTERN ARGUMENT...: status 2 and one line that matches
refuses() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" verify "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "verify $*: status $rc, expected 2 and '$pattern': $(cat out err)"
}

passes 11 -n 2 --save reference
passes 12 -n 2 parallel.data=1 --against reference
grep -q "against the file *bitwise equal" out || fail "bits of the file are not expected: $(cat out)"
refuses "reference is from a different run: it has train.lr: 0.0003, this run has train.lr: 0.01" run.yaml lr=0.01 --against reference
refuses "reference is from a different run: it has model.channels: 32" run.yaml model.channels=64 --against reference
refuses "has parallel.reproducible.tensor: 0, this run has parallel.reproducible.tensor: 2" \
    run.yaml parallel.reproducible.tensor=2 --against reference
refuses "it has model.layers: 2, this run has model.layers: 4 (after shrinking)" \
    run.yaml -n 4 model.layers=8 --against reference
echo "other data, as long as a context of sixteen bytes and more" >other.txt
refuses "it has hash of the data: [0-9a-f]*, this run has hash of the data: [0-9a-f]*$" \
    run.yaml data.paths=other.txt --against reference
refuses "no/such/file" run.yaml --save no/such/file
refuses "this is a folder" run.yaml --save .
refuses "is not a reference file" run.yaml --against text.txt
head -c 60000 reference >short
refuses "short is damaged" run.yaml --against short
"$PENSTOCK" verify run.yaml -n 2 --keep runs >out 2>err || fail "--keep: $(cat out err)"
[ -s runs/configured/record/rank-1.record ] || fail "--keep kept nothing: $(ls -R runs)"

# A disk on which nothing can be written: the reason, and the status of other full disks.
rc=0
said=$([ -z "${PST_SANITIZE:-}" ] || trap '' XFSZ; ulimit -f 0 && exec "$PENSTOCK" verify run.yaml 2>&1 >/dev/null </dev/null) || rc=$?
[ $rc = 4 ] && echo "$said" | grep -q "^penstock: the run (one rank) ended with status 4: cannot write to .*: File too large$" ||
    fail "full disk: status $rc, expected 4 and its reason: $said"

# Ended by a signal, it leaves nothing behind.
mkdir temporary
TMPDIR=$PWD/temporary timeout -s TERM 0.7 "$PENSTOCK" verify run.yaml train.steps=4 model.channels=256 >out 2>err
[ -z "$(ls temporary)" ] || fail "a signal left $(ls temporary)"
exit $bad
