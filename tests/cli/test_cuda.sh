#!/bin/sh
# test: label=quick timeout=60
# A run that asks for a GPU where there is none, with the module and without it: status 2 and one line that says what is
# missing; doctor says the same, and everything else works.
. "$(dirname "$0")/../script.sh"
wrong() {
    echo "FAILED: $*"
    sed 's/^/    /' out err
    bad=1
}
module=$(dirname "$PENSTOCK")/libpenstock-cuda.so
printf 'model: {kind: mlp, preset: tiny}\ndata: {paths: text}\ntrain: {steps: 1}\n' >run.yaml
yes 'some text to learn from' | head -n 2000 >text

# refused WHAT TEXT COMMAND...: status 2, one line that says it, and doctor gives it as the reason, too.
refused() {
    what=$1 text=$2
    shift 2
    rc=0
    "$@" "$PENSTOCK" train run.yaml parallel.device=cuda >out 2>err || rc=$?
    [ $rc = 2 ] || wrong "$what: status $rc, expected 2"
    [ "$(wc -l <err)" = 1 ] && grep -q "^penstock: device cuda: .*$text" err || wrong "$what: not said in one line: $text"
    [ ! -e runs ] || wrong "$what: a run was begun"
    "$@" "$PENSTOCK" doctor >out 2>err || true
    sed -n '/^missing, not needed/,$p' out | grep -q "^  CUDA .*$text" || wrong "$what: not among what is missing: $text"
}

refused 'no such file' 'there is no /nosuch/module.so\|cannot open shared object' env PENSTOCK_MODULE=/nosuch/module.so
printf 'no library' >module.so
refused 'not a library' 'module.so' env PENSTOCK_MODULE="$PWD/module.so"
rc=0
"$PENSTOCK" train run.yaml parallel.device=cpu parallel.transport=nccl >out 2>err || rc=$?
[ $rc = 2 ] && grep -q '^penstock: transport nccl needs a GPU, but device cpu is not a GPU' err || wrong "nccl: status $rc"
[ -e "$module" ] || exit $bad
[ ! -e /dev/nvidiactl ] || exit $bad # the rest: where there is no driver
refused 'no driver' 'no NVIDIA driver is installed; the module uses CUDA [0-9]*, which needs driver [0-9]* or later' env
"$PENSTOCK" doctor >out 2>err || true
grep -q '^cuda  *driver none, runtime [0-9.]*, cuBLASLt [0-9.]*, cuDNN [0-9.]*, NCCL .*$' out || wrong 'no versions of its libraries'
"$PENSTOCK" train run.yaml >out 2>err || wrong "device auto: status $?"
exit $bad
