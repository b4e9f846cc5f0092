#!/bin/sh
# test: label=full isa=any
# What ptxas said of each kernel of our own when the module was built (ptxas.sh), for each of the module's
# architectures (sm_80, sm_90a and sm_100 by default): none keeps registers in memory (spills), those of layer norm leave
# room for 1024 threads on a multiprocessor of 65,536 registers. With one of the names of kernels/cuda/*.cu as argument,
# that file alone.
. "$(dirname "$0")/../script.sh"
build=$(dirname "$PENSTOCK")
[ -e "$build/libpenstock-cuda.so" ] || skip "the CUDA module is not built"

# name of the kernel, architecture, bytes that it spills, registers
table() {
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2]; arch = part[4] }
         /bytes spill stores/ { for (i = 2; i < NF; i++) if ($i == "bytes" && $(i + 1) == "spill" && $(i + 2) ~ /^stores/) spill = $(i - 1) }
         /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") print name, arch, spill, $(i + 1) }' "$1"
}

for source in "$SOURCE_DIR"/kernels/cuda/${1:-*}.cu; do
    name=$(basename "$source" .cu)
    said=$build/CMakeFiles/penstock_cuda.dir/kernels/cuda/$name.cu.o.said
    [ -e "$said" ] || { fail "$name: no $said: was the module built with PST_TESTS=ON?"; continue; }
    table "$said" >kernels
    [ "$(wc -l <kernels)" -ge 3 ] || fail "$name: ptxas says nothing of its kernels: $(head -3 "$said")"
    awk -v file="$name" '$4 > most[$2] { most[$2] = $4 }
        END { printf "%s: %d kernels, at most", file, NR; for (a in most) printf " %d (%s)", most[a], a
              print " registers" }' kernels
    while read -r kernel arch spill registers; do
        [ "$spill" = 0 ] || fail "$name: $kernel on $arch spills $spill bytes at $registers registers"
        case $kernel in
        *layer_norm_[fb]I* | *layer_norm_bwI*) [ "$registers" -le 64 ] || fail "$name: $kernel on $arch takes $registers registers" ;;
        esac
    done <kernels
done
exit $bad
