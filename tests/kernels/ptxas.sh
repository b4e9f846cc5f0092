#!/bin/sh
# ptxas.sh COMPILER ARGUMENT...: compiles with nvcc, and leaves what ptxas says of the kernels of OBJECT (-o OBJECT) in
# OBJECT.said, for test_cuda_registers.sh. Prints what else is said, and all of it where compiling fails.
object=
last=
for word; do
    [ "$last" != -o ] || object=$word
    last=$word
done
case $object in
*.o) ;;
*) exec "$@" ;;
esac
"$@" 2>"$object.said" || {
    status=$?
    cat "$object.said" >&2
    exit $status
}
grep -v -e '^ptxas info ' -e ' bytes spill stores, ' -e '^$' "$object.said" >&2
exit 0
