#!/bin/sh
# test: label=quick timeout=60
# --hostfile: what is no host file is said with file and line; what runs on this host alone needs no ssh.
. "$(dirname "$0")/../script.sh"
unset PENSTOCK_SSH
i=0
while [ $i -lt 40 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
model: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 16}
data: {kind: text, paths: [text.txt], validation: 0}
train: {batch: 4, micro_batch: 2, steps: 4}
parallel: {threads: 1}
END
# refused STATUS TEXT ARGUMENT...: of the host file `hosts`
refused() {
    want=$1 text=$2; shift 2
    timeout 20 "$PENSTOCK" train run.yaml --hostfile hosts "$@" >out 2>&1
    rc=$?
    [ $rc = "$want" ] || fail "$text: status $rc, not $want: $(cat out)"
    grep -q -F -- "$text" out || fail "'$text' is not in: $(cat out)"
}
rm -f hosts
refused 2 'cannot read the host file hosts'
echo '# nobody' >hosts
refused 2 'hosts lists no host'
printf 'localhost slots=2\n\nother slot=2\n' >hosts
refused 2 "hosts:3: unexpected 'slot=2'; expected HOST slots=N"
echo 'localhost slots=0' >hosts
refused 2 "hosts:1: unexpected 'slots=0'; expected slots=N, with N from 1 to 65535"
echo '-oProxyCommand=x' >hosts
refused 2 'is not a host name'
printf 'localhost\nlocalhost slots=2 # three\n' >hosts
refused 2 '4 ranks were requested, but hosts has only 3 slots' -n 4
printf '127.0.0.1\nlocalhost\n' >hosts
refused 2 'hosts:1: host 127.0.0.1 resolves to the loopback address 127.0.0.1'
echo 'localhost slots=2' >hosts
PENSTOCK_SSH=' ' refused 2 'PENSTOCK_SSH is empty'
PENSTOCK_SSH=false refused 2 'hosts:1: host localhost (127.0.0.1) with ranks 0 to 1 could not be reached or started'
PENSTOCK_HOST_JOB='0 1 1 a b' refused 2 'PENSTOCK_HOST_JOB is for internal use by --hostfile' </dev/null
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 refused 2 '--hostfile starts the ranks, but another launcher'

hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
timeout 30 "$PENSTOCK" train run.yaml name=one -q || fail 'one process'
timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=two >out 2>&1 || fail "two ranks: $(cat out)"
grep -q 'done after step 4' out || fail "no last line: $(cat out)"
[ -n "$(hash_of runs/one)" ] && [ "$(hash_of runs/one)" = "$(hash_of runs/two)" ] || fail 'other weights'
printf '#!/bin/sh\n[ "$1" = --port ] && [ "$3" = me@localhost ] && exec sh -c "$4"\n' >ssh
chmod +x ssh
echo 'me@localhost slots=2' >hosts
PENSTOCK_SSH="$folder/ssh --port 7" timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=three -q ||
    fail 'over a command'
[ "$(hash_of runs/one)" = "$(hash_of runs/three)" ] || fail 'other weights over a command'
printf '#!/bin/sh\n[ $# = 42 ] && shift 41 && exec sh -c "$1"\n' >many
chmod +x many
echo 'localhost slots=2' >hosts
# shellcheck disable=SC2046
PENSTOCK_SSH="$folder/many $(echo $(seq 40))" timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=many -q >out 2>&1 ||
    fail "a command of many words: $(cat out)"

# Without degrees all slots are used, else as many as the degrees take; one stage is enough.
timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=stage parallel.pipeline=1 >out 2>&1 ||
    fail "one stage: $(cat out)"
grep -q ', 1 rank of' out || fail "not one rank: $(cat out)"
[ "$(hash_of runs/one)" = "$(hash_of runs/stage)" ] || fail 'other weights in one stage'
timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=planned parallel.plan=auto >out 2>&1 || fail "planned: $(cat out)"
grep -q '^planned: ' out && [ -s runs/planned/plan.yaml ] || fail "not planned: $(cat out)"
echo 'localhost slots=3' >hosts
timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=replicas parallel.data=2 >out 2>&1 ||
    fail "replicas: $(cat out)"
grep -q ', 2 ranks (2 replicas)' out || fail "not two replicas: $(cat out)"
for servers in 1 auto; do
    timeout 30 "$PENSTOCK" train run.yaml --hostfile hosts name=s$servers parallel.data=2 parallel.servers=$servers >out 2>&1
    grep -q ', 3 ranks (2 replicas + 1 server)' out || fail "servers $servers: $(cat out)"
done

# Of two hosts one answers: only the other is named.
printf '#!/bin/sh\n[ $1 = 192.0.2.2 ] && exec sh -c "$2"\nexit 255\n' >half
chmod +x half
printf '192.0.2.1\n192.0.2.2\n' >hosts
PENSTOCK_SSH=$folder/half refused 2 'hosts:1: host 192.0.2.1 (192.0.2.1) with ranks 0 to 0 could not be reached or started'
[ "$(wc -l <out)" = 1 ] || fail "more than the culprit is named: $(cat out)"

# A signal before the host has answered: nothing begins, and that is no success.
printf '#!/bin/sh\nsleep 0.7; exec sh -c "$2"\n' >slow
chmod +x slow
echo 'localhost slots=2' >hosts
PENSTOCK_SSH="$folder/slow" timeout -s KILL 30 "$PENSTOCK" train run.yaml --hostfile hosts name=early >out 2>&1 &
job=$!
i=0
while [ $i -lt 100 ] && ! head=$(pgrep -P $job); do sleep 0.05; i=$((i + 1)); done
sleep 0.3
kill -TERM "$head"
wait $job
rc=$?
[ $rc = 143 ] && [ ! -s out ] || fail "SIGTERM before it begins: status $rc: $(cat out)"
exit $bad
