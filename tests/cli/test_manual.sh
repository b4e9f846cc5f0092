#!/bin/sh
# test: label=quick timeout=60 isa=any
# Manual pages as written by the program: a page for each command with every option of its --help, a page with every key
# of a run file; and where man, mandoc are there, well-formed. `penstock help COMMAND` is `COMMAND --help`.
. "$(dirname "$0")/../script.sh"
wrong() {
    echo "FAILED: $*"
    bad=1
}
"$PENSTOCK" help --write "$folder/share" || exit 1
man=share/man/man1

# Pages as text without markup, for searching.
plain() { sed -e 's/\\f[BIR]//g' -e 's/\\-/-/g' -e "s/\\\\(aq/'/g" -e 's/\\(ti/~/g' "$1"; }

commands=$("$PENSTOCK" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 7 ] || wrong "only these commands in --help: $commands"
[ "$(echo "$commands" | wc -w)" = "$(find $man -name 'penstock-*.1' | wc -l)" ] ||
    wrong "pages are not those of the commands"
for command in $commands; do
    "$PENSTOCK" "$command" --help >help.txt
    "$PENSTOCK" help "$command" | cmp -s - help.txt || wrong "help $command is not $command --help"
    plain $man/penstock-"$command".1 >page.txt
    sed -n '/^Options:/,/^$/s/^  .*\(--[a-z-]*\).*/\1/p' help.txt >options
    [ -s options ] || wrong "$command --help lists no options"
    while read -r option; do
        grep -q -e "^\(-., \)*$option" page.txt || wrong "penstock-$command(1) lacks $option"
    done <options
    grep -q "^.BR penstock-$command (1)" $man/penstock.1 ||
        plain $man/penstock.1 | grep -q "^.BR penstock-$command (1)" ||
        wrong "penstock(1) lacks $command"
done
printf 'model: {kind: gpt, preset: nano}\ndata: {paths: [run.yaml]}\n' >run.yaml
plain share/man/man5/penstock.yaml.5 >page.txt
"$PENSTOCK" train --help | sed -n '/^Keys/,$s/^ \{0,2\}\([a-z][a-z0-9_]*\) .*/\1/p' | grep -v '^Keys' >keys
[ "$(wc -l <keys)" -gt 40 ] || wrong "train --help lists $(wc -l <keys) keys"
while read -r key; do grep -q "^.B $key\$" page.txt || wrong "penstock.yaml(5) lacks $key"; done <keys

if command -v man >/dev/null 2>&1 && command -v groff >/dev/null 2>&1; then
    for page in $man/*.1 share/man/man5/*.5; do
        LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null |
            sed "s|^|$page: |"
    done >complaints
    [ ! -s complaints ] || { wrong "man complains"; cat complaints; }
fi
if command -v mandoc >/dev/null 2>&1; then
    mandoc -Tlint $man/*.1 share/man/man5/*.5 >complaints 2>&1
    [ ! -s complaints ] || { wrong "mandoc complains"; cat complaints; }
fi

rc=0; "$PENSTOCK" help trian >out 2>err || rc=$?
[ $rc = 2 ] && grep -q "did you mean 'train'" err || wrong "help trian: status $rc"
rc=0; "$PENSTOCK" help --write /dev/null/x >out 2>err || rc=$?
[ $rc = 2 ] && grep -q '^penstock: cannot write /dev/null/x/man' err || wrong "help --write below a file: status $rc"
exit $bad
