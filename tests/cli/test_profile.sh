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
expect 2 "other.yaml: the profile is of processor 'B', not 'A'; --force" profile a.yaml other.yaml -o d.yaml
[ -f d.yaml ] && fail "a profile was written all the same"
"$PENSTOCK" profile a.yaml other.yaml --force -o d.yaml >out && grep -q 'ns: 5}' d.yaml || fail "--force: $(cat d.yaml)"

exit $bad
