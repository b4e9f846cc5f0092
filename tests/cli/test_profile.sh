#!/bin/sh
# test: label=quick timeout=60
# profile: files are joined, and refused where they are of another machine or damaged.
. "$(dirname "$0")/../script.sh"

# expect STATUS PATTERN ARGUMENT...: exit status, and one line on stderr that matches
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$PENSTOCK" "$@" >out 2>err </dev/null || rc=$?
    [ $rc = "$status" ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "$*: status $rc, expected $status and '$pattern': $(cat err)"
}
head='precision: fp32\noptimizer: adamw\n'
printf "machine: {cpu: A, isa: avx2, cpus: 2, threads: 1, ranks: 2}\n${head}operators: [{op: a, ns: 1}]\n" >a.yaml
printf "machine: {cpu: A, isa: avx2, cpus: 2, threads: 1, ranks: 2}\n${head}operators: [{op: b, ns: 2}, {op: a, ns: 3}]\n" >b.yaml
printf "machine: {cpu: B, isa: avx2, cpus: 2, threads: 1, ranks: 2}\n${head}operators: [{op: a, ns: -2}]\n" >bad.yaml
printf "machine: {cpu: B, isa: avx2, cpus: 2, threads: 1, ranks: 2}\n${head}operators: [{op: a, ns: 5}]\n" >other.yaml
"$PENSTOCK" profile a.yaml b.yaml -o c.yaml >out || fail "two profiles were not joined"
grep -q 'op: "a", ns: 3}' c.yaml && grep -q 'op: "b", ns: 2}' c.yaml || fail "joined: $(cat c.yaml)"
expect 2 "-o PROFILE.yaml" profile a.yaml b.yaml
expect 2 "bad.yaml:4:.*expected a number from 0.001" profile a.yaml bad.yaml -o d.yaml
expect 2 "other.yaml: the profile was measured with processor 'B', not 'A'; use --force" profile a.yaml other.yaml -o d.yaml
[ -f d.yaml ] && fail "a profile was written all the same"
"$PENSTOCK" profile a.yaml other.yaml --force -o d.yaml >out && grep -q 'ns: 5}' d.yaml || fail "--force: $(cat d.yaml)"

# what could not be added to a file is not measured; the file is named for what it is
yes "the quick brown fox" | head -n 200 >text
printf 'model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 16}\ndata: {paths: [text]}\nparallel: {threads: 3}\n' >run.yaml
expect 2 "a.yaml: the profile was measured with processor .*; write to another file" profile run.yaml -o a.yaml --seconds 60
# a precision that this CPU lacks is refused once, not by each of the ranks
export PENSTOCK_ISA=generic
expect 2 'train.precision bf16 needs AVX512-BF16, which ' profile run.yaml -n 2 -o bf16.yaml parallel.threads=1 \
    train.precision=bf16
unset PENSTOCK_ISA
# a run whose degrees are open is measured as it is planned, with a rank for each processor
sed -i '$d' run.yaml
"$PENSTOCK" profile run.yaml --seconds 0.01 -o open.yaml >out 2>err || fail "profile: $(cat err)"
"$PENSTOCK" plan run.yaml --profile open.yaml >out 2>err || fail "plan with what was measured: $(cat err)"
sed 's/threads: 1/threads: 7/' open.yaml >seven.yaml
expect 2 '7 threads per rank, not 1; measure another profile with penstock profile -n [1-9][0-9]* -o FILE' plan run.yaml -n "$(nproc)" --profile seven.yaml

exit $bad
