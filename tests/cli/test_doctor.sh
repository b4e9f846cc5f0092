#!/bin/sh
# test: label=quick timeout=60
# doctor on machines that lack something: it says what, what for, and what would mend it; status 4 when training needs
# it.
. "$(dirname "$0")/../script.sh"
wrong() {
    echo "FAILED: $*"
    sed 's/^/    /' out err
    bad=1
}

# lacks STATUS WHAT FIX COMMAND...: WHAT is missing, FIX stands in the line below it.
lacks() {
    status=$1 what=$2 fix=$3
    shift 3
    rc=0
    "$@" >out 2>err || rc=$?
    [ $rc = "$status" ] || wrong "$what: status $rc, expected $status"
    sed -n '/^missing/,$p' out | grep -A 1 "^  $what " | grep -q -e "-> .*$fix" ||
        wrong "$what is not missing, to be mended by $fix"
    [ "$status" = 0 ] || grep -q "^penstock: missing, but needed for training: .*$what" err ||
        wrong "$what: not the reason"
}

rc=0
"$PENSTOCK" doctor --json >out 2>err || rc=$?
healthy=$rc
[ $rc = 0 ] || [ $rc = 4 ] || wrong "status $rc"
for key in what there detail for fix level; do grep -q "\"$key\": " out || wrong "no $key in the JSON"; done
lacks 4 'open files' 'ulimit -n' sh -c 'ulimit -n 64; exec "$PENSTOCK" doctor'
grep -q '^  open files .*limit 64 open files$' out || wrong "a limit without its unit"
! grep -q ' 1 packages' out || wrong "1 packages"
lacks 4 'temporary folder' TMPDIR env TMPDIR="$folder/nosuch" "$PENSTOCK" doctor
[ $healthy = 0 ] || exit $bad # the rest: on a machine that lacks nothing

lacks 0 mpirun 'apt-get install openmpi-bin' env PATH=/nosuch "$PENSTOCK" doctor
lacks 0 'UCX TCP' 'unset UCX_TLS' env UCX_TLS=self,posix "$PENSTOCK" doctor
UCX_TLS='' "$PENSTOCK" doctor >out 2>err || wrong "an empty UCX_TLS: status $?"
grep -q '^  UCX TCP .* tcp/' out || wrong "an empty UCX_TLS takes TCP away"
lacks 0 'writable folder' '--runs' sh -c 'cd /proc && exec "$PENSTOCK" doctor'
if [ "$(id -u)" = 0 ]; then isolate="unshare -m --propagation private"; else isolate="unshare -rm"; fi
if [ -z "${PST_SANITIZE:-}" ] && $isolate mount -t tmpfs none /mnt 2>/dev/null; then
    lacks 4 'shared memory' '/dev/shm' $isolate sh -c 'mount -t tmpfs -o ro none /dev/shm && exec "$PENSTOCK" doctor'
    lacks 4 'shared memory' '--shm-size' $isolate \
        sh -c 'mount -t tmpfs -o size=1m none /dev/shm && exec "$PENSTOCK" doctor'
    lacks 4 '/proc' 'mount -t proc' $isolate sh -c 'mount -t tmpfs none /proc && exec "$PENSTOCK" doctor'
    printf 'model: {kind: mlp, preset: tiny}\ndata: {paths: text}\ntrain: {steps: 1}\n' >run.yaml
    yes 'some text to learn from' | head -n 2000 >text
    rc=0
    $isolate sh -c 'mount -t tmpfs none /proc && exec "$PENSTOCK" train run.yaml -n 2' >out 2>err || rc=$?
    [ $rc = 4 ] && grep -q '^penstock: .*/proc' err || wrong "training without /proc: status $rc"
fi

# this machine as a cluster, which is then read
"$PENSTOCK" doctor --cluster-out here.yaml >out 2>err || wrong "--cluster-out: status $?"
cat >run.yaml <<END
name: run
model: {kind: mlp, layers: 2, channels: 8, vocabulary: 256, context: 4}
data: {kind: text, paths: [here.yaml]}
parallel: {cluster: here.yaml}
END
"$PENSTOCK" inspect run.yaml >out 2>err || wrong "its own cluster is refused"
grep -q 'kind: cpu' here.yaml && [ -s out ] || wrong "--cluster-out: $(cat here.yaml)"
exit $bad
