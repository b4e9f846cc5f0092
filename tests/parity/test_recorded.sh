#!/bin/sh
# test: label=quick timeout=60
# Without PyTorch: the schedules that it wrote pass our checker, and ours are still those that its validator passed (both
# recorded by record.sh; live: test_schedules.sh).
. "$(dirname "$0")/../script.sh"
# shellcheck source=tests/parity/torch.sh
. "$SOURCE_DIR/tests/parity/torch.sh"
recorded=$SOURCE_DIR/tests/parity/fixture/schedules

n=0
for file in "$recorded"/torch-*.csv; do
    n=$((n + 1))
    "$PENSTOCK" simulate --schedule custom --csv "$file" >out 2>err || fail "$(basename "$file") is refused: $(cat err)"
done
[ $n = 12 ] || fail "$n schedules of PyTorch's, expected 12"
sed '1s/F/B/' "$file" >changed.csv
"$PENSTOCK" simulate --schedule custom --csv changed.csv >out 2>err && fail "one that is wrong passes"

mkdir ours
our_schedules ours || fail "our schedules"
# shellcheck disable=SC2046 # names without blanks
sums ours $(LC_ALL=C ls ours) >found
[ "$(wc -l <found)" -ge 40 ] || fail "only $(wc -l <found) schedules of ours"
diff "$recorded/validated.txt" found >changed ||
    fail "not what PyTorch's validator passed; if that is wanted, run tests/parity/record.sh: $(cat changed)"
exit $bad
