#!/bin/sh
# test: label=net timeout=120
# parallel.compress over two hosts with a link of 100 Mbit/s: by default what replicas on both hosts exchange is packed,
# with the same weights as on one host with links: all; what stays within a host is not, and the run says so.
. "$(dirname "$0")/../net.sh"
join_hosts 100mbit
export PENSTOCK_SSH=$ssh UCX_TLS=tcp,self
write_run
sed -i 's/channels: 32/channels: 256/' run.yaml
printf '%s\n%s\n' $host_a $host_b >pair
printf '%s slots=2\n%s slots=2\n' $host_a $host_b >hosts
packed="parallel.data=2 parallel.compress.up=int8"

timeout 60 "$PENSTOCK" train run.yaml -n 2 name=here $packed parallel.compress.links=all train.steps=6 -q || fail "one host"
timeout 100 "$PENSTOCK" train run.yaml --hostfile pair name=apart $packed train.steps=6 >apart.log 2>&1 ||
    fail "two hosts: $(cat apart.log)"
[ -n "$(hash_of runs/here)" ] && [ "$(hash_of runs/here)" = "$(hash_of runs/apart)" ] || fail "other weights: $(cat apart.log)"
said apart.log '^compress:  gradients as int8 in blocks of 256; messages between replicas have 6[0-9]'
said runs/apart/metrics.jsonl '"compression":1\.[56]'

# Stages on different hosts, the replicas of each on one.
timeout 100 "$PENSTOCK" train run.yaml --hostfile hosts name=inside $packed train.steps=2 >inside.log 2>&1 ||
    fail "replicas within hosts: $(cat inside.log)"
said inside.log 'parallel.compress packs nothing: no replicas'
grep -q '"compression"' runs/inside/metrics.jsonl && fail "nothing is packed, but the ratio is given"

exit $bad
