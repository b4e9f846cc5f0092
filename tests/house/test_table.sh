#!/bin/sh
# test: label=quick timeout=60
# The speed table with a program in the place of ours that says what it measured: medians, what is reached and what is
# missed, the file, and both ways of printing it; and that every row runs PyTorch in all of its forms and is compared with
# the fastest. Measures nothing.
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
table=$SOURCE_DIR/bench/table.py
cat >fake <<'TEXT'
#!/bin/sh
if [ "$1" = doctor ]; then
    echo '{"penstock": "1", "cpu": {"model": "none", "usable": 2, "kernels": "generic", "bf16": "no"},
           "memory": {"total_bytes": 1073741824}, "libraries": {"onednn": "2.6"}}'
    exit
fi
rounds=$(($(cat rounds 2>/dev/null || echo 0) + 1))
echo $rounds >rounds
rows() { # SECONDS
    for shape in 2304x768 768x768 3072x768 768x3072 50257x768; do
        printf '%s{"op": "linear", "shape": "4x256x%s w %s", "pass": "F", "seconds": %s}' "$comma" "${shape#*x}" $shape $1
        comma=', '
    done
}
fp32='{"precision": "fp32", "products_of_peak": 0.9'$rounds', "rows": ['$(rows 2.0)']}'
echo '{"kernels": {"precisions": ['"$fp32"', {"precision": "bf16", "products_of_peak": 0.8, "rows": ['$(rows 1.6)']}]}}'
TEXT
chmod +x fake
export PENSTOCK="$folder/fake"
export PYTHONDONTWRITEBYTECODE=1

cat >peer.py <<'TEXT'
import sys
sys.path.insert(0, sys.argv.pop(1))
import contenders, forms, table
contenders.have_torch, contenders.torch_version = lambda: True, lambda: "2"
seconds = {f"{shape} F": 1.0 if shape == "1024x768x768" else 4.0 for shape in forms.PRODUCTS}
contenders.torch_products = lambda threads, precision: {"seconds": seconds}
sys.argv[0] = "table.py"
table.main()
TEXT
python3 peer.py "$SOURCE_DIR/bench" --rows products --rounds 3 --isa avx2 --json found.json >text 2>err ||
    fail "status $?: $(cat err)"
grep -q 'fp32 products / FMA peak, 1 thread: *0.940 (0.910 to 0.960) *wanted >= 0.85 *reached' text || fail "fp32: $(cat text)"
grep -q 'bf16 products / fp32 .*, 2 threads: *1.250 (1.250 to 1.250) *wanted >= 1.8 *MISSED' text || fail "bf16: $(cat text)"
grep -q '2 threads, penstock / torch, all of a step: *1.633 .*reached' text || fail "beside torch: $(cat text)"
grep -q '2 threads, penstock / torch, the least of all shapes: 1024x768x768 F: *0.500 .*MISSED' text || fail "least: $(cat text)"
grep -q '^6 reached, 4 missed, 0 without a peer' text || fail "sum: $(cat text)"
grep -q ', 2 x none.*, generic kernels, 1 GiB; load at the start' text || fail "no processor: $(cat text)"
python3 "$table" --from found.json | cmp -s - text || fail "--from prints something else"
python3 "$table" --from found.json found.json --markdown >markdown
grep -q '^| .*products / FMA peak, 1 thread (wanted >= 0.85: reached) | same | .* | 0.940 *| 0.910-0.960 | 3 |' markdown &&
    [ "$(grep -c '^### 2 x none' markdown)" = 1 ] && grep -q -- '--rounds 3 --isa avx2' markdown ||
    fail "markdown: $(cat markdown)"

printf '#!/bin/sh\n[ "$1" = doctor ] && exec %s/fake doctor\necho broken >&2; exit 5\n' "$folder" >broken
chmod +x broken
PENSTOCK="$folder/broken" python3 "$table" --rows products --rounds 1 --json lost.json >text 2>err ||
    fail "a program that fails ends the table: $(cat err)"
grep -q 'status 5: broken' err || fail "a failing program is not named: $(cat err)"
# Peers that are not here are left out, and the row says what they need.
cat >absent.py <<'TEXT'
import sys
sys.path.insert(0, sys.argv.pop(1))
import contenders, table
contenders.have_torch = lambda: False
contenders.penstock = lambda *_, **__: {"tokens_per_s": 3, "step_ms": 2, "peak_mib": 1}
sys.argv[0] = "table.py"
table.main()
TEXT
for form in '' --markdown; do # shellcheck disable=SC2086
    python3 absent.py "$SOURCE_DIR/bench" --rows nano --rounds 1 --json absent.json $form >text 2>err ||
        fail "without PyTorch: status $?: $(cat err)"
    grep -q 'torch eager, torch eager tuned, torch compile, torch compile tuned:* left out: needs PyTorch: pip' text ||
        fail "what is missing $form: $(cat text)"
    grep -q 'penstock / torch.* no peer' text || fail "no peer $form: $(cat text)"
done

# So are those of measuring programs that the table starts.
cat >collectives.py <<'TEXT'
import sys
print("Open MPI: left out: needs mpicc", file=sys.stderr)
print('{"1024": {"wanted": 1.0, "gloo_ratio": {"median": 0.5, "min": 0.5, "max": 0.5, "n": 1}}}')
TEXT
sed -i 's/^contenders.have_torch.*/contenders.HERE = "."/' absent.py
python3 absent.py "$SOURCE_DIR/bench" --rows collectives --rounds 1 --json absent.json >text 2>err ||
    fail "a program that leaves a peer out: status $?: $(cat err)"
grep -q '^  Open MPI: left out: needs mpicc$' text || fail "Open MPI: $(cat text)"
grep -q '1 KiB, ours / Open MPI: .* no peer$' text && grep -q '1 KiB, ours / gloo: *0.500' text || fail "$(cat text)"

cat >rows.py.test <<'TEXT'
import json, sys, types
sys.path.insert(0, sys.argv[1])
import contenders, forms, rows
heard = []
# What each form of the peer would measure
speed = {("eager", "--plain"): 1, ("eager", "--tuned"): 4, ("compile", "--plain"): 2, ("compile", "--tuned"): 3}

def output_of(command, *_, **__):
    heard.append(command)
    mode, tuned = command[command.index("--mode") + 1], command[command.index("--json") - 1]
    return json.dumps({"tokens_per_s": speed[mode, tuned], "step_ms": 1, "peak_mib": 8 / speed[mode, tuned]}), 0

contenders.output_of, contenders.have_torch = output_of, lambda: True
contenders.importlib.util.find_spec = lambda name: name
contenders.penstock = lambda *_, **__: {"tokens_per_s": 6, "step_ms": 1, "peak_mib": 1, "predicted_bubble": 0,
                                        "work": {"linear": 0.9}}
contenders.step = contenders.penstock
contenders.llmc = lambda *_: {"tokens_per_s": 2, "step_ms": 1, "peak_mib": 1}
want = {"eager--tuned", "eager--plain", "compile--tuned", "compile--plain"}
for name in "gpt2-256", "gpt2-64", "nano", "six", "pipeline", "replicas", "bert", "llama", "resnet20", "resnet50":
    heard.clear()
    run, checks = rows.ROWS[name][3](types.SimpleNamespace(llmc="x", work="y", rounds=1))
    results = {key: [call()] for key, call in run.items()}
    forms_of = {}
    for words in heard:
        at = words.index("--mode")
        kind = words[words.index("--schedule") + 1] if "--schedule" in words else ""
        forms_of.setdefault(kind, set()).add(words[at + 1] + words[at + 2])
        steps = int(words[words.index("--steps") + 1]) if "--steps" in words else forms.STEPS
        assert steps >= 5, words
    assert forms_of.pop("1f1b" if name == "pipeline" else "") == want, (name, forms_of)
    said = [c for c in checks(results) if c.get("peer")]
    assert len(said) == 1 and said[0]["median"] == 1.5 and "eager tuned, the fastest of" in said[0]["what"], (name, said)
    results = {key: [None] if key.endswith("eager tuned") else found for key, found in results.items()}
    said = [c for c in checks(results) if c.get("peer")]
    assert said[0]["median"] == 2 and "compile tuned, the fastest of" in said[0]["what"] and "tried" in said[0]["what"]
TEXT
python3 rows.py.test "$SOURCE_DIR/bench" >text 2>&1 || fail "the forms of PyTorch: $(cat text)"

rc=0
python3 "$table" --rows prodcts 2>err >/dev/null || rc=$?
[ $rc = 2 ] && grep -q "no row 'prodcts'" err || fail "an unknown row: status $rc, $(cat err)"
exit $bad
