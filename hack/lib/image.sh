# An image made of the machine's busybox. To be sourced.

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/oci.sh"

# make_image FILE: an archive that `ctr images import` reads, with the names localhost/busybox:1 and localhost/pause:1.
make_image() {
  local files
  files="$(mktemp -d "$state/files.XXXXXX")"
  mkdir -p "$files"/{bin,dev,etc,proc,run,sys,tmp,var}
  cp "$(command -v busybox)" "$files/bin/busybox"
  chroot "$files" /bin/busybox --install -s /bin ||
    fail "busybox does not run on its own: expected the statically linked one, Debian's busybox-static"
  echo "root:x:0:0:root:/:/bin/sh" >"$files/etc/passwd"
  # mktemp makes it for the owner alone, and it becomes the root of the image.
  chmod 755 "$files"
  write_image "$1" "$files" '{"Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"]}' localhost/busybox:1 localhost/pause:1
  rm -rf "$files"
}
