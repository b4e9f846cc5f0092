#!/bin/sh
# test: label=quick timeout=20
# libpenstock exports what include/penstock/ declares with PST_API, all of it and nothing else.
set -eu
library=$(dirname "$PENSTOCK")/libpenstock.so
command -v nm >/dev/null 2>&1 || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$SOURCE_DIR"/include/penstock/*.h | grep '^PST_API' | sed 's/.*[ *]\(pst_[a-z0-9_]*\)(.*/\1/' | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' | grep -v -e '^__' -e '^_fini$' -e '^_init$' | sort -u >"$work/exported"
diff -u "$work/declared" "$work/exported"
