"""Print the GPUs that TensorFlow sees, or why it sees none.

    python -m tools.gpus

The exit status is 1 if there is none.
"""

import os
import subprocess

from base import script, startup
from base.errors import UserError


def main(_: list[str]) -> None:
    """Print a line for each GPU."""
    with startup.importing():
        import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UserError(f"TensorFlow sees no GPU: {_reason()}")
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        print(f"{gpu.name}: {details.get('device_name', 'unknown')}")


def _reason() -> str:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={hidden!r} hides all"
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True
        )
    except OSError:
        return (
            "there is no nvidia-smi, so NVIDIA's driver is not installed (in a "
            "container: start it with --gpus=all)"
        )
    if listed.returncode or not listed.stdout.strip():
        said = (listed.stderr or listed.stdout).strip()
        return f"NVIDIA's driver sees none: nvidia-smi says {said!r}"
    import tensorflow as tf

    if not tf.test.is_built_with_cuda():
        return "this TensorFlow has no CUDA: make gpu installs one that has"
    return (
        "the driver sees one, so libraries of CUDA are missing, or the driver "
        "is too old for them; TF_CPP_MIN_LOG_LEVEL=0 before the command shows "
        "which. make gpu installs the libraries"
    )


if __name__ == "__main__":
    script.run(main)
