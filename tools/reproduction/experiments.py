"""The rows of the experiments, and the steps of their cells.

Tables 1 to 4 and 7 fine-tune one model, the others pre-train one for each row.
A cell names the steps whose scores it averages. `build` adds the steps of all
tables to one plan. All steps of a seed come before those of the next one, so
that a run that is stopped early has whole tables of the first seeds.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from base.errors import UserError

from absl import logging

from tools.reproduction import paper, steps, tasks
from tools.reproduction.paper import PAPER, PERPLEXITY
from tools.reproduction.scales import Scale
from tools.reproduction.steps import ONE_WAY, Plan, Pretrained, Row
from tools.reproduction.tasks import (
    FEATURE_LAYERS,
    NER_FEATURES,
    SQUAD,
    TASKS,
    TRIVIAQA,
)

NAMES = tuple(PAPER)
# Their rows are of one model, which --init_checkpoint may name.
FINE_TUNING = ("table1", "table2", "table3", "table4", "table7")
# --tasks adds none to these.
FIXED_TASKS = (*FINE_TUNING, "two_directions")

DEFAULT_LAYERS = "concat_last_four"  # of --feature_layers

# Columns of pre-training, beside those of tasks.
NEXT_SENTENCE = "next sentence"
OF_PRETRAINING = (PERPLEXITY, NEXT_SENTENCE)


class Cell(NamedTuple):
    """The steps whose scores a cell averages, one for each seed and restart."""

    key: str  # of eval_results.txt
    factor: float  # score in the table / score in the file
    steps: list[str]  # names
    task: str = ""  # of the fine-tuning; "" for a score of pre-training


class Experiment(NamedTuple):
    """A table or figure, with columns and rows in the paper's order."""

    name: str
    columns: Sequence[str]  # the paper's, then those of further tasks
    rows: Sequence[Row]
    cells: dict[
        tuple[str, str], Cell
    ]  # by row and column, where there are data
    left_out: dict[str, str]  # task, or "task of row", -> why it has no score


def rows_of(name: str, scale: Scale, init_checkpoint: str = "") -> list[Row]:
    """Return the rows of an experiment."""
    model = Pretrained(
        scale.size,
        num_train_steps=scale.steps("table5" if name == "figure5" else name),
        checkpoint=init_checkpoint if name in FINE_TUNING else "",
    )
    masked, left = (model._replace(objective=o) for o in ("mlm", "ltr"))
    match name:
        case "table2":
            single = Row(paper.SINGLE, model)
            after = Row(paper.TRIVIAQA_SINGLE, model, "triviaqa", "", True)
            return [
                single,
                single._replace(label=paper.ENSEMBLE, is_ensemble=True),
                after,
                after._replace(label=paper.TRIVIAQA_ENSEMBLE, is_ensemble=True),
            ]
        case "table3":
            return [Row(paper.SINGLE, model)]
        case "table5":
            layers, units = scale.bilstm.layers, scale.bilstm.units
            bilstm = f"--bilstm_layers={layers} --bilstm_units={units}"
            return [
                Row(paper.BERT, model),
                Row(paper.NO_NSP, masked),
                Row(paper.LTR, left),
                Row(paper.LTR_BILSTM, left, "bilstm", bilstm),
            ]
        case "table6":
            sizes = scale.table6.sizes
            return [Row(own.name, model._replace(size=own)) for own in sizes]
        case "table7":
            rows = [Row(paper.FINE_TUNED, model)]
            for label, (layers, _) in paper.FROZEN_LAYERS.items():
                row = Row(label, model, task=NER_FEATURES)
                if layers != DEFAULT_LAYERS:  # as NER-features in other tables
                    flags = f"--feature_layers={layers}"
                    row = row._replace(variant=layers, flags=flags)
                rows.append(row)
            return rows
        case "table8":
            labels = PAPER["table8"].numbers
            maskings = [label.replace("/", "-") for label in labels]
            size = scale.table8.size or model.size
            models = [model._replace(size=size, masking=m) for m in maskings]
            return list(map(Row, labels, models))
        case "sentence_order":
            # Without next sentences, which nobody could tell in random order.
            return [
                Row(paper.DOCUMENTS, masked),
                Row(paper.SHUFFLED, masked._replace(is_shuffled=True)),
            ]
        case "two_directions":
            heads = model.size.num_attention_heads
            # Two layers of width H / sqrt(2) have as many parameters as one.
            width = int(model.size.hidden_size / math.sqrt(2) / heads) * heads
            half = model.size._replace(hidden_size=width)
            left = left._replace(size=half)
            right = left._replace(objective="rtl")
            return [
                Row(paper.BOTH_AT_ONCE, masked),
                Row("LTR", left),
                Row("RTL", right),
                Row(paper.LEFT_AND_RIGHT, left, second=right),
            ]
        case "figure5":
            # The paper's masked LM is BERT-Base, which predicts the next
            # sentence too: its last point is Table 5's first row.
            return [
                Row(f"{curve}, step {step}", own, step=step, curve=curve)
                for step in steps.kept_steps(scale)
                for curve, own in ((paper.BERT, model), (paper.LTR, left))
            ]
    return [Row(paper.BERT, model)]  # Tables 1 and 4


def build(
    names: Sequence[str],
    scale: Scale,
    extra_tasks: Sequence[str],
    data: tasks.Data,
    given: Collection[str] = (),
    init_checkpoint: str = "",
    is_all: bool = False,
) -> tuple[Plan, list[Experiment]]:
    """Return the plan of some experiments, and their tables.

    Args:
        names: the experiments.
        scale: their values.
        extra_tasks: tasks for all of them except FIXED_TASKS.
        data: the data of the tasks. A task without data is left out.
        given: HELD_OUT and VOCABULARY of steps.py, if the user gives them.
        init_checkpoint: the model of FINE_TUNING, "" for the scale's BERT.
        is_all: leave out experiments without data.

    Raises:
        UserError: an experiment has no task with data.
    """
    plan, tables, problem = Plan(scale, given), [], None
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
    for seed in range(1, scale.num_seeds + 1):
        for table in tables:
            restarts = range(1, getattr(scale, table.name).restarts + 1)
            for row in table.rows:
                models = [row.model, row.second] if row.second else [row.model]
                models = [model._replace(seed=seed) for model in models]
                last, *_ = map(plan.pretraining, models)
                for (label, _), cell in table.cells.items():
                    if label != row.label:
                        continue
                    if not cell.task:
                        cell.steps.append(last)
                        continue
                    runs = [  # of each restart those of the models
                        [plan.finetuning(m, cell.task, row, n) for m in models]
                        for n in restarts
                    ]
                    if row.is_ensemble:
                        runs = [[run for (run,) in runs]]
                    is_single = not row.second and not row.is_ensemble
                    cell.steps.extend(
                        run[0] if is_single else plan.ensemble(run)
                        for run in runs
                    )
    return plan, tables


def _table(
    name: str,
    scale: Scale,
    extra_tasks: Sequence[str],
    data: tasks.Data,
    init_checkpoint: str,
) -> Experiment:
    """Return a table whose cells have no steps yet."""
    rows = rows_of(name, scale, init_checkpoint)
    columns, left_out = [*PAPER[name].columns], {}
    cells: dict[tuple[str, str], Cell] = {}
    for task in dict.fromkeys([*getattr(scale, name).tasks, *extra_tasks]):
        if why := tasks.missing(task, data):
            left_out[task] = why
            continue
        own = TASKS[task]
        columns.append(next(iter(own.scores)))
        for row in rows:
            trained_on = row.task or task
            if why := _problem(row, trained_on, data):
                left_out[f"{task} of {row.label}"] = why
                continue
            for column, key in own.scores.items():
                if (name, task) == ("table1", "MRPC"):
                    key = "f1"  # its accuracy is in Tables 5 and 6
                if column in columns:
                    cell = Cell(key, own.factor, [], trained_on)
                    cells[row.label, column] = cell
    lacks = ", ".join(f"{task} ({why})" for task, why in left_out.items())
    if not cells:
        other = "" if name in FIXED_TASKS else ", or other tasks with --tasks"
        raise UserError(
            f"--experiment={name}: no task of it has data: "
            f"{lacks or 'it has none'}; give them{other}"
        )
    if lacks:
        logging.warning("%s: left out: %s", name, lacks)
    if name not in (*FINE_TUNING, "figure5"):
        columns.append(PERPLEXITY)
        for row in rows:
            if row.second:
                continue
            kind = "lm" if row.model.objective in ONE_WAY else "masked_lm"
            cells[row.label, PERPLEXITY] = Cell(f"{kind}_perplexity", 1.0, [])
            if row.model.objective == steps.DEFAULT_OBJECTIVE:
                columns.append(NEXT_SENTENCE)
                cells[row.label, NEXT_SENTENCE] = Cell(
                    "next_sentence_accuracy", 100.0, []
                )
    return Experiment(name, list(dict.fromkeys(columns)), rows, cells, left_out)


def _problem(row: Row, task: str, data: tasks.Data) -> str:
    """Return why a row has no score of a task, "" if it has one."""
    if row.after_triviaqa and (why := tasks.missing(TRIVIAQA, data)):
        return why
    if row.second and task != SQUAD:
        return "logits are averaged for SQuAD alone"
    if task != NER_FEATURES or row.model.checkpoint:
        return ""  # a script says what a model of the user lacks
    if row.variant == "bilstm":
        return "it has a BiLSTM of its own"
    layers = row.model.size.num_hidden_layers
    reads_four = not row.variant or row.variant.endswith("four")
    if reads_four and layers < FEATURE_LAYERS:
        return (
            f"it reads the last {FEATURE_LAYERS} layers, the model has {layers}"
        )
    return ""


def check_lengths(scale: Scale, names: Sequence[str]) -> None:
    """Check that pre-trained models have positions for the sequences of tasks.

    Warns of positions that pre-training does not train.

    Raises:
        UserError: a phase or a task has sequences longer than the model's.
    """
    positions = scale.model.max_position_embeddings
    longest = max(p.max_seq_length for p in scale.pretraining.phases)
    lengths = {name: scale.for_task(name).max_seq_length for name in names}
    for what, length in {"a phase": longest, **lengths}.items():
        if length > positions:
            raise UserError(
                f"max_seq_length = {length} of {what} exceeds "
                f"model.max_position_embeddings = {positions}"
            )
        if length > longest:
            logging.warning(
                "%s is fine-tuned at %d tokens, pre-training ends at %d: the "
                "later position embeddings are untrained",
                what,
                length,
                longest,
            )
