#!/usr/bin/env bash
# Makes a release twice and compares the bytes, then runs each machine's program, that of another
# machine under qemu-user:
#
#   scripts/release_check.sh v0.9.0
set -euo pipefail

fail() { echo "release-check: $1" >&2; exit 1; }

(( $# == 1 )) || fail "usage: release_check.sh VERSION"
version=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/release.sh" "$version" "$work/one"
mkdir "$work/longer"
(umask 077 && TZ=Asia/Tokyo "$here/release.sh" "$version" "$work/longer/two") >/dev/null
diff -r "$work/one" "$work/longer/two" || fail "two releases of one commit differ"

(cd "$work/one" && sha256sum --quiet -c SHA256SUMS)
declare -A machine=([amd64]=x86_64 [arm64]=aarch64)
for arch in amd64 arm64; do
  name=gemmaudit_${version}_linux_$arch
  tar -C "$work" -xzf "$work/one/$name.tar.gz"
  run=()
  if [[ $arch != $(go env GOHOSTARCH) ]]; then
    emulator=qemu-${machine[$arch]}
    command -v "$emulator" >/dev/null || emulator+=-static
    command -v "$emulator" >/dev/null || fail "$emulator is missing, which runs the program for $arch: on Debian, apt-get install qemu-user-static"
    run=("$emulator" -L "/usr/${machine[$arch]}-linux-gnu")
  fi
  told=$("${run[@]}" "$work/$name/gemmaudit" --version)
  [[ $told == "gemmaudit $version (commit "*" of "*"linux/$arch)" ]] || fail "the program for $arch says that it is $told"
  "${run[@]}" "$work/$name/gemmaudit" selftest --device cpu --noise=false --kernel gemv,softmax --dtype fp32 -q >/dev/null || fail "the program for $arch fails its selftest"
  jq -e --arg version "$version" '.bomFormat == "CycloneDX" and .metadata.component.version == $version and (.components | length > 30)' \
    "$work/one/$name.cdx.json" >/dev/null || fail "the bill of materials for $arch is none of gemmaudit $version"
  echo "$told"
done
echo "two releases of $version are the same bytes"
