"""Put the sentences of documents into a random order, always the same.

The documents keep their lengths. The text has to fit into the memory.
"""

import argparse
import glob
import itertools
import os
import pathlib
import random


def main() -> None:
    """Read the files of --input_file, and write --output_file."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--input_file", "--output_file"):
        parser.add_argument(name, required=True)
    flags = parser.parse_args()
    paths = sorted(glob.glob(flags.input_file))
    text = "".join(pathlib.Path(path).read_text("utf-8") for path in paths)
    documents = [own.split("\n") for own in text.strip().split("\n\n")]
    order = list(itertools.chain.from_iterable(documents))
    random.Random(0).shuffle(order)
    sentences = iter(order)
    with open(f"{flags.output_file}.partial", "w", encoding="utf-8") as file:
        for document in documents:
            some = itertools.islice(sentences, len(document))
            file.write("\n".join([*some, "\n"]))
    os.replace(file.name, flags.output_file)


if __name__ == "__main__":
    main()
