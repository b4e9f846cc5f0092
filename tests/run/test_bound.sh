#!/bin/sh
# test: label=full timeout=120 isa=any
# Ranks that a launcher has bound to processors of their own do not take turns, and may use a profile of the machine;
# ranks that it has put on the same ones do. By taskset, and by mpirun where there is one.
. "$(dirname "$0")/../script.sh"
write_run 2
command -v taskset >/dev/null 2>&1 || { echo 'skipped: no taskset'; exit 77; }
cpus=$(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
# shellcheck disable=SC2086
set -- $cpus
[ $# -ge 2 ] || { echo 'skipped: one processor'; exit 77; }
first=$1 second=$2
"$PENSTOCK" profile run.yaml -n 2 --seconds 0.1 -o profile.yaml parallel.threads=1 >/dev/null || fail 'no profile'
export PENSTOCK_SECRET=0123456789abcdef
port=$((20000 + $$ % 10000))

# bound CPUS0 CPUS1 ARGUMENT...: a rank on each; their output in 0.log and 1.log, status in rc
bound() {
    port=$((port + 1))
    zero=$1 one=$2
    shift 2
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 taskset -c "$one" \
        "$PENSTOCK" train run.yaml "$@" >1.log 2>&1 &
    job=$!
    rc=0
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 taskset -c "$zero" \
        "$PENSTOCK" train run.yaml "$@" >0.log 2>&1 || rc=$?
    wait $job || rc=$?
    [ $rc = 0 ] || fail "ranks on $zero and $one: status $rc: $(cat 0.log 1.log)"
    grep -q '2 ranks of 1 thread' 0.log || fail "ranks on $zero and $one have other threads: $(cat 0.log)"
}
alone() { ! grep -q '^oversubscribed' "$1" || fail "$2 take no turns: $(cat "$1")"; }

bound "$first" "$second" parallel.profile=profile.yaml
alone 0.log 'ranks on two processors'
bound "$first" "$first,$second"
alone 0.log 'two ranks on two processors together'
bound "$first" "$first"
grep -q '^oversubscribed: *2 ranks of 1 thread share 1 processor ' 0.log || fail "two ranks on one: $(cat 0.log)"

command -v mpirun >/dev/null 2>&1 || exit $bad
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for option in '' '--bind-to none' '--bind-to core' '--bind-to socket'; do
    # shellcheck disable=SC2086
    timeout 60 mpirun -n 2 $option "$PENSTOCK" train run.yaml parallel.profile=profile.yaml >log 2>&1 ||
        fail "mpirun $option: status $?: $(cat log)"
    alone log "mpirun $option: ranks"
done
timeout 60 mpirun -n 2 --bind-to none taskset -c "$first" "$PENSTOCK" train run.yaml >log 2>&1 ||
    fail "mpirun: $(cat log)"
grep -q '^oversubscribed: *2 ranks of 1 thread share 1 processor ' log || fail "mpirun on one processor: $(cat log)"
exit $bad
