#!/usr/bin/env bash
# Makes a folder for linking with an older glibc:
#
#   scripts/wheel/glibc.sh PYTHON 2.28 x86_64 FOLDER
#
# The folder gets start-up code and stub libraries of that glibc, made by zig from its symbol tables, and a script `link` that
# calls the C compiler $CC with this folder first. Only linking changes: objects and kernels stay the same.
set -euo pipefail

python=$1 glibc=$2 machine=$3 folder=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int main(void) { return 0; }' > "$work/empty.c"
# Zig would compile its run-time libraries, which nothing here links.
ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache \
  "$python" -m ziglang build-exe "$work/empty.c" -target "$machine-linux-gnu.$glibc" -lc -fno-compiler-rt -fno-ubsan-rt \
  -femit-bin="$work/empty"

rm -rf "$folder"
mkdir -p "$folder"
for name in crt1.o libc_nonshared.a libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 libresolv.so.2 librt.so.1 libld.so.2; do
  found=$(find "$work/cache/o" -name "$name" -print -quit)
  [[ -n $found ]] || { echo "glibc.sh: zig made no $name" >&2; exit 1; }
  cp "$found" "$folder"
done
for name in libm.so.6 libpthread.so.0 libdl.so.2 libresolv.so.2 librt.so.1; do ln -s "$name" "$folder/${name%%.so*}.so"; done
# GNU's linker finds libc by this name. libc_nonshared.a has the static parts, libld.so.2 is the loader.
echo 'GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )' > "$folder/libc.so"
# The path stays as given, so every clone links with the same arguments.
# shellcheck disable=SC2016  # the linker script expands CC when it runs
printf '#!/bin/sh\nexec ${CC:-cc} -B%s -L%s "$@"\n' "$folder" "$folder" > "$folder/link"
chmod +x "$folder/link"
