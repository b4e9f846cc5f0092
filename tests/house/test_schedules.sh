#!/bin/sh
# test: label=quick timeout=30 isa=any
# A schedule is one row: outside pipeline/schedule no code spells the name of one, be it to compare, in a list or to ask
# for it. TREE=DIR looks at another tree (the test uses it to see that it can fail).
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
names=$(sed -n 's/^ *{\.name = "\([^"]*\)".*/\1/p' "$source_dir/pipeline/schedule/rows.c" | tr '\n' ' ')
[ "$(echo "$names" | wc -w)" -ge 13 ] || {
    echo "no names in pipeline/schedule/rows.c"
    exit 1
}

# file name: why. A line that nothing needs any more is an error, too.
exceptions='
src/config/rows.c 1f1b: the default of parallel.schedule; config may use base only
src/config/rows.c HELP: the help of parallel.schedule
src/config/conditional.c custom: a value of parallel.schedule decides whether parallel.schedule_file is read
src/cli/simulate.c HELP: cli uses include/penstock only
src/cli/manual.c HELP: an example of a run file
src/prepare/solved_file.c solved: a key of the file that has solved schedules
src/report/plan.h forward: the pass F
src/report/step_rows.c forward: the pass F
src/backends/registry.c custom: a kind of data
src/generate/source.c custom: a kind of data and of model
src/metrics/evaluate.c custom: a kind of data
src/prepare/graph.c custom: a kind of model
src/prepare/labels.c custom: a kind of data
src/run/session.c custom: a kind of data
'

# Strings of the sources below TREE, comments left out. A string is a name, or (HELP) has one that is no word of English,
# or one behind `schedule=`.
spelled() {
    (cd "$1" && find src pipeline partition include comm models kernels -path pipeline/schedule -prune -o \
        -name '*.[ch]' -print -o -name '*.cu' -print) |
        (cd "$1" && xargs awk -v names="$names" '
    BEGIN { n = split(names, name, " ") }
    FNR == 1 { comment = 0 }
    {
        rest = $0
        while (rest != "") {
            if (comment) {
                at = index(rest, "*/")
                if (!at) break
                rest = substr(rest, at + 2)
                comment = 0
            }
            if (!match(rest, /"([^"\\]|\\.)*"|\/\*|\047(\\.|[^\047])\047/)) break
            token = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (token == "/*") comment = 1
            else if (substr(token, 1, 1) == "\"") look(substr(token, 2, length(token) - 2))
        }
    }
    function look(text, i, known) {
        for (i = 1; i <= n; i++) {
            known = name[i] !~ /^(forward|custom|solved|interleaved)$/
            if (text == name[i]) print FILENAME " " name[i] " " FNR
            else if (text ~ "schedule=" name[i] "$") print FILENAME " " name[i] " " FNR
            else if (known && (" " text " ") ~ "[^a-z0-9-]" name[i] "[^a-z0-9-]") print FILENAME " HELP " FNR
        }
    }
    END { if (!NR) print "sources none 0" }') | sort -u
}

if [ -n "${TREE:-}" ]; then
    found=$(spelled "$TREE")
    echo "$found"
    [ -z "$found" ]
    exit
fi
spelled "$source_dir" | EXCEPTIONS=$exceptions awk '
    BEGIN {
        n = split(ENVIRON["EXCEPTIONS"], line, "\n")
        for (i = 1; i <= n; i++) {
            if (line[i] == "") continue
            split(line[i], word, "[ :]")
            allowed[word[1] " " word[2]] = 1
        }
    }
    ($1 " " $2) in allowed { used[$1 " " $2] = 1; next }
    { printf "%s:%d: spells the name of a schedule (%s); ask its row, or pipeline/schedule/schedule.h\n", $1, $3, $2; bad++ }
    END {
        for (a in allowed)
            if (!(a in used)) { print "tests/house/test_schedules.sh: no such name any more: " a; bad++ }
        exit bad > 0
    }'

# What spells a name must be seen, and nothing else.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in src/run pipeline/schedule partition include comm models kernels; do mkdir -p "$work/$folder"; done
see() {
    printf '%s\n' "$1" >"$work/src/run/a.c"
    if TREE=$work sh "$0" >/dev/null; then
        echo "not seen: $1"
        exit 1
    fi
}
see 'if (!strcmp(row->name, "zb-h1")) return 1;'
see 'if (strcmp(c->parallel.schedule, "custom") == 0) return 1;'
see 'int other = strcmp(row->name,
                 "interleaved");'
see 'static const char *const names[] = {"v-half", "v-min"};'
see 'const char *name = chunks == 1 ? "x" : "zb-v";'
see 'const char *path = "a/*.txt"; snprintf(name, 32, "solved"); /* ' 
see "char quote = '\"'; PST_TRY(pst_schedule_find(\"1f1b\", &row));"
see 'static const char *const override[] = {"parallel.schedule=interleaved"};'
see 'puts("one of gpipe, 1f1b");'
printf '/* as in "zb-v",\n * "v-min" */\nconst char *a = "is solved", *b = "a custom file", *c = "b1f1b-x"; /* "gpipe" */\n' >"$work/src/run/a.c"
TREE=$work sh "$0"
