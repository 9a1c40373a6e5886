#!/usr/bin/env bash
# Makes the pages of docs/gallery, one per run: an audit with measured remedies, and its page.
#
#   scripts/gallery.sh measure CARD FOLDER   on a machine with an NVIDIA driver and gemmaudit. Writes
#                                            FOLDER/CARD-article.db and FOLDER/CARD-model.db, two to three minutes each.
#                                            CARD is a short name, such as h200.
#   scripts/gallery.sh along CARD FOLDER     the same with FOLDER/CARD-along-n.db: cuBLAS along N from 4000 to 4352 by 1,
#                                            and along the vocabularies of ten models, in a minute
#   scripts/gallery.sh fused CARD FOLDER     the same with FOLDER/CARD-fused.db: the products of Qwen2.5-7B's layers with their epilogues, fused
#                                            and separate, in some minutes. KERNELS names them (default: auto,auto-separate); on a CPU, DEVICE=cpu
#   scripts/gallery.sh python CARD FOLDER    the same with kernels of examples/python, in five minutes: FOLDER/CARD-compile.db, torch.compile
#                                            beside cuBLAS; CARD-triton.db and CARD-triton-again.db, a Triton kernel
#                                            tuned in two processes; CARD-sdpa.db, PyTorch's attention; CARD-grouped.db, its grouped products
#                                            of experts. Needs PyTorch.
#   scripts/gallery.sh pages FOLDER          anywhere: docs/gallery/NAME.html of each FOLDER/NAME.db, or into the folder PAGES
#
# Pages contain the command of the run, not the name of the machine. GEMMAUDIT is the program (default: gemmaudit), DEVICE the card (default: cuda:0), MOST the most bytes of a page (default: 2000000).
set -euo pipefail
gemmaudit=${GEMMAUDIT:-gemmaudit}

fail() { echo "gallery: $1" >&2; exit 2; }

# verdict runs an audit and accepts exit codes 1 and 4, which are verdicts.
verdict() {
  local code=0
  "$@" || code=$?
  [[ $code == 0 || $code == 1 || $code == 4 ]] || exit "$code"
}

# measure NAME FLAGS... measures one run.
measure() {
  local name=$1
  shift
  verdict "$gemmaudit" run --device "${DEVICE:-cuda:0}" --kernel "${kernels:-cublas,auto}" --block 1ms --images png --out "$name" "$@"
  cp "$name/run.db" "$name.db"
}

(( $# >= 1 )) || fail "expected measure, along, fused or python CARD FOLDER, or pages FOLDER"
case $1 in
measure | along | fused | python)
  (( $# == 3 )) || fail "expected $1 CARD FOLDER"
  [[ $2 =~ ^[a-z0-9][a-z0-9-]*$ ]] || fail "the card is $2: expected a short name of small letters, digits and hyphens, such as h200"
  card=$2
  mkdir -p "$3"
  examples=$(cd "$(dirname "$0")/.." && pwd)/examples/python
  cd "$3" # keeps paths out of the page
  if [[ $1 == python ]]; then
    ln -sfn "$examples" python
    few=1,8,16,24,48,64,96,128,256,512,768,1024,1536,2048,4096,8192
    kernels=cublas,linear,compiled,max-autotune measure "$card-compile" --kernel-file python/linear.py --shape n4096k4096 --batch $few --dtype bf16
    for name in triton triton-again; do
      kernels=cublas,python/triton_matmul.py measure "$card-$name" --shape n14336k4096,n4096k4096 --batch $few --dtype bf16
    done
    kernels=flash,decode,python/attention.py measure "$card-sdpa" --op attention --shape q32kv8d128 --batch pow2:128:16384 --dtype bf16
    kernels=cublas,python/grouped_mm.py measure "$card-grouped" --shape n28672k4096g8t2s100d1 --batch $few --dtype bf16
    exit
  fi
  if [[ $1 == fused ]]; then
    kernels=${KERNELS:-auto,auto-separate} measure "$card-fused" --model qwen2.5-7b --epilogue model --dtype bf16 \
      --batch "${BATCH:-1,2,4,8,16,32,48,64,96,128,192,256}"
    exit
  fi
  if [[ $1 == along ]]; then
    # GPT-2 and what it can be padded to, then Llama 2, Phi-3, Mistral, Falcon, DeepSeek-V2, Llama 3, DeepSeek-V3, Qwen2.5 and Gemma
    vocabularies=$(printf ',m64n%dk4096' 50257 50264 50304 32000 32064 32768 65024 102400 128256 129280 152064 256000)
    kernels=cublas measure "$card-along-n" --shape "m2048n4000:4352:1k4096$vocabularies" --dtype bf16
    exit
  fi
  measure "$card-article" --shape n14336k4096,n4096k4096 --layout kn --dtype fp16 --batch 8:8192:8
  measure "$card-model" --model mistral-7b --dtype bf16 --batch 16:4096:16
  ;;
pages)
  (( $# == 2 )) || fail "expected pages FOLDER"
  runs=("$2"/*.db)
  [[ -e ${runs[0]} ]] || fail "$2 has no run file, *.db"
  pages=${PAGES:-$(cd "$(dirname "$0")/.." && pwd)/docs/gallery}
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  for run in "${runs[@]}"; do
    name=$(basename "$run" .db)
    # Exit code 4: proof was dropped, since it was made with other rules.
    verdict "$gemmaudit" report "$run" --compress --anonymous --images svg --out "$scratch/$name"
    size=$(wc -c < "$scratch/$name/index.html")
    (( size <= ${MOST:-2000000} )) || fail "the page of $run has $size bytes, expected at most ${MOST:-2000000}: sweep fewer M"
    cp "$scratch/$name/index.html" "$pages/$name.html"
    echo "$pages/$name.html: $size bytes"
  done
  ;;
*) fail "$1 is unknown: expected measure, along, fused, python or pages" ;;
esac
