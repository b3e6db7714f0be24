#!/usr/bin/env bash
# The wheel of LiteRT for Linux on ARM needs a newer glibc than its name says.
#
# One would guess that a wheel named manylinux_2_27_aarch64 loads wherever pip
# installs it, which is on glibc 2.27 and newer, as the wheel for x86-64 does.
# What happens: two of its libraries ask for symbols of glibc 2.34, so that it
# installs and cannot be loaded on Debian 11 or Ubuntu 20.04.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pyelftools==0.32
"$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps \
  --only-binary=:all: --python-version=3.11 --implementation=cp \
  --platform=manylinux_2_27_aarch64 --dest="$folder" ai-edge-litert==2.3.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import glob
import io
import os
import sys
import zipfile

from elftools.elf.elffile import ELFFile

(path,) = glob.glob(os.path.join(sys.argv[1], "*.whl"))
print(os.path.basename(path))
needs = {}
with zipfile.ZipFile(path) as wheel:
    for name in wheel.namelist():
        if ".so" not in name:
            continue
        library = ELFFile(io.BytesIO(wheel.read(name)))
        section = library.get_section_by_name(".gnu.version_r")
        versions = [
            tuple(map(int, part.name.split("_")[1].split(".")))
            for _, parts in (section.iter_versions() if section else ())
            for part in parts
            if part.name.startswith("GLIBC_2")
        ]
        if versions and max(versions) > (2, 27):
            needs[os.path.basename(name)] = max(versions)
for name, version in needs.items():
    print(name, "needs glibc", ".".join(map(str, version)))
assert "2_27" in path, "the wheel has another name now"
assert max(needs.values(), default=()) >= (2, 34), "it needs no newer glibc now"
PYTHON
echo "As described."
