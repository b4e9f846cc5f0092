#!/bin/sh
# test: label=net timeout=240
# --hostfile over real ssh daemons on two hosts: the same weights as on one; a killed rank is named; Ctrl-C, a lost
# connection and the launcher's death leave nothing behind; a host that is not there, or lets nobody in, is named.
. "$(dirname "$0")/../net.sh"
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) && command -v ssh >/dev/null 2>&1 && command -v ssh-keygen >/dev/null 2>&1 ||
    skip 'no ssh daemon here (apt-get install openssh-server openssh-client)'
[ "$(id -u)" = 0 ] || skip 'ssh daemons need root'
join_hosts 1gbit
port=2222
ssh-keygen -q -t ed25519 -N '' -f host_key && ssh-keygen -q -t ed25519 -N '' -f user_key || skip 'no keys can be made here'
cp user_key.pub let_in
for host in $host_a $host_b; do echo "[$host]:$port $(cut -d ' ' -f 1,2 host_key.pub)"; done >known
cat >ssh_config <<END
Port $port
User $(id -un)
IdentityFile $folder/user_key
IdentitiesOnly yes
UserKnownHostsFile $folder/known
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
LogLevel ERROR
END
# open_host a|b ADDRESS: its daemon, which sees a /run of its own, for there has to be a folder in it
open_host() {
    cat >sshd_config.$1 <<END
ListenAddress $2
Port $port
HostKey $folder/host_key
PidFile none
AuthorizedKeysFile $folder/let_in
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
UseDNS no
END
    ip netns exec $net$1 sh -c "mount -t tmpfs none /run && mkdir -p /run/sshd && exec $sshd -D -e -f $folder/sshd_config.$1" \
        </dev/null >sshd.$1.log 2>&1 &
    daemons="$daemons $!"
    i=0
    while [ $i -lt 100 ] && ! in_a ssh -F ssh_config "$2" true 2>ssh.log; do sleep 0.1; i=$((i + 1)); done
    [ $i -lt 100 ] && return
    grep -q 'account is locked' sshd.$1.log && skip "the account $(id -un) is locked"
    fail "no ssh daemon on $2: $(cat ssh.log sshd.$1.log)"
    exit 1
}
open_host a $host_a
open_host b $host_b

export UCX_TLS=tcp,self
write_run
printf '%s slots=2\n%s slots=2\n' $host_a $host_b >hosts
# start NAME: a job without end, once it trains; $head is its launcher, the child of timeout, which a function would
# hide
start() {
    name=$1
    ip netns exec ${net}a timeout -s KILL 100 "$PENSTOCK" train run.yaml --hostfile hosts name=$name train.steps=10000000 checkpoint.every=5 \
        >$name.log 2>&1 &
    job=$!
    i=0; while [ $i -lt 400 ] && ! ls runs/$name/checkpoints/step-*/index.json >/dev/null 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
    head=$(pgrep -P $job)
}
# ended STATUS
ended() { wait $job; rc=$?; [ $rc = "$1" ] || fail "$name: status $rc, not $1: $(cat $name.log)"; nobody_left 10; }

timeout 60 "$PENSTOCK" train run.yaml name=one -q || fail 'one process'
PENSTOCK_SSH="ssh -F $folder/ssh_config" in_a timeout 100 "$PENSTOCK" train run.yaml --hostfile hosts name=both >both.log 2>&1 ||
    fail "both hosts over ssh: $(cat both.log)"
[ -n "$(hash_of runs/one)" ] && [ "$(hash_of runs/one)" = "$(hash_of runs/both)" ] || fail "other weights: $(cat both.log)"
said both.log 'done after step 20'
nobody_left 5

# The command that is taken without PENSTOCK_SSH; this host then needs none.
mkdir bin
printf '#!/bin/sh\nexec %s -F %s/ssh_config "$@"\n' "$(command -v ssh)" "$folder" >bin/ssh
chmod +x bin/ssh
PATH=$folder/bin:$PATH
start kill
kill_rank 2
ended 3
said kill.log "rank 2 on $host_b was killed by signal 9"
said kill.log 'resume with: penstock train --resume .* -n 4 --hostfile hosts'

start stop
kill -INT $head
ended 0
said stop.log 'stopped after step'
start term
kill -TERM $head
ended 143
said term.log 'stopped after step'
start quit
kill -QUIT $head
ended 131
nobody_left 10

start lost
kill -9 "$(pgrep -P $head -x ssh)"
ended 3
said lost.log "hosts:2: host $host_b ($host_b) with ranks 2 to 3 is lost"

start orphan
kill -9 $head
wait $job
nobody_left 10

printf '%s\n10.213.%s.77\n' $host_a $third >far
began=$(date +%s)
ip netns exec ${net}a timeout 60 "$PENSTOCK" train run.yaml --hostfile far >far.log 2>&1
[ $? = 2 ] || fail "a host that is not there: $(cat far.log)"
[ $(($(date +%s) - began)) -lt 30 ] || fail "it took $(($(date +%s) - began)) s to say that a host is not there"
said far.log "far:2: host 10.213.$third.77 (10.213.$third.77) with ranks 1 to 1 could not be reached or started"
grep -q "host $host_a " far.log && fail "a host that is there is named: $(cat far.log)"
nobody_left 5

: >let_in
in_a timeout 60 "$PENSTOCK" train run.yaml --hostfile hosts >shut.log 2>&1
[ $? = 2 ] || fail "a host that lets nobody in: $(cat shut.log)"
said shut.log 'Permission denied'
said shut.log "hosts:2: host $host_b ($host_b) with ranks 2 to 3 could not be reached or started: the connection ended with status 255"
[ "$(wc -l <shut.log)" = 2 ] || fail "more than that host: $(cat shut.log)"
nobody_left 5
exit $bad
