# What an image contains, as SPDX 2.3. To be sourced after shell.sh and oci.sh.

# write_sbom FILE NAME DIGEST DEBIAN…: of the image of the crate NAME, which holds files of these Debian packages.
write_sbom() {
  local file="$1" name="$2" id="$3" created
  shift 3
  created="$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
  { crate_entries "$name"; toolchain_entry; debian_entries "$@"; } |
    jq --slurp --sort-keys --arg name "$name" --arg version "$version" --arg id "$id" --arg created "$created" '
      { spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: $name,
        documentNamespace: "https://lanemate.dev/spdx/\($name)-\($version)-\($id | sub("sha256:"; ""))",
        creationInfo: { created: $created, creators: ["Tool: lanemate-hack-image-\($version)"] },
        documentDescribes: ["SPDXRef-Image"],
        packages: ([{ SPDXID: "SPDXRef-Image", name: $name, versionInfo: $version, primaryPackagePurpose: "CONTAINER",
          licenseDeclared: "Apache-2.0", externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl",
            referenceLocator: "pkg:oci/\($name)@\($id | @uri)" }] }] + . | map(. + { downloadLocation: "NOASSERTION",
          filesAnalyzed: false, licenseConcluded: "NOASSERTION", copyrightText: "NOASSERTION" })),
        relationships: ([{ spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-Image" }]
          + map({ spdxElementId: "SPDXRef-Image", relationshipType: "CONTAINS", relatedSpdxElement: .SPDXID })) }' >"$file"
}

# The crates that are linked into the binary, with licence from their manifests and checksum from Cargo.lock. One in the
# repository itself has no checksum. Macros and what only builds are not in the binary.
crate_entries() {
  cargo tree --locked --package "$1" --target "$rust_target" --edges normal,no-proc-macro --prefix none --no-dedupe \
    --format '{p}|{l}' | sort -u |
    jq --raw-input --slurp --rawfile lock Cargo.lock '
      ($lock | split("[[package]]\n")[1:] | map([capture("(?<key>name|version|checksum) = \"(?<value>[^\"]*)\""; "g")] | from_entries)
        | map({ key: "\(.name) \(.version)", value: .checksum }) | from_entries) as $checksums
      | split("\n") | map(select(. != "") | capture("^(?<name>[^ ]+) v(?<version>[^ |]+)[^|]*\\|(?<licence>.*)$"))[]
      | $checksums["\(.name) \(.version)"] as $checksum
      | { SPDXID: "SPDXRef-Crate-\(.name | gsub("_"; "-"))-\(.version | gsub("[^A-Za-z0-9.-]"; "-"))", name, versionInfo: .version,
          licenseDeclared: (.licence | if . == "" then "NOASSERTION" else gsub(" */ *"; " OR ") end),
          externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl",
            referenceLocator: "pkg:cargo/\(.name)@\(.version | @uri)" }] }
        + if $checksum then { checksums: [{ algorithm: "SHA256", checksumValue: $checksum }] } else {} end'
}

# Its standard library is linked into every binary.
toolchain_entry() {
  jq --null-input --arg version "$(rustc -vV | sed -n 's/^release: //p')" '
    { SPDXID: "SPDXRef-Rust-std", name: "std", versionInfo: $version, licenseDeclared: "MIT OR Apache-2.0" }'
}

# debian_entries PACKAGE…: names of installed Debian packages.
debian_entries() {
  local package licence distribution
  distribution="$(. /etc/os-release && echo "${ID:-debian}-${VERSION_ID:-}")"
  for package in "$@"; do
    licence="$(debian_licence "$package")"
    jq --null-input --arg name "$package" --arg licence "$licence" --arg architecture "$image_architecture" \
      --arg version "$(dpkg-query --show --showformat '${Version}' "$package")" --arg distribution "$distribution" '
      { SPDXID: "SPDXRef-Debian-\($name | gsub("[^A-Za-z0-9.-]"; "-"))", name: $name, versionInfo: $version, licenseDeclared: $licence,
        licenseComments: "The licence of the files that the image has of it; /usr/share/doc/\($name)/copyright in the image names all.",
        externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl",
          referenceLocator: "pkg:deb/debian/\($name)@\($version | @uri)?arch=\($architecture)&distro=\($distribution)" }] }'
  done
}

# Debian states the licences of these packages in prose.
debian_licence() {
  case "$1" in
    libc6 | libc6-dev) echo LGPL-2.1-or-later ;;
    libgcc-s1 | libgcc-*-dev) echo "GPL-3.0-or-later WITH GCC-exception-3.1" ;;
    *) fail "the licence of the Debian package $1 is not known: add it to debian_licence in hack/lib/sbom.sh" ;;
  esac
}
