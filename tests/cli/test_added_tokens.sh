#!/bin/sh
# test: label=quick timeout=120
# Added tokens of a tokenizer.json: special or not, with white space around them, as Hugging Face's tokenizers has them
# (compared with that if PST_TORCH_PYTHON has it); BPE of characters is refused.
. "$(dirname "$0")/../script.sh"
i=0
while [ $i -lt 50 ]; do echo "the valve of pump $i opens, and the water flows"; i=$((i + 1)); done >text.txt
"$PENSTOCK" tokenize --train --vocabulary 300 -o tok text.txt >out || fail "learning"
# added NAME SPECIAL LSTRIP RSTRIP: another one, with the id 300
added() {
    mkdir -p "$1"
    sed "s/\"special\": true}\]/\"special\": true}, {\"id\": 300, \"content\": \"<x>\", \"single_word\": false, \
\"lstrip\": $3, \"rstrip\": $4, \"normalized\": false, \"special\": $2}]/" tok/tokenizer.json >"$1/tokenizer.json"
}
ids() { "$PENSTOCK" tokenize --tokenizer "$1" --ids ${2:+"$2"} text >out || fail "$1: $(cat out)"; cat out; }
printf 'the <x> water\n <x><x>flows  <x>' >text
added plain false false false
added left false true false
added both false true true
added special true false false
[ "$(ids plain | tr ' ' '\n' | grep -c 300)" = 4 ] || fail "not special: $(cat out)"
[ "$(ids special | tr ' ' '\n' | grep -c 300)" = 0 ] || fail "special, not asked for: $(cat out)"
[ "$(ids special --special)" = "$(ids plain)" ] || fail "special, asked for"
for word in the water flows ' water'; do
    printf '%s' "$word" >word
    eval "$(echo "${word# }${word%%[a-z]*}" | tr ' ' _)='$("$PENSTOCK" tokenize --tokenizer tok --ids word)'"
done
# shellcheck disable=SC2154 # set by eval
[ "$(ids left)" = "$the 300 $water_ 300 300 $flows 300" ] || fail "white space before it: $(cat out)"
[ "$(ids both)" = "$the 300 $water 300 300 $flows 300" ] || fail "white space around it: $(cat out)"

sed 's/"pre_tokenizer": {[^}]*}/"pre_tokenizer": {"type": "Digits", "individual_digits": true}/' tok/tokenizer.json >bare.json
"$PENSTOCK" tokenize --tokenizer bare.json text >out 2>err && fail "BPE of characters is accepted"
grep -q 'bare.json: BPE of characters is not supported' err || fail "$(cat err)"
sed 's/"single_word": false/"single_word": true/' tok/tokenizer.json >single.json
"$PENSTOCK" tokenize --tokenizer single.json text >out 2>err && fail "single words are accepted"
grep -q 'single_word" is not supported' err || fail "$(cat err)"

if "${PST_TORCH_PYTHON:-false}" -c 'import tokenizers' 2>/dev/null; then
    for name in plain left both special; do
        "$PST_TORCH_PYTHON" -c 'import sys, tokenizers
t = tokenizers.Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
print(*t.encode(open("text").read()).ids)' "$name" >expected
        ids "$name" --special >found
        cmp -s expected found || fail "$name: $(cat expected found)"
    done
else
    echo "skipped: comparison: PST_TORCH_PYTHON has no tokenizers"
fi
exit $bad
