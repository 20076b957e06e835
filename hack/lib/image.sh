# An image made of the machine's busybox. To be sourced.

# make_image FILE: an archive that `ctr images import` reads, with the names localhost/busybox:1 and localhost/pause:1.
make_image() {
  local work layer layer_id config manifest
  work="$(mktemp -d "$state/image.XXXXXX")"
  mkdir -p "$work"/files/{bin,dev,etc,proc,run,sys,tmp,var} "$work/layout/blobs/sha256"
  cp "$(command -v busybox)" "$work/files/bin/busybox"
  chroot "$work/files" /bin/busybox --install -s /bin ||
    fail "busybox does not run on its own: expected the statically linked one, Debian's busybox-static"
  echo "root:x:0:0:root:/:/bin/sh" >"$work/files/etc/passwd"
  tar --create --file "$work/layer.tar" --sort name --mtime @0 --owner 0 --group 0 -C "$work/files" .
  layer_id="$(digest "$work/layer.tar")"
  layer="$(blob layer.v1.tar <"$work/layer.tar")"
  config="$(blob config.v1+json <<JSON
{"architecture": "$image_architecture", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["$layer_id"]},
 "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"]}}
JSON
  )"
  manifest="$(blob manifest.v1+json <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": $config, "layers": [$layer]}
JSON
  )"
  echo '{"imageLayoutVersion": "1.0.0"}' >"$work/layout/oci-layout"
  echo "{\"schemaVersion\": 2, \"manifests\": [$(named busybox), $(named pause)]}" >"$work/layout/index.json"
  tar --create --file "$1" -C "$work/layout" .
  rm -rf "$work"
}

image_architecture="$(uname -m | sed -e s/x86_64/amd64/ -e s/aarch64/arm64/)"

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

# named NAME: the manifest's descriptor under that name.
named() {
  echo "${manifest%\}}, \"annotations\": {\"io.containerd.image.name\": \"localhost/$1:1\"}}"
}
