# What tests with label net begin with: `. "$(dirname "$0")/../net.sh"`. Two hosts, which are network namespaces joined
# by a pair of interfaces with a limited rate: $host_a and $host_b, which $ssh HOST COMMAND reaches as ssh would. They
# go with the test, and what runs in them with them.
. "$(dirname "$0")/../script.sh"
skip() { echo "skipped: $*"; exit 77; }
for program in ip tc; do command -v $program >/dev/null 2>&1 || skip "no $program here (apt-get install iproute2)"; done
net=pst$$
third=$(($$ % 250))
host_a=10.213.$third.1 host_b=10.213.$third.2

in_a() { ip netns exec ${net}a "$@"; }
in_b() { ip netns exec ${net}b "$@"; }
daemons='' # processes of the test itself on the hosts, "PID PID"
pids() { ip netns pids ${net}a 2>/dev/null; ip netns pids ${net}b 2>/dev/null; }
take_down() {
    for pid in $(pids); do kill -9 "$pid" 2>/dev/null; done
    ip netns del ${net}a 2>/dev/null
    ip netns del ${net}b 2>/dev/null
    rm -rf "$folder"
}
trap take_down EXIT
trap 'exit 1' INT TERM HUP
ip netns add ${net}a 2>/dev/null && ip netns add ${net}b 2>/dev/null || skip "network namespaces cannot be made here"

# join_hosts RATE
join_hosts() {
    in_a ip link add v0 type veth peer name v0 netns ${net}b 2>/dev/null || skip "no veth here"
    in_a ip addr add $host_a/24 dev v0
    in_b ip addr add $host_b/24 dev v0
    for end in a b; do
        ip netns exec $net$end ip link set lo up
        ip netns exec $net$end ip link set v0 up
        ip netns exec $net$end tc qdisc add dev v0 root tbf rate "$1" burst 256kb latency 100ms 2>/dev/null ||
            skip "no token bucket filter here"
    done
    for end in a b; do # the kernel sees a carrier by and by
        i=0
        while [ $i -lt 100 ] && ! ip netns exec $net$end grep -q up /sys/class/net/v0/operstate; do sleep 0.1; i=$((i + 1)); done
    done
}

ssh=$folder/ssh
cat >"$ssh" <<END
#!/bin/sh
case \$1 in
$host_a) exec ip netns exec ${net}a sh -c "\$2" ;;
$host_b) exec ip netns exec ${net}b sh -c "\$2" ;;
*) echo "ssh: connect to host \$1: No route to host" >&2; exit 255 ;;
esac
END
chmod +x "$ssh"

strangers() { for p in $(pids); do case " $daemons " in *" $p "*) ;; *) echo "$p" ;; esac; done; }
# nobody_left SECONDS: what runs on the hosts, daemons excepted, has ended by then
nobody_left() {
    i=0
    while [ $i -lt $(($1 * 10)) ] && [ -n "$(strangers)" ]; do sleep 0.1; i=$((i + 1)); done
    [ -z "$(strangers)" ] || fail "left on the hosts: $(for p in $(strangers); do tr '\0' ' ' <"/proc/$p/cmdline"; echo; done)"
}
# kill_rank RANK: on whichever host it is
kill_rank() {
    for p in $(pids); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "RANK=$1" && kill -9 "$p" && return
    done
    fail "there is no rank $1"
}
# write_run: run.yaml, and what it reads
write_run() {
    i=0; while [ $i -lt 60 ]; do echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1)); done >text.txt
    cat >run.yaml <<END
model: {kind: gpt, layers: 4, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: [text.txt]}
train: {batch: 8, micro_batch: 2, steps: 20}
parallel: {threads: 1}
END
}
hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
said() { grep -q -e "$2" "$1" || fail "'$2' is not in: $(cat "$1")"; }
