#!/bin/sh
# test: label=full timeout=120 isa=any
# Where a limit of the system (ulimit, /dev/shm) is too small, the program ends at once with status 4 and one line that
# names it; what the hard limit allows is raised. Without, libraries hang, abort or are said to be missing.
. "$(dirname "$0")/../script.sh"
write_run 2
chmod 755 .
user=''
if [ "$(id -u)" = 0 ]; then
    # A user of this test alone: the limit counts all processes of a user.
    as_nobody="setpriv --reuid=$((1000000 + $$)) --regid=65534 --clear-groups"
    $as_nobody "$PENSTOCK" --version >/dev/null 2>&1 && user=$as_nobody
else
    user='env'
fi

# dash has another letter for processes
set_limit() {
    case $1 in
    -u*) echo "ulimit $1 2>/dev/null || ulimit -p${1#-u}" ;;
    *) echo "ulimit $1" ;;
    esac
}

# short ULIMIT-ARGUMENTS LINE ARGUMENT...: the only line on stderr matches LINE
short() {
    limit=$1 line=$2 rc=0
    shift 2
    timeout 20 ${as:-} sh -c "$(set_limit "$limit"); exec \"\$@\"" sh "$PENSTOCK" "$@" >out 2>err || rc=$?
    [ $rc = 4 ] && [ "$(wc -l <err)" = 1 ] && grep -q "^penstock: $line" err ||
        fail "ulimit $limit: $*: status $rc, not 4 and '$line': $(cat err)"
}

for n in 8 12 15 20 32; do
    short "-n $n" "open files: the limit (ulimit -n) is $n, this .* needs .*; raise it: ulimit -n " train run.yaml -n 2
done
for n in 8 15; do short "-n $n" "open files: the limit (ulimit -n) is $n, " train run.yaml -n 1; done
for command in 'plan run.yaml' doctor; do
    # shellcheck disable=SC2086
    short '-n 8' 'open files: ' $command
done
short '-f 8000' 'file size: the limit (ulimit -f) is 4000 KiB, this run needs about 8' train run.yaml -n 2
short '-f 20' 'file size: the limit (ulimit -f) is 10 KiB, ' train run.yaml -n 1

if [ -n "$user" ]; then # root has as many processes as it likes
    as=$user
    for n in 1 6 8 12; do
        short "-u $n" "processes and threads: only .* (ulimit -u is $n for this user), this run needs about 17; raise it: \
ulimit -u [1-9]" train run.yaml -n 2 --runs /tmp
        enough=$(sed -n 's/.*raise it: ulimit -u \([0-9]*\),.*/\1/p' err)
        [ "$enough" -ge 17 ] && [ "$enough" -le 24 ] || fail "ulimit -u $n: raise it to $enough"
    done
    short '-u 2' 'processes and threads: only 1 more can be started' train run.yaml -n 1 --runs /tmp
    short '-u 2' 'cannot start thread 3 of 3: .* (.*ulimit -u is 2)' bench kernels --preset nano -B 1 -T 8 --threads 3 \
        --precision fp32
    as=''
    rc=0
    $user sh -c "$(set_limit '-u 1'); exec \"\$PENSTOCK\" doctor" >out 2>err || rc=$?
    [ $rc = 4 ] && grep -q '^  processes  .*limit 1 .*; 0 of ' out || fail "doctor without processes: $rc: $(cat out err)"
fi

if [ -z "${PST_SANITIZE:-}" ]; then # sanitizers map terabytes, and have stacks of their own
    for command in 'train run.yaml -n 1' 'train run.yaml -n 2' 'plan run.yaml' doctor; do
        # shellcheck disable=SC2086
        short '-v 30000' 'address space: the limit (ulimit -v) is 30000 KiB, this program needs ' $command
        # shellcheck disable=SC2086
        short '-d 1000' 'private memory: the limit (ulimit -d) is 1000 KiB, this program needs ' $command
        # shellcheck disable=SC2086
        short '-s 64' 'stack: the limit (ulimit -s) is 64 KiB, this program needs 1024 KiB' $command
    done
    for command in --version --help help 'train --help' 'help plan'; do # these start nothing
        # shellcheck disable=SC2086
        sh -c 'ulimit -s 64; exec "$PENSTOCK" "$@"' sh $command >out 2>err && [ -s out ] && [ ! -s err ] ||
            fail "ulimit -s 64: $command: $(cat err)"
    done
    short '-v 80000' 'address space: .* this run needs about ' train run.yaml -n 1
    short '-v 100000' 'address space: .* this run needs about ' train run.yaml -n 2
    short '-d 20000' 'private memory: .* this run needs about ' train run.yaml -n 2
    short '-v 200000' 'cannot reserve .* MiB .*: Cannot allocate memory (ulimit -v is 200000 KiB)$' \
        bench step --preset gpt2 -B 1 -T 128 --threads 1 --precision fp32
    short '-v 600000' 'address space: the limit (ulimit -v) is 600000 KiB, this run needs about [7-9]' \
        train run.yaml -n 1 model.channels=512 model.layers=12 # by the arena
fi

# enough, also of what is below the hard limit only, and for more data files than may be open
for limit in '-n 40' '-Sn 8' '-Ss 1000'; do
    rc=0
    timeout 60 sh -c "ulimit $limit; exec \"\$PENSTOCK\" train run.yaml -n 2 -q" >out 2>err || rc=$?
    [ $rc = 0 ] || fail "ulimit $limit is enough: status $rc: $(cat err)"
done
for i in $(seq 40); do cp text.txt "data$i.txt"; done
rc=0
sh -c 'ulimit -n 20; exec "$PENSTOCK" train run.yaml -n 1 -q data.paths=["data*.txt"]' >out 2>err || rc=$?
[ $rc = 0 ] || fail "more data files than may be open: status $rc: $(cat err)"

if [ "$(id -u)" = 0 ]; then isolate='unshare -m --propagation private'; else isolate='unshare -rm'; fi
if [ -z "${PST_SANITIZE:-}" ] && $isolate mount -t tmpfs none /mnt 2>/dev/null; then
    for option in size=1m size=4m; do
        rc=0
        $isolate sh -c "mount -t tmpfs -o $option none /dev/shm; exec \"\$PENSTOCK\" train run.yaml -n 2" >out 2>err ||
            rc=$?
        [ $rc = 4 ] && grep -q '^penstock: /dev/shm is full, but each of 2 ranks needs ' err ||
            fail "/dev/shm with $option: status $rc: $(cat err)"
    done
fi

if command -v mpirun >/dev/null 2>&1; then
    rc=0
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun -n 2 --oversubscribe sh -c \
        'ulimit -n 15; exec "$PENSTOCK" train run.yaml' >out 2>err || rc=$?
    [ $rc = 4 ] && grep -q 'open files: the limit (ulimit -n) is 15, this run needs about 40' err ||
        fail "mpirun: status $rc: $(cat err)"
fi
exit $bad
