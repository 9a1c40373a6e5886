#!/usr/bin/env bash
# Makes a release twice and compares the bytes. The second compiles this module for this machine again: its copy of Go's cache
# lacks what the first compiled. Then runs each program, under qemu-user if it is foreign, and installs this machine's wheel:
#
#   scripts/release_check.sh v0.9.0 [MACHINE]
#
# With this machine's name, amd64 or arm64, the second release has its files alone: the other's take the same path.
set -euo pipefail

fail() { echo "release-check: $1" >&2; exit 1; }

(( $# == 1 || $# == 2 )) || fail "usage: release_check.sh VERSION [MACHINE]"
version=$1
here=$(dirname "$0")
work=$(mktemp -d)
cache=$(go env GOCACHE)
# Next to the cache, whose files are linked, not copied.
second=$(mktemp -d -p "$(dirname "$cache")" release.XXXXXX)
trap 'rm -rf "$work" "$second"' EXIT

"$here/release.sh" "$version" "$work/one"
git clone -q "$here/.." "$second/clone"
cp -al "$cache" "$second/cache"
GOCACHE=$second/cache make -C "$second/clone" --no-print-directory -s compiled GLIBC=2.28 > "$second/compiled"
[[ -s $second/compiled ]] || fail "go list names nothing that was compiled of this module"
# Each clone compiles its own program and kernels/plugin, whose flags name the folder. Another file that is not in the cache was
# made with other flags than the release's, whose own would stay.
others=0
while read -r file; do
  if [[ ! -e $cache/${file#"$second/cache/"} ]]; then others=$((others + 1)); fi
done < "$second/compiled"
(( others <= 2 )) || fail "make compiled lists $others files that the release did not make: are its flags the same?"
xargs rm -f -- < "$second/compiled"
mkdir "$work/longer"
(umask 077 && GOCACHE=$second/cache TZ=Asia/Tokyo "$here/release.sh" "$version" "$work/longer/two" "${@:2}") >/dev/null
two=$work/longer/two
if (( $# == 1 )); then
  diff -r "$work/one" "$two" || fail "two releases of one commit differ"
else # notes, an archive, a bill of materials and a wheel
  (( $(wc -l < "$two/SHA256SUMS") == 4 )) || fail "a release for $2 has $(wc -l < "$two/SHA256SUMS") files, expected 4"
  ! grep -vxF -f "$work/one/SHA256SUMS" "$two/SHA256SUMS" || fail "two releases of one commit differ in these files"
fi

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
  wheels=("$work/one/"gemmaudit-*_"${machine[$arch]}".whl)
  python3 -m zipfile -e "${wheels[0]}" "$work/wheel-$arch"
  cmp "$work/wheel-$arch/gemmaudit/bin/gemmaudit" "$work/$name/gemmaudit" || fail "the wheel for $arch has another program than its archive"
  if [[ $arch == $(go env GOHOSTARCH) ]]; then "$here/wheel/check.sh" "${wheels[0]}"; fi
  echo "$told"
done
grep -q '^| the program |' "$work/one/NOTES.md" || fail "the notes do not say what each MB is"
echo "two releases of $version are the same bytes"
