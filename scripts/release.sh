#!/usr/bin/env bash
# Makes the files of a release from the checked-out commit:
#
#   scripts/release.sh v0.9.0 FOLDER [amd64 | arm64]
#
# FOLDER gets, for Linux on x86-64 and arm64: an archive with the program, manual pages, completions, license and notices; a
# wheel with the program and the Python package; a bill of materials (CycloneDX); notes with the sizes of the program's parts;
# and checksums. Programs need glibc 2.28. The same commit, Go and C compiler make the same bytes. CONTRIBUTING.md describes
# the steps of a release. With a machine, which is to be this one's, only its files are made.
set -euo pipefail

fail() { echo "release: $1" >&2; exit 1; }

(( $# == 2 || $# == 3 )) || fail "usage: release.sh VERSION FOLDER [MACHINE]"
version=$1
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
  fail "the version is \"$version\", expected one like v0.9.0: make release VERSION=v0.9.0"
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "$2")
[[ ! -e $out ]] || fail "$out exists already"

commit=$(git -C "$root" rev-parse HEAD)
# A candidate, v0.9.0-rc1, uses the section of v0.9.0. With -q, grep would end git by a broken pipe.
git -C "$root" show "$commit:CHANGELOG.md" | grep -xF "## ${version%%-*}" >/dev/null ||
  fail "CHANGELOG.md of ${commit:0:12} has no section \"## ${version%%-*}\""
if tagged=$(git -C "$root" rev-parse -q --verify "refs/tags/$version^{commit}") && [[ $tagged != "$commit" ]]; then
  fail "$version is ${tagged:0:12} already, and ${commit:0:12} is checked out"
fi

# Settings of the user, of Go or of a calling make must not affect the program.
unset MAKEFLAGS MAKEOVERRIDES MFLAGS
export GOFLAGS=-buildvcs=true GOWORK=off GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=1 TZ=UTC LC_ALL=C
host=$(go env GOHOSTARCH)
declare -A machine=([amd64]=x86_64 [arm64]=aarch64)
[[ -n ${machine[$host]:-} ]] || fail "releases are made on amd64 or arm64, and this is $host"
other=amd64
if [[ $host == amd64 ]]; then other=arm64; fi
machines=("$host" "$other")
if (( $# == 3 )); then
  [[ $3 == "$host" ]] || fail "the files of $3 alone were asked for, and this is $host"
  machines=("$host")
fi

# tool names a program of the C toolchain for a machine, or of the cross toolchain.
tool() {
  local name=${machine[$1]}-linux-gnu-$2
  if [[ $1 == "$host" ]]; then name=$2; fi
  command -v "$name" >/dev/null || fail "$name is missing: on Debian, apt-get install gcc-${machine[$1]/_/-}-linux-gnu libc6-dev-$1-cross"
  echo "$name"
}
for arch in "${machines[@]}"; do tool "$arch" gcc >/dev/null; done
python3 -c 'import tomllib' 2>/dev/null || fail "Python 3.11 or later is missing"
tools=build/wheel-tools
make -C "$root" --no-print-directory -s "$tools/ready" || fail "ziglang can't be installed, see above"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-checkout "$root" "$work/source"
git -C "$work/source" checkout -q --detach "$commit"
git -C "$work/source" tag -f "$version" >/dev/null
moment=@$(git -C "$root" log -1 --format=%ct "$commit")

# build makes bin/gemmaudit of the clone for a machine, with more variables of make.
glibc=2.28
build() {
  local cc ar nm options=
  # The driver's bindings name library folders of this machine, which a cross linker skips.
  if [[ $1 != "$host" ]]; then options=,--no-warn-search-mismatch; fi
  cc=$(tool "$1" gcc) ar=$(tool "$1" ar) nm=$(tool "$1" nm)
  rm -f "$work/source/bin/gemmaudit"
  if [[ ! -e $work/source/bin/glibc/$glibc/$1/link ]]; then
    (cd "$work/source" && scripts/wheel/glibc.sh "$root/$tools/bin/python" "$glibc" "${machine[$1]}" "bin/glibc/$glibc/$1")
  fi
  # The clone uses this checkout's tools.
  GOOS=linux GOARCH=$1 CC=$cc AR=$ar NM=$nm make -C "$work/source" --no-print-directory -s -o "$tools/ready" build \
    VERSION="$version" GLIBC="$glibc" LD_OPTIONS="$options" "${@:2}"
}

mkdir -p "$work/out" "$work/pages/man" "$work/pages/completions"
mkdir "$work/symbols"
build "$host" STRIP= PROGRAM="$work/symbols/gemmaudit"
for arch in "${machines[@]}"; do
  build "$arch"
  binary=$work/source/bin/gemmaudit
  if [[ $arch == "$host" ]]; then # pages are the same for both, and only this program runs here
    "$binary" man "$work/pages/man/man1"
    for shell in bash zsh fish powershell; do "$binary" completion "$shell" > "$work/pages/completions/gemmaudit.$shell"; done
  fi
  name=gemmaudit_${version}_linux_$arch
  stage=$work/$name
  mkdir -p "$stage/include"
  cp "$binary" "$work/source/"{LICENSE,CHANGELOG.md} "$work/source/cmd/gemmaudit/notices/THIRD_PARTY_NOTICES" "$stage"
  # The archive does not contain the linked pages.
  sed -E "s#\]\(([^):]+)\)#](https://github.com/gemmaudit/gemmaudit/blob/$version/\1)#g" "$work/source/README.md" > "$stage/README.md"
  cp "$work/source/kernels/plugin/include/gemmaudit_kernel.h" "$stage/include"
  cp -R "$work/pages/." "$stage"
  tar -C "$work" --format=ustar --sort=name --mtime="$moment" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    -cf - "$name" | gzip -9n > "$work/out/$name.tar.gz"
  "$work/source/scripts/wheel/wheel.py" --program "$binary" --version "$version" --glibc "$glibc" --machine "${machine[$arch]}" --out "$work/out" >/dev/null
  if [[ $arch == "$host" ]]; then
    {
      sed -n "/^## ${version%%-*}\$/,/^## /{/^## /d;p}" "$work/source/CHANGELOG.md"
      echo "Sizes of the parts of the program for $arch:"
      echo
      "$work/source/scripts/sizes.py" --stripped "$binary" --symbols "$work/symbols/gemmaudit"
    } > "$work/out/NOTES.md"
    sed -n '/^| part/,$p' "$work/out/NOTES.md" >&2
  fi
  # scripts/sbom is its module, with versions and hashes of dependencies. With make's flags its standard library is in the cache.
  GOFLAGS='-trimpath -gcflags=all=-dwarf=false -tags=netgo' go -C "$work/source/scripts/sbom" tool cyclonedx-gomod bin -json -noserial -notimestamp -std -version "$version" \
    -output "$work/out/$name.cdx.json" "$binary" 2> "$work/sbom" || { cat "$work/sbom" >&2; fail "no bill of materials was made"; }
done
(cd "$work/out" && sha256sum -- * > "$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$work/out"
chmod -R u=rwX,go=rX "$work/out"
mkdir -p "$(dirname "$out")"
mv "$work/out" "$out"
cat "$out/SHA256SUMS"
