"""The index of a Hugging Face model whose weights are several files.

model.safetensors.index.json beside them:

    {"weight_map": {"pooler.dense.bias": "model-00002-of-00002...", ...}}
"""

from base import text_files
from base.errors import UserError


def read_index(path: str) -> dict[str, str]:
    """Return {tensor: name of its file, in the folder of the index}.

    Raises:
        UserError: the file cannot be read, or is no such index.
    """
    places = text_files.read_json_object(path).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise UserError(
            f"{path}: wanted `weight_map`, an object of tensor names and "
            "their files"
        )
    for tensor, name in places.items():
        if not isinstance(name, str) or "/" in name or not name:
            raise UserError(
                f"{path}: {name!r} as the file of {tensor}, wanted the name "
                "of a file beside it"
            )
    return places
