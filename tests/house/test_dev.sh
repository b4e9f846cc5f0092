#!/bin/sh
# test: label=quick timeout=20
# The front door without building: help, unknown commands, and --no-install naming what is missing.
set -eu
cd "$SOURCE_DIR"
fail() {
    echo "$*" >&2
    exit 1
}
./dev help | grep -q 'demo' || fail "help does not list demo"
for script in dev .ci/run; do [ -x $script ] || fail "$script is not executable"; done
rc=0; ./dev 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "no command: status $rc, expected 2"
rc=0; ./dev dmeo 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "unknown command: status $rc, expected 2"
rc=0; ./dev build nosuch 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "unknown preset: status $rc, expected 2"
for words in '--isa' '--isa sse9' 'quick --isa avx512bf16' 'quik' 'quick --isb avx2'; do
    rc=0
    # shellcheck disable=SC2086
    ./dev test $words >/dev/null 2>&1 || rc=$?
    [ $rc = 2 ] || fail "test $words: status $rc, expected 2"
done

# What was skipped is listed with its reason, as CTest reports it.
report=$(mktemp)
cat >"$report" <<'END'
<testsuite name="x" tests="4" failures="1" skipped="2">
	<testcase name="a.whole" classname="a.whole" time="0.1" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>skipped: needs &quot;x&quot; &lt; 1 &amp; that
</system-out>
	</testcase>
	<testcase name="a.silent" classname="a.silent" time="0.03" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>not skipped: said in passing
</system-out>
	</testcase>
	<testcase name="a.part" classname="a.part" time="12.5" status="run">
		<system-out>[ RUN      ] x
skipped: one: why
skipped: one: why
skipped: two: because</system-out>
	</testcase>
	<testcase name="a.none" classname="a.none" time="9.25" status="fail">
		<failure message=""/>
		<system-out>all is skipped: no
</system-out>
	</testcase>
</testsuite>
END
sh tests/skipped.sh "$report" >"$report.is"
cat >"$report.wanted" <<'END'
skipped a.whole: needs "x" < 1 & that
skipped a.silent: it does not say why
skipped a part of a.part: one: why
skipped a part of a.part: two: because
END
diff "$report.wanted" "$report.is" >&2 || fail "the list of what was skipped is another one"
sh tests/slowest.sh "$report" 3 | tr -s ' ' >"$report.is"
printf ' %s s %s\n' 12.5 a.part 9.2 a.none 0.1 a.whole >"$report.wanted"
diff "$report.wanted" "$report.is" >&2 || fail "the list of the slowest tests is another one"
rm -f "$report" "$report.wanted" "$report.is"

# Every exit with 77 says why, on the same line or the one before.
silent=$(for file in tests/*/*.sh tests/*/*.c tests/*.sh; do
    awk -v file="$file" '
        /(exit|return) 77/ && !/skipped: / && last !~ /skipped: / && !/mount --rbind/ { print file ": " $0 }
        { last = $0 }' "$file"
done)
[ -z "$silent" ] || fail "skipped without a reason: $silent"

# A machine where nothing is installed: dpkg-query finds no package.
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$fake/dpkg-query"
chmod +x "$fake/dpkg-query"
for command in 'demo' 'test'; do
    rc=0
    said=$(PATH=$fake:$PATH ./dev --no-install $command 2>&1) || rc=$?
    [ $rc = 2 ] || fail "--no-install $command: status $rc, expected 2"
    for package in gcc cmake libucx-dev libpmix-dev libdnnl-dev libhwloc-dev; do
        case $said in *"$package"*) ;; *) fail "--no-install $command does not name $package: $said" ;; esac
    done
done
case $said in *libcmocka-dev*) ;; *) fail "--no-install test does not name libcmocka-dev" ;; esac
