#!/bin/sh
# Makes ROOT, a folder with Debian for ARM, Python and what the tests need.
#
#   sh tests/arm/setup.sh ROOT [RELEASE PYTHON]   default: bookworm 3.11
#
# ROOT must not exist, and takes 2.4 GB. QEMU runs its programs on x86-64, on the
# kernel of this machine; tests/arm/run.sh runs a command in it.
set -eu
root=$(realpath -m "$1") release=${2:-bookworm} version=${3:-3.11}
pip=".venv/bin/python -m pip"
format=/usr/lib/binfmt.d/qemu-aarch64.conf
if [ "$(id -u)" != 0 ] || [ ! -e $format ] || [ ! -e /usr/bin/mmdebstrap ]; then
  echo "ERROR: needs root, and Debian's packages qemu-user-static and mmdebstrap" >&2
  exit 1
fi

# The kernel opens QEMU when it is told of it, so ROOT needs no copy (flag F), and
# also child processes are emulated.
formats=/proc/sys/fs/binfmt_misc
[ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats
[ -e $formats/qemu-aarch64 ] || cat $format >$formats/register

# Packages are not configured: their scripts, emulated, would take nine minutes.
mmdebstrap --quiet --architectures=arm64 --variant=extract \
  --include=base-files,bash,coreutils,dash,libc-bin,libgomp1,libstdc++6,tzdata,"python$version" \
  "$release" "$root"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
mkdir -p "$root/usr/local/bin"
ln -s "/usr/bin/python$version" "$root/usr/local/bin/python"

# pip takes the names of platforms literally. docopt, which mwxml needs, has no
# wheel, and is the same for every machine.
platforms="--platform=manylinux2014_aarch64"
for minor in $(seq 17 36); do
  platforms="$platforms --platform=manylinux_2_${minor}_aarch64"
done
$pip wheel --quiet --no-deps --wheel-dir="$root/wheels" docopt
# shellcheck disable=SC2086
$pip install --quiet --no-warn-conflicts --no-compile $platforms --python-version="$version" \
  --implementation=cp --only-binary=:all: --find-links="$root/wheels" \
  --target="$root/usr/local/lib/python$version/dist-packages" \
  -r requirements.txt -r requirements-litert.txt -r requirements-onnx.txt \
  -r requirements-search.txt pytest hypothesis
