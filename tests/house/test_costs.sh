#!/bin/sh
# test: label=quick timeout=60
# bench/costs.py with a program in the place of ours that says what it measured: ratios to the group's first row, bytes,
# measured beside predicted, bits, and a row that fails. Measures nothing.
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
cat >fake <<'TEXT'
#!/bin/sh
[ "$1 $3 $5" = "train --runs --quiet" ] || exit 9
mkdir -p "$4/run"
ms=100 kib=1024 bits=a
case "$*" in
*bf16*) ms=60 kib=512 bits=b ;;
*recompute=full*) ms=130 kib=256 ;;
*fp16*) echo "no fp16 here" >&2; exit 2 ;;
esac
peaks="[1024, $((kib * 1024))]"
for step in 1 2 3 4; do
    echo '{"step": '$step', "step_ms": '$ms', "predicted_step_ms": '$((step == 2 ? 1 : 50))', "peak_bytes": '$peaks',
           "predicted_peak_bytes": '$peaks'}' | tr -d '\n'
    echo
done >"$4/run/metrics.jsonl"
echo '{"event": "end", "weights_xxh64": "'$bits'"}' >>"$4/run/metrics.jsonl"
TEXT
chmod +x fake
export PENSTOCK="$folder/fake"
export PYTHONDONTWRITEBYTECODE=1
costs=$SOURCE_DIR/bench/costs.py

python3 "$costs" --rounds 2 --steps 3 --groups stages >out 2>err || fail "status $?: $(cat err)"
row() { # NAME FIGURES
    grep -q "^$1  *$2\$" out || fail "$1: $(grep "^$1" out || cat out)"
}
row 'two stages, 1f1b, fp32' '100.0  1.000  1.000-1.000  *1.0  1.000  *2.000 (2.000-2.000)  same bits'
row 'recompute: full' '130.0  1.300  1.300-1.300  *0.2  0.250  *2.600 (2.600-2.600)  same bits'
row 'precision: bf16' '60.0  0.600  0.600-0.600  *0.5  0.500  *1.200 (1.200-1.200)  other bits'
row 'precision: fp16, dynamic loss scale' failed
grep -q 'no fp16 here' err || fail "a failing run is not named: $(cat err)"
python3 "$costs" --rounds 1 --steps 3 --groups stages --markdown 2>err |
    grep -q '^| recompute: full | 130 | 1.300 | 1.300-1.300 | 0.2 | 0.250 | 2.600 | same bits |' || fail "markdown: $(cat err)"
rc=0
python3 "$costs" --groups stage 2>err >/dev/null || rc=$?
[ $rc = 2 ] && grep -q 'groups are: stages, replicas' err || fail "an unknown group: status $rc, $(cat err)"
exit $bad
