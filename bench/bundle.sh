#!/bin/sh
# A folder with which bench/cuda.py runs on a machine that has a GPU, its driver and the vendor's libraries (cuBLASLt, cuDNN,
# Python with PyTorch for the peer's rows), but nothing else of what penstock needs:
#
#     bench/bundle.sh [--vendor] DIR   here, after ./dev build (PRESET=release)
#     DIR/run bench/cuda.py [options]  there; DIR/run penstock doctor, ... likewise
#
# It holds the program, its module, the tests that need a GPU, the scripts, and every library but the C library's and
# the vendor's; `run` lets them be found. --vendor carries cuBLASLt, NVRTC, cuDNN and NCCL along, 1.5 GB, unchanged and
# in a folder of their own: NVIDIA's agreements list them as what may be distributed with an application (CUDA EULA,
# attachment A; cuDNN's supplement: "the runtime files .so"), on terms that their texts say. What cannot come along is
# a driver, 580 or later for CUDA 13, and the C library, which is the whole system's: `run` says in one line what is
# missing of these.
set -eu
vendor=
[ "${1:-}" != --vendor ] || { vendor=1; shift; }
case "$#${1:-}" in
1-h | 1--help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit ;;
1-* | 0* | [2-9]*) echo "usage: bench/bundle.sh [--vendor] DIR (--help says more)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/${PRESET:-release}
[ -e "$build/libpenstock-cuda.so" ] || { echo "bundle: $build has no CUDA module: ./dev build where nvcc, cuBLASLt and cuDNN are" >&2; exit 2; }
mkdir -p "$1/lib/old" "$1/bin/gpu-tests"
to=$(cd "$1" && pwd)

cp -a "$build/penstock" "$build"/*.so "$build"/*.so.* "$to/bin/"
ctest --test-dir "$build" -N -V -L gpu | sed -n 's/.*Test command: *//p' | tr -d '"' | while read -r program _; do
    cp "$program" "$to/bin/gpu-tests/"
done
mkdir -p "$to/tests"
cp -r "$root/bench" "$root/src" "$to/"
cp -r "$root/tests/parity" "$to/tests/"

# What is loaded by name at run time lies beside what links it: UCX's and PMIx's components.
pmix=$(ldd "$build/libpenstock.so" | awk '/libpmix/ {print $3}')
ucx=$(dirname "$(ldd "$build/libpenstock.so" | awk '/libuct/ {print $3}')")/ucx
cp -rL "$ucx" "$to/lib/ucx"
rm -f "$to"/lib/ucx/*.a
cp -rL "$(dirname "$pmix")/pmix" "$to/lib/pmix"
share=$(dirname "$(dirname "$pmix")")/share
[ ! -d "$share" ] || cp -rL "$share" "$to/share"
for binary in "$build"/libpenstock.so "$build"/penstock-commands.so "$to"/bin/gpu-tests/* "$to"/lib/ucx/*.so "$to"/lib/pmix/*.so; do
    ldd "$binary"
done | awk '$3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
    case $name in
    libstdc++* | libgcc_s* | libgomp* | libz.so* | libcrypto*) cp -L "$path" "$to/lib/old/$name" ;; # where there are none
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so* | libpenstock*) ;;
    libcublas* | libcudnn* | libnccl* | libcuda.so*) ;;
    *) cp -L "$path" "$to/lib/$name" ;;
    esac
done

# The vendor's, beside those that the module is linked with: what cuDNN loads by name.
carry_vendor() {
    mkdir -p "$to/lib/vendor"
    for library in $(ldd "$build/libpenstock-cuda.so" | awk '/libcublasLt|libcudnn/ && $3 ~ /^\// {print $3}'); do
        from=$(dirname "$library")
        for file in "$from"/libcublasLt.so.[0-9]* "$from"/libcudnn*.so.[0-9]* "$from"/libnvrtc.so.[0-9]* \
            "$from"/libnvrtc-builtins.so.[0-9]* "$from"/libnccl.so.[0-9]*; do
            name=$(basename "$file")
            [ ! -e "$file" ] || [ -e "$to/lib/vendor/$name" ] || cp -L "$file" "$to/lib/vendor/$name"
        done
    done
    cat >"$to/lib/vendor/NOTICE" <<'END'
NVIDIA's libraries, as NVIDIA made them. They are not penstock's and not under its licence: cuBLASLt and NVRTC are under
the CUDA Toolkit's End User License Agreement, cuDNN under its own Software License Agreement with NVIDIA, NCCL under
its licence on github.com/NVIDIA/nccl. They are here for penstock alone to use, on systems with NVIDIA's GPUs.
END
}
[ -z "$vendor" ] || carry_vendor

# What of the C library the files here ask for.
for binary in "$to"/bin/penstock "$to"/bin/*.so* "$to"/lib/*.so*; do readelf -V "$binary" 2>/dev/null; done |
    grep -o 'GLIBC_2[.][0-9]*' | sort -u -t. -k2 -n | tail -1 | cut -c7- >"$to/needs-glibc"

cat >"$to/run" <<'END'
#!/bin/sh
# Runs what follows with the libraries of this folder; the vendor's are looked for where Python packages have them, too.
here=$(cd "$(dirname "$0")" && pwd)
# What the folder cannot carry: the C library and the driver. Without a driver all but GPUs works.
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }
needs=$(cat "$here/needs-glibc") has=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
driver=$(sed -n 's/.* \([0-9][0-9]*\.[0-9.]*\) .*/\1/p' "${PENSTOCK_DRIVER_FILE:-/proc/driver/nvidia/version}" 2>/dev/null | head -1)
missing=
if [ -z "$has" ]; then missing="glibc $needs"; elif older "$has" "$needs"; then missing="glibc $needs (here is $has)"; fi
if [ -z "$driver" ]; then missing="${missing:+$missing, }an NVIDIA driver, 580 or later"
elif older "$driver" 580; then missing="${missing:+$missing, }NVIDIA driver 580 or later (here is $driver)"; fi
[ -z "$missing" ] || echo "run: missing here: $missing" >&2
vendor=$(python3 -c 'import glob, sys
print(":".join(f for p in sys.path if p for f in glob.glob(p + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH="$here/bin:$here/lib:$here/lib/vendor:${vendor:+$vendor:}${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:$here/lib/old"
export PATH="$here/bin:$PATH" PENSTOCK="$here/bin/penstock" UCX_MODULE_DIR="$here/lib/ucx"
export PENSTOCK_MODULE="$here/bin/libpenstock-cuda.so" # tests lie in a folder of their own
export PMIX_MCA_mca_base_component_path="$here/lib/pmix" PMIX_PREFIX="$here"
cd "$here" && exec "$@"
END
chmod +x "$to/run"
strip --strip-unneeded "$to"/bin/*.so* "$to"/bin/gpu-tests/* "$to"/lib/*.so* 2>/dev/null || true
du -sh "$to" | cut -f1
