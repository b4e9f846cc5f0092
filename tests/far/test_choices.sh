#!/bin/sh
# test: label=quick timeout=60 isa=any
# parallel.products: measured on a device that chooses what it likes (far_module.c; each process another algorithm): all
# ranks have the choices of the lowest, which stand in the run's plan; a run with that plan, and one that is resumed,
# measures nothing; one with the plan of another device says so and measures anew.
. "$(dirname "$0")/../script.sh"
use_far

write_measured 2 2 'device: far, products: measured'
train() { "$PENSTOCK" train run.yaml -q --runs . "$@" </dev/null 2>err || fail "$*: status $?, $(cat err)"; }
products() { sed -n '/^products:/,/^[^ ]*:$/p' "$1/plan.yaml" | grep '{of: ' | sort; }

train name=one -n 2
products one >chosen
[ "$(wc -l <chosen)" -ge 4 ] || fail "choices: $(cat one/plan.yaml)"
grep -q 'Distant 1: 96x32.*measured [0-9]' chosen || fail "choices: $(cat chosen)"
[ "$(cut -d: -f1 chosen | sort | uniq -d | wc -l)" -le 1 ] && [ "$(sed 's/, is:.*//' chosen | sort | uniq -d)" = "" ] ||
    fail "something was chosen twice: $(cat chosen)"
[ ! -s err ] || fail "said: $(cat err)"

train name=again -n 2 parallel.plan=one/plan.yaml
products again | cmp -s - chosen || fail "with the plan of the first: $(products again)"
[ ! -s err ] || fail "said: $(cat err)"

train --resume one -n 2 train.steps=3
products one | cmp -s - chosen || fail "resumed: $(products one)"

# Choices are read whatever the key says, and kept.
train name=plain -n 2 parallel.plan=one/plan.yaml parallel.products=library
products plain | cmp -s - chosen || fail "with products: library: $(products plain)"
train name=none -n 2 parallel.products=library
[ -z "$(products none)" ] || fail "chosen by the library, but kept: $(products none)"

FAR_MODEL="Distant 2"
export FAR_MODEL
warned() {
    [ "$(wc -l <err)" = 1 ] && grep -q "warning: the plan's autotuning results (such as 'Distant 1: .*$1" err || fail "said: $(cat err)"
}
"$PENSTOCK" train run.yaml --runs . name=other -n 2 parallel.plan=one/plan.yaml >/dev/null 2>err </dev/null || fail "other: $(cat err)"
warned 'measured again'
products other | grep -q 'Distant 1' && fail "kept: $(products other)"
[ "$(products other | grep -c 'Distant 2.*measured')" -ge 4 ] || fail "not measured anew: $(products other)"
"$PENSTOCK" train run.yaml --runs . name=other2 -n 2 parallel.plan=one/plan.yaml parallel.products=library >/dev/null 2>err </dev/null
warned "default algorithms are used"
exit $bad
