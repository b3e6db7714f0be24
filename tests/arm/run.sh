#!/bin/sh
# Runs a command on ARM, as QEMU emulates it: sh tests/arm/run.sh ROOT COMMAND...
#
# ROOT is the folder that setup.sh made. The command has the current folder and /tmp
# of this machine, under the same paths. What is mounted for it, and processes that
# it leaves, end with it.
#
# Of the processors that QEMU knows, this one is emulated quickest. With SVE and
# bfloat16: QEMU_CPU=max. Bytecode is kept in ROOT: without it TensorFlow takes twice
# as long to be imported.
#
# /sys stays empty. It would tell LiteRT of the cores and caches of this machine, as
# if they were ARM's: it then ends by a segmentation fault when it loads a model.
set -eu
export ROOT="$(realpath "$1")" QEMU_CPU="${QEMU_CPU:-neoverse-n1}"
shift
exec unshare --mount --pid --fork --kill-child sh -euc '
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --bind /tmp "$ROOT/tmp"
mkdir -p "$ROOT$PWD"
mount --bind "$PWD" "$ROOT$PWD"
chroot "$ROOT" env --chdir="$PWD" HOME=/root LANG=C.UTF-8 \
  PATH=/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE= \
  PYTHONPYCACHEPREFIX=/var/cache "$@"
exit  # so that the command is not process 1, which a crash would not end
' sh "$@"
