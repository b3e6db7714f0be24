"""Table 5, Table 6, Table 8 and Figure 5 as rows of cells, each of some steps.

A cell names the steps whose scores it averages. `build` adds the steps of all
tables to one plan, seed after seed: a run that is stopped early has the whole
tables of the first seeds.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from base.errors import UserError

from absl import logging

from tools.reproduction import paper_numbers, steps
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.paper_numbers import BERT, LTR, LTR_BILSTM, NO_NSP
from tools.reproduction.scales import Scale, Size
from tools.reproduction.steps import Plan, Pretrained
from tools.reproduction.tasks import FEATURE_LAYERS, NER_FEATURES, TASKS

NAMES = ("table5", "table6", "table8", "figure5")
PERPLEXITY = "perplexity"

# Table 5: row -> objective of pre-training, whether fine-tuning adds a BiLSTM.
TABLE_5 = {
    BERT: ("mlm_nsp", False),
    NO_NSP: ("mlm", False),
    LTR: ("ltr", False),
    LTR_BILSTM: ("ltr", True),
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
    has_bilstm: bool = False  # whether fine-tuning adds one
    step: int = 0  # of pre-training (Figure 5)
    curve: str = ""  # its name (Figure 5)


class Experiment(NamedTuple):
    """A table or figure, with columns and rows in the paper's order."""

    name: str
    columns: Sequence[str]  # the paper's, then those of further tasks
    rows: Sequence[Row]
    left_out: dict[str, str]  # task, or "task of row", -> why it has no score


def rows_of(name: str, scale: Scale) -> list[Row]:
    """Return the rows of an experiment, without cells."""

    def model(
        size: Size = scale.model.size,
        objective: str = "mlm_nsp",
        masking: steps.Masking = steps.STANDARD,
    ) -> Pretrained:
        trained_as = "table5" if name == "figure5" else name
        return Pretrained(size, objective, masking, scale.steps(trained_as))

    if name == "table5":
        return [
            Row(label, {}, model(objective=objective), has_bilstm)
            for label, (objective, has_bilstm) in TABLE_5.items()
        ]
    if name == "table6":
        return [Row(own.name, {}, model(own)) for own in scale.table6.sizes]
    if name == "table8":
        return [
            Row(steps.masking_name(masking), {}, model(masking=masking))
            for masking in MASKINGS
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
) -> tuple[Plan, list[Experiment]]:
    """Return the plan of some experiments, and their tables.

    Every table has the extra tasks besides its own, as far as there are data.
    Seeds, of the pre-training runs of each model, are counted from 1.

    Raises:
        UserError: a table has no task with data.
    """
    plan = Plan(scale, has_vocab)
    tables = [_table(name, scale, extra_tasks, data) for name in names]
    for seed in seeds:
        for name, table in zip(names, tables, strict=True):
            for row in table.rows:
                model = row.model._replace(seed=seed)
                last = plan.pretraining(model)
                step = row.step or model.num_train_steps
                for cell in row.cells.values():
                    if not cell.task:
                        cell.steps.append(last)
                        continue
                    runs = range(1, getattr(scale, name).restarts + 1)
                    cell.steps.extend(
                        plan.finetuning(
                            model, cell.task, run, step, row.has_bilstm
                        )
                        for run in runs
                    )
    return plan, tables


def _table(
    name: str,
    scale: Scale,
    extra_tasks: Sequence[str],
    data: reproduction_tasks.Data,
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
    rows = rows_of(name, scale)
    tasks = [task for task in reasons if task not in left_out]
    for row in rows:
        for task in tasks:
            layers, why = row.model.size.num_hidden_layers, ""
            if task == NER_FEATURES and row.has_bilstm:
                why = "it has a BiLSTM of its own"
            elif task == NER_FEATURES and layers < FEATURE_LAYERS:
                why = (
                    f"it reads the last {FEATURE_LAYERS} layers, the model has "
                    f"{layers}"
                )
            if why:
                left_out[f"{task} of {row.label}"] = why
            else:
                column, key, _, factor, _ = TASKS[task]
                row.cells[column] = Cell(key, factor, [], task)
    lacks = ", ".join(f"{task} ({why})" for task, why in left_out.items())
    if not any(row.cells for row in rows):
        raise UserError(
            f"--experiment={name}: no task of it has data: {lacks}; give them, "
            "or name other tasks with --tasks"
        )
    if lacks:
        logging.warning("%s: left out: %s", name, lacks)
    columns = [TASKS[task].column for task in tasks]
    if name != "figure5":
        for row in rows:
            kind = "lm" if row.model.objective == "ltr" else "masked_lm"
            row.cells[PERPLEXITY] = Cell(f"{kind}_perplexity", 1.0, [])
        papers = next(iter(paper_numbers.PAPER[name].values()))
        columns = list(dict.fromkeys([*papers, *columns, PERPLEXITY]))
    return Experiment(name, columns, rows, left_out)


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
