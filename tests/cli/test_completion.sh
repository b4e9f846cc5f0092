#!/bin/sh
# test: label=quick timeout=60 isa=any
# Bash completion as written by the program: sourced, and asked as readline asks, with words broken at '='.
command -v bash >/dev/null 2>&1 || { echo "skipped: no bash here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$PENSTOCK" help --write "$folder/share" || exit 1
mkdir texts
: >run.yaml
: >other.yml
: >weights.safetensors
: >'two words.yaml'
cat >ask.bash <<'BASH'
set -u
source "$1" || exit 1
bad=0
# ask WORD... (the last one is under the cursor): completions, sorted, in `got`.
ask() {
    local word
    COMP_WORDS=(penstock)
    for word; do
        if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
            COMP_WORDS+=("${word%%=*}" =)
            [[ -z ${word#*=} ]] || COMP_WORDS+=("${word#*=}")
        else COMP_WORDS+=("$word")
        fi
    done
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _penstock
    got=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' ')
    got=${got% }
}
# expect 'COMPLETIONS' WORD...
expect() {
    local want=$1
    shift
    ask "$@"
    [[ $got == "$want" ]] ||
        { printf 'FAILED: penstock %s\n  expected: %s\n  got:      %s\n' "$*" "$want" "$got"; bad=1; }
}
# holds 'WORD' WORD...: among the completions.
holds() {
    local want=$1
    shift
    ask "$@"
    [[ " $got " == *" $want "* ]] ||
        { printf 'FAILED: penstock %s\n  expected among: %s\n  got: %s\n' "$*" "$want" "$got"; bad=1; }
}
expect 'train' tr
holds 'doctor' ''
holds '--version' --
expect '--ranks' train --ra
expect 'collectives generate kernels p2p step' bench ''
expect 'p2p' bench kernels p
expect '--ranks --replay --resume --runs' train --r
expect 'other.yml run.yaml share texts two words.yaml' train ''
expect 'run.yaml' train ru
expect 'texts' train --runs te
expect '' train -n ''
expect 'train.lr= train.lr_min=' train run.yaml train.lr
expect 'parallel.schedule= parallel.schedule_file=' train -n 4 run.yaml parallel.sch
expect 'schedule= schedule_file=' train run.yaml sched
expect 'train.decay= train.decay_params= train.decay_steps=' train run.yaml lr=1e-3 train.dec
expect '1f1b 1f1b-early' train run.yaml parallel.schedule=1
expect '1f1b 1f1b-early' train run.yaml schedule=1
expect 'cosine inverse-sqrt linear none wsd' train run.yaml train.decay=
expect 'auto' train run.yaml parallel.device=a
expect 'gpt2 gpt2-large gpt2-medium gpt2-xl' train run.yaml model.preset=gpt2
expect 'weights.safetensors' train run.yaml model.weights=w
expect '' train run.yaml train.lr=
expect '' train run.yaml nosuch=
expect 'gpipe' simulate --schedule g
expect 'gpipe' simulate --schedule=g
expect 'instructions' inspect --show i
expect 'weights.safetensors' inspect w
expect 'convert' help con
expect '' doctor ''
expect '--cluster-out --help --json' doctor --
COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}
expect 'parallel.schedule=1f1b parallel.schedule=1f1b-early' train run.yaml parallel.schedule=1
expect '--schedule=gpipe' simulate --schedule=g
exit $bad
BASH
bash --norc --noprofile ask.bash share/bash-completion/completions/penstock || exit 1

# Every command, suite, key and option that --help prints is offered.
bad=0
script=share/bash-completion/completions/penstock
"$PENSTOCK" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >commands
"$PENSTOCK" bench --help | tr '\n' ' ' | grep -o 'Suite  *[a-z0-9]*' | sed 's/Suite *//' | sort -u >suites
[ "$(wc -l <commands)" -ge 11 ] && [ "$(wc -l <suites)" -ge 4 ] ||
    { echo "FAILED: in --help: $(cat commands suites)"; bad=1; }
sed -n "s/^_penstock_commands='\(.*\)'/\1/p" $script | tr ' ' '\n' | cmp - commands || bad=1
sed -n "s/^_penstock_suites='\(.*\)'/\1/p" $script | tr ' ' '\n' | sort | cmp - suites || bad=1
"$PENSTOCK" train --help | awk '/^[a-z_.]+:$/ { section = $1; sub(":", ".", section) }
    /^Keys of the run file/ { keys = 1 }
    keys && /^  [a-z]/ { print section $1 "=" } keys && /^[a-z_]+ / { print $1 "=" }' | sort >keys
sed -n "s/^_penstock_keys='\(.*\)'/\1/p" $script | tr ' ' '\n' | sort | cmp - keys || bad=1
for command in $(sed -n "s/^_penstock_commands='\(.*\)'/\1/p" share/bash-completion/completions/penstock); do
    "$PENSTOCK" "$command" --help | sed -n 's/^  .*\(--[a-z-]*\).*/\1/p' | sort -u | while read -r option; do
        grep -q "^    $command) .*$option " share/bash-completion/completions/penstock || [ "$option" = --help ] ||
            echo "$command $option"
    done >missing
    [ ! -s missing ] || { echo "FAILED: not offered:"; cat missing; bad=1; }
done
exit $bad
