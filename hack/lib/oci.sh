# OCI images as archives, made without a daemon. To be sourced; same files and same SOURCE_DATE_EPOCH give the same bytes.

image_architecture="$(uname -m | sed -e s/x86_64/amd64/ -e s/aarch64/arm64/)"

# write_image ARCHIVE FILES CONFIG NAME…: an image of one layer, the directory FILES, with this "config" object, under each
# NAME (HOST/NAME:TAG). Sets $image_digest to the digest of its manifest. `ctr images import` and `skopeo` read the archive.
write_image() {
  local archive="$1" files="$2" settings="$3" work layer layer_id config manifest names=() created
  shift 3
  work="$(mktemp -d "$(dirname "$archive")/image.XXXXXX")"
  mkdir -p "$work/layout/blobs/sha256"
  created="$(date --utc --date "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)"
  pack "$files" >"$work/layer.tar"
  layer_id="$(digest "$work/layer.tar")"
  # Without name and time in the header.
  layer="$(gzip --no-name <"$work/layer.tar" | blob layer.v1.tar+gzip)"
  config="$(blob config.v1+json <<JSON
{"created": "$created", "architecture": "$image_architecture", "os": "linux",
 "rootfs": {"type": "layers", "diff_ids": ["$layer_id"]}, "config": $settings}
JSON
  )"
  manifest="$(blob manifest.v1+json <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": $config, "layers": [$layer]}
JSON
  )"
  echo '{"imageLayoutVersion": "1.0.0"}' >"$work/layout/oci-layout"
  mapfile -t names < <(printf '%s\n' "$@" | while read -r name; do named "$name"; done)
  (IFS=, && echo "{\"schemaVersion\": 2, \"manifests\": [${names[*]}]}" >"$work/layout/index.json")
  pack "$work/layout" >"$archive"
  image_digest="$(sed 's/.*"digest": "\([^"]*\)".*/\1/' <<<"$manifest")"
  rm -rf "$work"
}

# pack DIRECTORY: an archive of it in which nothing tells when, by whom and in which order it was made.
pack() {
  tar --create --format gnu --sort name --mtime "@${SOURCE_DATE_EPOCH:-0}" --owner 0 --group 0 --numeric-owner -C "$1" .
}

digest() {
  echo "sha256:$(sha256sum "$1" | cut -d' ' -f1)"
}

# blob TYPE: stores what it reads and prints its descriptor.
blob() {
  cat >"$work/blob"
  local id
  id="$(digest "$work/blob")"
  echo "{\"mediaType\": \"application/vnd.oci.image.$1\", \"digest\": \"$id\", \"size\": $(stat -c %s "$work/blob")}"
  mv "$work/blob" "$work/layout/blobs/sha256/${id#sha256:}"
}

# named NAME: the manifest's descriptor under that name, as containerd reads it, and with its tag, as the specification has it.
named() {
  echo "${manifest%\}}, \"annotations\":" \
    "{\"io.containerd.image.name\": \"$1\", \"org.opencontainers.image.ref.name\": \"${1##*:}\"}}"
}
