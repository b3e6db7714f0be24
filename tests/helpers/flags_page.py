"""The tables of docs/flags.md: the flags of all scripts."""

import functools
import itertools
from pathlib import Path

from base import flags as declared_flags

import scripts
from absl import flags
from paths import ROOT

_TPU = "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores"
_LOOP = f"{_TPU} iterations_per_loop save_checkpoints_steps"
_FINETUNING = (
    f"{_LOOP} bert_config_file vocab_file output_dir init_checkpoint "
    "do_lower_case max_seq_length do_train do_predict train_batch_size "
    "predict_batch_size learning_rate num_train_epochs warmup_proportion"
)
# The flags of google-research/bert. Everything else is an addition.
ORIGINAL = {
    "create_pretraining_data": "input_file output_file vocab_file "
    "do_lower_case do_whole_word_mask max_seq_length max_predictions_per_seq "
    "random_seed dupe_factor masked_lm_prob short_seq_prob",
    "run_pretraining": f"{_LOOP} bert_config_file input_file output_dir "
    "init_checkpoint max_seq_length max_predictions_per_seq do_train do_eval "
    "train_batch_size eval_batch_size learning_rate num_train_steps "
    "num_warmup_steps max_eval_steps",
    "run_classifier": f"{_FINETUNING} data_dir task_name do_eval "
    "eval_batch_size",
    "run_squad": f"{_FINETUNING} train_file predict_file doc_stride "
    "max_query_length n_best_size max_answer_length verbose_logging "
    "version_2_with_negative null_score_diff_threshold",
    "extract_features": "input_file output_file bert_config_file "
    "init_checkpoint vocab_file layers max_seq_length do_lower_case "
    "batch_size use_tpu master num_tpu_cores use_one_hot_embeddings",
}


def default_of(flag: flags.Flag) -> str:
    """Return a flag's default as one would type it."""
    value = flag.default
    if value in (None, "", []):
        return ""
    if isinstance(value, list):
        return f"`{','.join(map(str, value))}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def bounds_of(declared: declared_flags.Declared) -> str:
    """Return "0 to 1", "at least 1", "at most 9", "required" or ""."""
    if declared.required:
        return "required"
    low, high = (
        None if bound is None else f"{bound:,.12g}"
        for bound in (declared.low, declared.high)
    )
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else ""


def row(flag: flags.Flag, bounds: str, is_original: bool) -> str:
    """Return the table row of one flag."""
    text = " ".join(flag.help.split())
    choices = getattr(flag.parser, "enum_values", None)
    if choices:
        text = text.removeprefix(f"<{'|'.join(choices)}>: ")
        text = f"{', '.join(f'`{choice}`' for choice in choices)}. {text}"
    cells = (
        f"`{flag.name}`" + ("" if is_original else " +"),
        default_of(flag),
        bounds,
        text.replace("|", "\\|"),
    )
    return "| " + " | ".join(cells) + " |"


@functools.cache
def own_flags(script: str) -> dict[str, list[str]]:
    """Return {file: names of a script's flags that are declared there}."""
    module = scripts.load(script)
    own: dict[str, list[str]] = {}
    # Not all of module.FLAGS: TensorFlow defines flags when it is imported.
    keys = module.FLAGS.get_key_flags_for_module(module.__name__)
    shown = {flag.name for flag in keys}
    for name in module.FLAGS:
        if name in shown:
            place = Path(declared_flags.of(module.FLAGS, name).place)
            if place.is_relative_to(ROOT):
                place = place.relative_to(ROOT)
            own.setdefault(str(place), []).append(name)
    return own


def section(script: str) -> list[str]:
    """Return the lines that describe one script's flags."""
    module, path = scripts.load(script), scripts.path_of(script)
    own = own_flags(script)
    original = ORIGINAL.get(script, "").split()
    title = script if "." in script else path
    lines = ["", f"## {title}", "", module.__doc__.splitlines()[0]]
    # The script's own flags first, then those it shares with others.
    for place in sorted(own, key=lambda p: (p != path, p)):
        others = [
            f"`{scripts.path_of(name)}`"
            for name in scripts.names()
            if name != script and place in own_flags(name)
        ]
        shared = f", shared with {', '.join(others)}" if others else ""
        lines += ["", f"`{place}`{shared}", ""]
        lines += ["| flag | default | bounds | meaning |", "|---|---|---|---|"]
        for name in own[place]:
            bounds = bounds_of(declared_flags.of(module.FLAGS, name))
            flag = module.FLAGS[name]
            lines.append(row(flag, bounds, name in original))
    return lines


def tables() -> str:
    """Return a section for each script."""
    sections = map(section, scripts.names())
    return "\n".join(itertools.chain.from_iterable(sections))
