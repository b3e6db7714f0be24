"""The page of the site with the settings of published models' files.

python tests/settings_page.py > published_settings.md
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from checkpoints import known_settings  # noqa: E402

_HEAD = """\
# Settings of published models

A model of `transformers` or `sentence-transformers` is read as its own
software reads it. Each setting in its files is applied, or changes nothing, or
is refused or warned of by name; null is always as if the key were missing. All
keys that are in no table get one warning together. convert_checkpoint.py
writes what was applied. If a file of `sentence-transformers` has a setting
that is refused, the model is an encoder without its sentence vectors, and a
warning says why.

- **A head with one output** gives a sigmoid of its number, as in the pipelines
  of `transformers` and in `CrossEncoder`, unless `problem_type` is
  `regression` or the files of a cross-encoder name another function (`torch`'s
  Identity, Sigmoid and Tanh are known). A regression of run_classifier.py is
  written so that both give the number itself. A cross-encoder reads pairs
  (`--sentence_pairs`). With several outputs the scores are probabilities,
  whatever the function.
- **Lengths.** A text has as many tokens as `max_seq_length` of
  `sentence_bert_config.json` or, without it, `model_max_length`, and no more
  than the model has positions. convert_checkpoint.py writes the length of
  fine-tuning.
- **Weights.** Two tensors for one variable, such as `bert.X` beside `X` or
  `LayerNorm.gamma` beside `LayerNorm.weight`, are an error, even if they are
  equal. What an optimizer keeps is passed over: variables whose name is that
  of a weight, a slash and more, with its shape (`/adam_m`, `/lamb_v`, ...),
  and single numbers such as the step.

`make docs` makes the tables of `checkpoints/known_settings.toml`.

"""


def tables() -> str:
    """Return a table for each file, a row for keys that are treated alike."""
    lines = []
    for name, settings in known_settings.SETTINGS.items():
        alike: dict[known_settings.Setting, list[str]] = {}
        for key, setting in settings.items():
            # Values of `harmless` have no hash.
            alike.setdefault((*setting[:2], str(setting.harmless)), []).append(
                key
            )
        lines += ["", f"`{name}`", "", "| setting | is | |", "|---|---|---|"]
        for keys in alike.values():
            treatment, why, harmless = settings[keys[0]]
            if harmless:
                values = " or ".join(f"`{value!r}`" for value in harmless)
                treatment += f", unless {values}"
            names = ", ".join(f"`{key}`" for key in keys)
            lines.append(f"| {names} | {treatment} | {why} |")
    return "\n".join([*lines[1:], ""])


def render() -> str:
    """Return the text of the page."""
    return _HEAD + tables()


if __name__ == "__main__":
    print(render(), end="")
