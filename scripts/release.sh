#!/usr/bin/env bash
# Makes the files of a release from the commit that is checked out:
#
#   scripts/release.sh v0.9.0 FOLDER
#
# For Linux on x86-64 and arm64 the folder then has an archive with the program, its manual pages,
# completions, licence and notices, a bill of materials (CycloneDX), and the checksums of all. The same
# commit, Go and C compiler make the same bytes in any folder at any time. CONTRIBUTING.md says how a
# release is made from beginning to end.
set -euo pipefail

fail() { echo "release: $1" >&2; exit 1; }

(( $# == 2 )) || fail "usage: release.sh VERSION FOLDER"
version=$1
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
  fail "the version is \"$version\", expected one like v0.9.0: make release VERSION=v0.9.0"
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "$2")
[[ ! -e $out ]] || fail "$out exists already"

commit=$(git -C "$root" rev-parse HEAD)
# A candidate, v0.9.0-rc1, has the section of what it is to become.
git -C "$root" show "$commit:CHANGELOG.md" | grep -qxF "## ${version%%-*}" ||
  fail "CHANGELOG.md of ${commit:0:12} has no section \"## ${version%%-*}\""
if tagged=$(git -C "$root" rev-parse -q --verify "refs/tags/$version^{commit}") && [[ $tagged != "$commit" ]]; then
  fail "$version is ${tagged:0:12} already, and ${commit:0:12} is checked out"
fi

# What a person, an installation of Go or the make that called has set does not reach the program.
unset MAKEFLAGS MAKEOVERRIDES MFLAGS
export GOFLAGS=-buildvcs=true GOWORK=off GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=1 TZ=UTC LC_ALL=C
host=$(go env GOHOSTARCH)
declare -A machine=([amd64]=x86_64 [arm64]=aarch64)
[[ -n ${machine[$host]:-} ]] || fail "releases are made on amd64 or arm64, and this is $host"

# tool names a program of the C compiler's for a machine; for another machine that of a cross compiler.
tool() {
  local name=${machine[$1]}-linux-gnu-$2
  if [[ $1 == "$host" ]]; then name=$2; fi
  command -v "$name" >/dev/null || fail "$name is missing: on Debian, apt-get install gcc-${machine[$1]/_/-}-linux-gnu libc6-dev-$1-cross"
  echo "$name"
}
for arch in "${!machine[@]}"; do tool "$arch" gcc >/dev/null; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-checkout "$root" "$work/source"
git -C "$work/source" checkout -q --detach "$commit"
git -C "$work/source" tag -f "$version" >/dev/null
moment=@$(git -C "$root" log -1 --format=%ct "$commit")

# build leaves bin/gemmaudit of the clone for a machine.
build() {
  local cc ar nm options=
  # Bindings of the driver name folders of this machine's libraries, which a linker for another one passes over.
  if [[ $1 != "$host" ]]; then options=,--no-warn-search-mismatch; fi
  cc=$(tool "$1" gcc) ar=$(tool "$1" ar) nm=$(tool "$1" nm)
  rm -f "$work/source/bin/gemmaudit"
  GOOS=linux GOARCH=$1 CC=$cc AR=$ar NM=$nm make -C "$work/source" --no-print-directory -s build VERSION="$version" LD_OPTIONS="$options"
}

mkdir -p "$work/out" "$work/pages/man" "$work/pages/completions"
other=amd64
if [[ $host == amd64 ]]; then other=arm64; fi
for arch in "$host" "$other"; do
  build "$arch"
  binary=$work/source/bin/gemmaudit
  if [[ $arch == "$host" ]]; then # pages are the same for both, and only this program runs here
    "$binary" man "$work/pages/man/man1"
    for shell in bash zsh fish powershell; do "$binary" completion "$shell" > "$work/pages/completions/gemmaudit.$shell"; done
  fi
  name=gemmaudit_${version}_linux_$arch
  stage=$work/$name
  mkdir -p "$stage/include"
  cp "$binary" "$work/source/"{LICENSE,CHANGELOG.md} "$work/source/notices/THIRD_PARTY_NOTICES" "$stage"
  # The pages that it links to are not in the archive.
  sed -E "s#\]\(([^):]+)\)#](https://github.com/gemmaudit/gemmaudit/blob/$version/\1)#g" "$work/source/README.md" > "$stage/README.md"
  cp "$work/source/kernels/plugin/include/gemmaudit_kernel.h" "$stage/include"
  cp -R "$work/pages/." "$stage"
  tar -C "$work" --format=ustar --sort=name --mtime="$moment" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    -cf - "$name" | gzip -9n > "$work/out/$name.tar.gz"
  # Its module, with the versions and hashes of all that it takes, stands in scripts/sbom.
  go -C "$work/source/scripts/sbom" tool cyclonedx-gomod bin -json -noserial -notimestamp -std -version "$version" \
    -output "$work/out/$name.cdx.json" "$binary" 2> "$work/sbom" || { cat "$work/sbom" >&2; fail "no bill of materials was made"; }
done
(cd "$work/out" && sha256sum -- * > "$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$work/out"
chmod -R u=rwX,go=rX "$work/out"
mkdir -p "$(dirname "$out")"
mv "$work/out" "$out"
cat "$out/SHA256SUMS"
