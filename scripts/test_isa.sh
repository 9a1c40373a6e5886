#!/usr/bin/env bash
# usage: test_isa.sh PROGRAM FOLDER [ARG...]
# Runs a compiled test program in FOLDER once for each kind of x86-64 CPU that this CPU can imitate: instruction sets are
# disabled in our kernels, oneDNN and OpenBLAS. Other kinds are listed and skipped. MASKS selects kinds. SAME matches tests that
# make test runs on each instruction set already. `make test-isa` runs all programs; scripts/gpu/run.sh runs this script on a
# GPU's host.
set -uo pipefail
program=$1 folder=$2
shift 2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# name, GEMMAUDIT_ISA, ONEDNN_MAX_CPU_ISA, OPENBLAS_CORETYPE, and the required flags of /proc/cpuinfo
kinds=(
  "portable portable SSE41 Nehalem sse4_1"
  "avx2 avx2 AVX2 Haswell avx2 fma f16c"
  "avx512-core avx512-core AVX512_CORE SkylakeX avx512f avx512bw avx512dq avx512vl"
  "avx512-vnni avx512-vnni AVX512_CORE_VNNI SkylakeX avx512f avx512bw avx512dq avx512vl avx512_vnni"
  "avx512-bf16 avx512 AVX512_CORE_BF16 Cooperlake avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16"
  "amx amx AVX512_CORE_AMX SapphireRapids avx512_bf16 amx_tile amx_bf16 amx_int8"
)
has=" $(sed -n 's/^flags[^:]*: *//p' /proc/cpuinfo | head -n 1) "
failed=0
for kind in "${kinds[@]}"; do
  read -r name ours onednn openblas flags <<<"$kind"
  [[ " ${MASKS:-$name} " == *" $name "* ]] || continue
  lacks=
  for flag in $flags; do [[ $has == *" $flag "* ]] || lacks+=" $flag"; done
  if [[ $lacks ]]; then
    echo "isa: $name: skipped, this CPU lacks$lacks"
    continue
  fi
  # make test sets GEMMAUDIT_ISA to these two names, but not to the others.
  skip=()
  if [[ ${SAME:-} && $name =~ ^(portable|avx2)$ ]]; then skip=(-test.skip "$SAME"); fi
  began=$SECONDS
  if env -C "$folder" GEMMAUDIT_ISA="$ours" ONEDNN_MAX_CPU_ISA="$onednn" OPENBLAS_CORETYPE="$openblas" "$program" "$@" "${skip[@]}" >"$log" 2>&1; then
    echo "isa: $name: passed in $((SECONDS - began)) s: ${program##*/}"
  else
    failed=1
    cat "$log"
    echo "isa: $name: FAILED after $((SECONDS - began)) s: ${program##*/}; again: cd $folder && GEMMAUDIT_ISA=$ours ONEDNN_MAX_CPU_ISA=$onednn OPENBLAS_CORETYPE=$openblas $program $*"
  fi
done
exit $failed
