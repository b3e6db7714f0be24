"""The paper's tables and Figure 5 as rows of cells, each of some steps.

Tables 1 to 4 and 7 fine-tune one model, the others pre-train one for each row.
A cell names the steps whose scores it averages. `build` adds the steps of all
tables to one plan, seed after seed: a run that is stopped early has the whole
tables of the first seeds.
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from base import file_system, text_files
from base.errors import UserError

from absl import logging

from tools.reproduction import paper_numbers, steps
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.paper_numbers import (
    BERT,
    BOTH_AT_ONCE,
    DOCUMENTS,
    ENSEMBLE,
    LEFT_AND_RIGHT,
    LTR,
    LTR_BILSTM,
    NO_NSP,
    SHUFFLED,
    SINGLE,
    TRIVIAQA_ENSEMBLE,
    TRIVIAQA_SINGLE,
)
from tools.reproduction.scales import EXPERIMENTS, Scale, Size
from tools.reproduction.steps import (
    ONE_WAY,
    PLAIN,
    Plan,
    Pretrained,
    Variant,
)
from tools.reproduction.tasks import (
    FEATURE_LAYERS,
    NER_FEATURES,
    SQUAD,
    SQUAD_2,
    TASKS,
    TRIVIAQA,
)

NAMES = EXPERIMENTS
# Of these the rows are of one model, which --init_checkpoint may name.
FINE_TUNING = ("table1", "table2", "table3", "table4", "table7")
# --tasks adds none to these.
FIXED_TASKS = (*FINE_TUNING, "two_directions")
AVERAGE = "Average"  # of the paper's other columns of Table 1

# Columns of pre-training, beside those of tasks.
PERPLEXITY, NEXT_SENTENCE = "perplexity", "next sentence"
OF_PRETRAINING = (PERPLEXITY, NEXT_SENTENCE)

# Table -> column -> task and score, where it is not that of tasks.TASKS.
OWN_COLUMNS = {
    "table1": {
        "MNLI-mm": ("MNLI", "dev_mismatched_accuracy"),
        "MRPC": ("MRPC", "f1"),
    },
    **dict.fromkeys(
        ("table2", "two_directions"), {"EM": (SQUAD, "exact_match")}
    ),
    "table3": {"EM": (SQUAD_2, "exact")},
}

# Table 2. An ensemble is of all runs of the row before it.
_TRIVIAQA = Variant("triviaqa", begins_with_triviaqa=True)
TABLE_2 = {
    SINGLE: (PLAIN, False),
    ENSEMBLE: (PLAIN, True),
    TRIVIAQA_SINGLE: (_TRIVIAQA, False),
    TRIVIAQA_ENSEMBLE: (_TRIVIAQA, True),
}

# Table 5: row -> objective of pre-training, whether fine-tuning adds a BiLSTM.
TABLE_5 = {
    BERT: ("mlm_nsp", False),
    NO_NSP: ("mlm", False),
    LTR: ("ltr", False),
    LTR_BILSTM: ("ltr", True),
}

# Table 7: row -> --feature_layers of run_ner.py; "" fine-tunes. The choice of
# NER-features in other tables, concat_last_four, is the default of the flag.
TABLE_7 = {
    "Fine-tuning": "",
    "Embeddings": "embeddings",
    "Second-to-Last Hidden": "second_to_last",
    "Last Hidden": "last",
    "Weighted Sum Last Four Hidden": "weighted_sum_last_four",
    "Concat Last Four Hidden": "concat_last_four",
    "Weighted Sum All Layers": "weighted_sum_all",
}

# Table 8: percent of the predicted tokens that become [MASK], stay, are random.
MASKINGS: tuple[steps.Masking, ...] = (
    steps.STANDARD,
    (100, 0, 0),
    (80, 0, 20),
    (80, 20, 0),
    (0, 20, 80),
    (0, 0, 100),
)

# Figure 5: the two curves. The paper's masked LM is BERT-Base, which predicts
# the next sentence too: its last point is Table 5's first row.
FIGURE_5 = dict(zip((BERT, LTR), steps.CURVES, strict=True))


class Cell(NamedTuple):
    """The steps whose scores a cell averages, one for each seed and restart."""

    key: str  # of eval_results.txt
    factor: float  # score in the table / score in the file
    steps: list[str]  # names
    task: str = ""  # that is fine-tuned; "": a score of pre-training


class Row(NamedTuple):
    """A row of a table, or a point of Figure 5."""

    label: str  # the paper's
    cells: dict[str, Cell]  # by column; a column without data has none
    model: Pretrained | None = None  # of the first seed
    variant: Variant = PLAIN  # of fine-tuning
    task: str = ""  # that is fine-tuned in every column; "": the column's
    is_ensemble: bool = False  # of the runs of a seed
    second: Pretrained | None = None  # each run is an ensemble with one of it
    step: int = 0  # of pre-training (Figure 5)
    curve: str = ""  # its name (Figure 5)


class Experiment(NamedTuple):
    """A table or figure, with columns and rows in the paper's order."""

    name: str
    columns: Sequence[str]  # the paper's, then those of further tasks
    rows: Sequence[Row]
    left_out: dict[str, str]  # task, or "task of row", -> why it has no score


def rows_of(name: str, scale: Scale, init_checkpoint: str = "") -> list[Row]:
    """Return the rows of an experiment, without cells."""

    def model(
        size: Size = scale.model.size,
        objective: str = "mlm_nsp",
        masking: steps.Masking = steps.STANDARD,
        is_shuffled: bool = False,
    ) -> Pretrained:
        trained_as = "table5" if name == "figure5" else name
        return Pretrained(
            size,
            objective,
            masking,
            scale.steps(trained_as),
            is_shuffled=is_shuffled,
            checkpoint=init_checkpoint if name in FINE_TUNING else "",
        )

    match name:
        case "table1" | "table4":
            return [Row(BERT, {}, model())]
        case "table2":
            return [
                Row(label, {}, model(), variant, is_ensemble=is_ensemble)
                for label, (variant, is_ensemble) in TABLE_2.items()
            ]
        case "table3":
            return [Row(SINGLE, {}, model())]
        case "table5":
            bilstm = Variant(
                "bilstm",
                {
                    "bilstm_layers": scale.bilstm.layers,
                    "bilstm_units": scale.bilstm.units,
                },
            )
            return [
                Row(
                    label,
                    {},
                    model(objective=objective),
                    bilstm if has_bilstm else PLAIN,
                )
                for label, (objective, has_bilstm) in TABLE_5.items()
            ]
        case "table6":
            return [Row(own.name, {}, model(own)) for own in scale.table6.sizes]
        case "table7":
            return [
                Row(
                    label,
                    {},
                    model(),
                    PLAIN
                    if layers in ("", "concat_last_four")
                    else Variant(layers, {"feature_layers": layers}),
                    NER_FEATURES if layers else "",
                )
                for label, layers in TABLE_7.items()
            ]
        case "table8":
            return [
                Row(steps.masking_name(masking), {}, model(masking=masking))
                for masking in MASKINGS
            ]
        case "sentence_order":
            # Without next sentences, which nobody could tell in random order.
            return [
                Row(label, {}, model(objective="mlm", is_shuffled=is_shuffled))
                for label, is_shuffled in ((DOCUMENTS, False), (SHUFFLED, True))
            ]
        case "two_directions":
            size = scale.model.size
            heads = size.num_attention_heads
            # Two layers of width H / sqrt(2) have as many parameters as one.
            width = int(size.hidden_size / math.sqrt(2) / heads) * heads
            half = dataclasses.replace(size, hidden_size=width)
            left, right = (model(half, which) for which in ("ltr", "rtl"))
            return [
                Row(BOTH_AT_ONCE, {}, model(objective="mlm")),
                Row("LTR", {}, left),
                Row("RTL", {}, right),
                Row(LEFT_AND_RIGHT, {}, left, second=right),
            ]
    return [
        Row(
            f"{curve}, step {step}",
            {},
            model(objective=objective),
            step=step,
            curve=curve,
        )
        for step in steps.kept_steps(scale)
        for curve, objective in FIGURE_5.items()
    ]


def build(
    names: Sequence[str],
    scale: Scale,
    extra_tasks: Sequence[str],
    data: reproduction_tasks.Data,
    seeds: Iterable[int],
    has_vocab: bool,
    init_checkpoint: str = "",
    is_all: bool = False,
) -> tuple[Plan, list[Experiment]]:
    """Return the plan of some experiments, and their tables.

    Every table but FIXED_TASKS has the extra tasks besides its own, as far as
    there are data. Seeds, of the pre-training runs of each model, are counted
    from 1. FINE_TUNING begins with `init_checkpoint`, else with the scale's
    BERT. If the names are those of all tables, one without data is left out.

    Raises:
        UserError: a table has no task with data.
    """
    plan, tables, problem = Plan(scale, has_vocab), [], None
    for name in names:
        extra = [] if name in FIXED_TASKS else extra_tasks
        try:
            tables.append(_table(name, scale, extra, data, init_checkpoint))
        except UserError as error:
            if not is_all:
                raise
            problem = error
            logging.warning("Left out: %s", error)
    if not tables:
        raise problem
    for seed in seeds:
        for table in tables:
            restarts = range(1, getattr(scale, table.name).restarts + 1)
            for row in table.rows:
                model = row.model._replace(seed=seed)
                last = plan.pretraining(model)
                second = row.second and row.second._replace(seed=seed)
                if second:
                    plan.pretraining(second)
                step = row.step or model.num_train_steps
                for cell in row.cells.values():
                    if not cell.task:
                        cell.steps.append(last)
                        continue
                    runs = [
                        plan.finetuning(
                            model, cell.task, run, step, row.variant
                        )
                        for run in restarts
                    ]
                    if row.is_ensemble:
                        runs = [plan.ensemble(runs)]
                    elif second:
                        others = (
                            plan.finetuning(second, cell.task, run, step)
                            for run in restarts
                        )
                        runs = [
                            plan.ensemble([left, right])
                            for left, right in zip(runs, others, strict=True)
                        ]
                    cell.steps.extend(runs)
    return plan, tables


def _table(
    name: str,
    scale: Scale,
    extra_tasks: Sequence[str],
    data: reproduction_tasks.Data,
    init_checkpoint: str,
) -> Experiment:
    """Return a table whose cells have no steps yet."""
    own = (
        reproduction_tasks.name_of(task, name)
        for task in getattr(scale, name).tasks
    )
    reasons = {
        task: data.missing(task) for task in dict.fromkeys([*own, *extra_tasks])
    }
    left_out = {task: why for task, why in reasons.items() if why}
    tasks = [task for task in reasons if task not in left_out]
    rows = rows_of(name, scale, init_checkpoint)
    for row in rows:
        for task in tasks:
            if why := _problem(row, row.task or task, data):
                left_out[f"{task} of {row.label}"] = why
                continue
            column, key, _, factor, _ = TASKS[task]
            row.cells[column] = Cell(key, factor, [], row.task or task)
            for own_column, (own_task, key) in OWN_COLUMNS.get(
                name, {}
            ).items():
                if task == own_task:
                    row.cells[own_column] = Cell(key, factor, [], task)
    lacks = ", ".join(f"{task} ({why})" for task, why in left_out.items())
    if not any(row.cells for row in rows):
        other = "" if name in FIXED_TASKS else ", or other tasks with --tasks"
        raise UserError(
            f"--experiment={name}: no task of it has data: {lacks}; give "
            f"them{other}"
        )
    if lacks:
        logging.warning("%s: left out: %s", name, lacks)
    columns = [TASKS[task].column for task in tasks]
    if name == "figure5":
        return Experiment(name, columns, rows, left_out)
    papers = next(iter(paper_numbers.PAPER[name].values()), ())
    columns = [*papers, *OWN_COLUMNS.get(name, {}), *columns]
    if name not in FINE_TUNING:
        columns.append(PERPLEXITY)
        for row in rows:
            if row.second:
                continue
            kind = "lm" if row.model.objective in ONE_WAY else "masked_lm"
            row.cells[PERPLEXITY] = Cell(f"{kind}_perplexity", 1.0, [])
            if row.model.objective == "mlm_nsp":
                columns.append(NEXT_SENTENCE)
                row.cells[NEXT_SENTENCE] = Cell(
                    "next_sentence_accuracy", 100.0, []
                )
    return Experiment(name, list(dict.fromkeys(columns)), rows, left_out)


def _problem(row: Row, task: str, data: reproduction_tasks.Data) -> str | None:
    """Return why a row has no score of a task, None if it has one."""
    if row.variant.begins_with_triviaqa and (why := data.missing(TRIVIAQA)):
        return why
    if row.second and task != SQUAD:
        return "logits are averaged for SQuAD alone"
    if task != NER_FEATURES:
        return None
    if "bilstm_layers" in row.variant.flags:
        return "it has a BiLSTM of its own"
    layers = row.model.size.num_hidden_layers
    if row.model.checkpoint:
        layers = _layers_of(row.model.checkpoint)
    choice = row.variant.flags.get("feature_layers", "concat_last_four")
    if layers < FEATURE_LAYERS and choice.endswith("four"):
        return (
            f"it reads the last {FEATURE_LAYERS} layers, the model has {layers}"
        )
    return None


def _layers_of(checkpoint: str) -> float:
    """Return the layers of a given model; infinity where no file says it."""
    if checkpoint.startswith("hf://"):  # not fetched yet
        return math.inf
    folder = checkpoint
    if not file_system.is_directory(folder):
        folder = os.path.dirname(checkpoint)
    for name in ("bert_config.json", "config.json"):
        path = os.path.join(folder, name)
        if file_system.exists(path):
            found = text_files.read_json_object(path).get("num_hidden_layers")
            return found if isinstance(found, int) else math.inf
    return math.inf


def warn_of_lengths(scale: Scale, tasks: Sequence[str]) -> None:
    """Warn of tasks that are longer than the text of pre-training."""
    longest = max(p.max_seq_length for p in scale.pretraining.phases)
    for task in tasks:
        length = scale.for_task(task).max_seq_length
        if length > longest:
            logging.warning(
                "%s is fine-tuned at %d tokens, pre-training ends at %d: the "
                "later position embeddings are untrained",
                task,
                length,
                longest,
            )
