#!/usr/bin/env bash
# Makes the pages of docs/gallery, each of one run: an audit that measures, proves and executes remedies, and a page that shows it.
#
#   scripts/gallery.sh measure CARD FOLDER   on a machine with an NVIDIA driver; it needs nothing but gemmaudit. Leaves
#                                            FOLDER/CARD-article.db and FOLDER/CARD-model.db, after two to three minutes each.
#                                            CARD is a short name, such as h200.
#   scripts/gallery.sh pages FOLDER          anywhere: docs/gallery/NAME.html of each FOLDER/NAME.db. PAGES is another folder for them
#
# Pages hold the command of the run and no name of the machine. GEMMAUDIT is the program, with its path from / or on the PATH (default: gemmaudit), DEVICE the card (default: cuda:0), MOST the most bytes of a page (default: 2000000).
set -euo pipefail
gemmaudit=${GEMMAUDIT:-gemmaudit}

fail() { echo "gallery: $1" >&2; exit 2; }

# verdict runs an audit, whose exit codes 1 and 4 are verdicts.
verdict() {
  local code=0
  "$@" || code=$?
  [[ $code == 0 || $code == 1 || $code == 4 ]] || exit "$code"
}

# measure NAME FLAGS... leaves one run.
measure() {
  local name=$1
  shift
  verdict "$gemmaudit" run --device "${DEVICE:-cuda:0}" --kernel cublas,auto --block 1ms --images png --out "$name" "$@"
  cp "$name/run.db" "$name.db"
}

(( $# >= 1 )) || fail "expected measure CARD FOLDER, or pages FOLDER"
case $1 in
measure)
  (( $# == 3 )) || fail "expected measure CARD FOLDER"
  [[ $2 =~ ^[a-z0-9][a-z0-9-]*$ ]] || fail "the card is $2: expected a short name of small letters, digits and hyphens, such as h200"
  card=$2
  mkdir -p "$3"
  cd "$3" # so that no path stands in the page
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
    # Exit code 4 says that proof was undone, by other rules than those it was made with.
    verdict "$gemmaudit" report "$run" --compress --anonymous --images svg --out "$scratch/$name"
    size=$(wc -c < "$scratch/$name/index.html")
    (( size <= ${MOST:-2000000} )) || fail "the page of $run has $size bytes, expected at most ${MOST:-2000000}: sweep fewer M"
    cp "$scratch/$name/index.html" "$pages/$name.html"
    echo "$pages/$name.html: $size bytes"
  done
  ;;
*) fail "$1 is unknown: expected measure or pages" ;;
esac
