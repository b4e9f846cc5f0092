#!/bin/sh
# test: label=quick timeout=20
# libpenstock exports what include/penstock/ declares with PST_API, all of it, nothing else, under a version of the map.
# The CUDA module exports one function, and has no error trail of its own.
# Every public header stands on its own in C and, where there is a compiler for it, in C++.
set -eu
library=$(dirname "$PENSTOCK")/libpenstock.so
headers=$SOURCE_DIR/include
command -v nm >/dev/null 2>&1 || { echo "skipped: no nm here (apt-get install binutils)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$headers"/penstock/*.h | grep '^PST_API' | sed 's/.*[ *]\(pst_[a-z0-9_]*\)(.*/\1@@PENSTOCK_0/' |
    sort -u >"$work/declared"
nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }' |
    grep -v -e '^__' -e '^_fini$' -e '^_init$' | sort -u >"$work/exported"
diff -u "$work/declared" "$work/exported"
[ "$(wc -l <"$work/declared")" -gt 40 ]
module=$(dirname "$PENSTOCK")/libpenstock-cuda.so
if [ -e "$module" ]; then
    [ "$(nm -D --defined-only "$module" | awk '$2 != "A" { print $3 }')" = pst_module_open@@PENSTOCK_MODULE ]
    if nm "$module" | grep ' pst_status_text$'; then exit 1; fi # of status.c
fi

for header in "$headers"/penstock/*.h; do
    printf '#include "penstock/%s"\n#include "penstock/%s"\nint main(void) { return (int)sizeof(pst_status) - 4; }\n' \
        "${header##*/}" "${header##*/}" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cc"
    cc -std=c11 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -I"$headers" -fsyntax-only "$work/alone.c"
    if command -v c++ >/dev/null 2>&1; then
        c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$headers" -fsyntax-only "$work/alone.cc"
    fi
done
