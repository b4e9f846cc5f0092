#!/bin/sh
# test: label=quick timeout=30 isa=any
# A schedule is one row: outside pipeline/schedule nothing compares the name of one, be it with strcmp or in a list of
# names. TREE=DIR looks at another tree (the test uses it to see that it can fail).
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
names=$(sed -n 's/^ *{\.name = "\([^"]*\)".*/\1/p' "$source_dir/pipeline/schedule/rows.c" | tr '\n' ' ')
[ "$(echo "$names" | wc -w)" -ge 13 ] || {
    echo "no names in pipeline/schedule/rows.c"
    exit 1
}

# The sources below TREE, each statement on one line. "custom" is a kind of model and of data, too.
comparisons() {
    (cd "$1" && find src pipeline partition include comm models -path pipeline/schedule -prune -o -name '*.[ch]' -print) |
        (cd "$1" && xargs awk -v names="$names" '
    BEGIN { n = split(names, name, " ") }
    FNR == 1 { statement = "" }
    {
        statement = statement $0
        if ($0 !~ /[;{}]/) next
        for (i = 1; i <= n; i++) {
            if (name[i] == "custom" && statement !~ /schedule/) continue
            if (index(statement, "\"" name[i] "\"") == 0) continue
            if (statement ~ "str(n|case)?cmp\\([^;]*\"" name[i] "\"" || statement ~ "char \\*(const )?[a-z_]*\\[[A-Z_0-9]*\\] *= *\\{.*\"" name[i] "\"") {
                printf "%s:%d: compares with schedule \"%s\"; make it a member of its row\n", FILENAME, FNR, name[i]
                bad++
            }
        }
        statement = ""
    }
    END { exit bad > 0 || NR == 0 }')
}

if [ -n "${TREE:-}" ]; then
    comparisons "$TREE"
    exit
fi
comparisons "$source_dir"

# What compares must be seen.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in src/run pipeline/schedule partition include comm models; do mkdir -p "$work/$folder"; done
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
printf 'const char *like = "zb-v";\nif (!strcmp(c->data.kind, "custom")) return 1;\n' >"$work/src/run/a.c"
TREE=$work sh "$0"
