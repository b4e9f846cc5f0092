#!/bin/sh
# test: label=quick timeout=60
# The speed table with a program in the place of ours that says what it measured: medians, what is reached and what is
# missed, the file, and both ways of printing it. Measures nothing.
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
table=$SOURCE_DIR/bench/table.py
cat >fake <<'TEXT'
#!/bin/sh
if [ "$1" = doctor ]; then
    echo '{"penstock": "1", "cpu": {"model": "none", "usable": 2, "kernels": "generic"}, "memory": {"total_bytes": 1073741824},
           "libraries": {"onednn": "2.6"}}'
    exit
fi
rounds=$(($(cat rounds 2>/dev/null || echo 0) + 1))
echo $rounds >rounds
fp32='{"precision": "fp32", "products_s": 2.0, "products_of_peak": 0.9'$rounds', "rows": []}'
echo '{"kernels": {"precisions": ['"$fp32"', {"precision": "bf16", "products_s": 1.6, "products_of_peak": 0.8}]}}'
TEXT
chmod +x fake
export PENSTOCK="$folder/fake"
export PYTHONDONTWRITEBYTECODE=1

python3 "$table" --rows products --rounds 3 --json found.json >text 2>err || fail "status $?: $(cat err)"
grep -q 'fp32 products / FMA peak: *0.920 (0.910 to 0.930) *wanted >= 0.88 *reached' text || fail "fp32: $(cat text)"
grep -q 'bf16 products .* 1.250 (1.250 to 1.250) *wanted >= 1.6 *MISSED' text || fail "bf16: $(cat text)"
grep -q '^1 reached, 1 missed, 0 without a peer' text || fail "sum: $(cat text)"
python3 "$table" --from found.json | cmp -s - text || fail "--from prints something else"
python3 "$table" --from found.json --markdown |
    grep -q '^| .*products / FMA peak (wanted >= 0.88: reached) .* | 0.920 *| 0.910-0.930 | 3 |' ||
    fail "markdown: $(python3 "$table" --from found.json --markdown)"

printf '#!/bin/sh\n[ "$1" = doctor ] && exec %s/fake doctor\necho broken >&2; exit 5\n' "$folder" >broken
chmod +x broken
PENSTOCK="$folder/broken" python3 "$table" --rows products --rounds 1 --json lost.json >text 2>err ||
    fail "a program that fails ends the table: $(cat err)"
grep -q 'status 5: broken' err || fail "a failing program is not named: $(cat err)"
rc=0
python3 "$table" --rows prodcts 2>err >/dev/null || rc=$?
[ $rc = 2 ] && grep -q "no row 'prodcts'" err || fail "an unknown row: status $rc, $(cat err)"
exit $bad
