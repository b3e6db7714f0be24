"""The rows of the experiments, and the steps of their cells.

Tables 1 to 4 and 7 fine-tune one model, the others pre-train one for each row.
A cell names the steps whose scores it averages. `build` adds the steps of all
tables to one plan. All steps of a seed come before those of the next one, so
that a run that is stopped early has whole tables of the first seeds.
"""

from collections.abc import Sequence

from base.errors import UserError

from absl import logging

from tools.reproduction import paper, steps, tasks
from tools.reproduction.paper import NEXT_SENTENCE, PAPER, PERPLEXITY
from tools.reproduction.scales import Scale, Size
from tools.reproduction.steps import DEFAULT_OBJECTIVE, Plan, Row
from tools.reproduction.tables import Cell, Table
from tools.reproduction.tasks import NER_FEATURES, TASKS, TRIVIAQA

NAMES = tuple(PAPER)
# Their rows are of one model, which --init_checkpoint may name, and of the
# paper's tasks alone.
FINE_TUNING = ("table1", "table2", "table3", "table4", "table7")


def rows_of(name: str, scale: Scale, init_checkpoint: str = "") -> list[Row]:
    """Return the rows of an experiment."""
    bert = Row(paper.BERT, scale.size)
    left = bert._replace(label=paper.LTR, objective="ltr")
    if name in FINE_TUNING:
        bert = bert._replace(checkpoint=init_checkpoint)
    single = bert._replace(label=paper.SINGLE)
    match name:
        case "table2":
            ensemble = single._replace(label=paper.ENSEMBLE, is_ensemble=True)
            after = {"variant": "triviaqa", "after_triviaqa": True}
            return [
                single,
                ensemble,
                single._replace(label=paper.TRIVIAQA_SINGLE, **after),
                ensemble._replace(label=paper.TRIVIAQA_ENSEMBLE, **after),
            ]
        case "table3":
            return [single]
        case "table5":
            bilstm = "--bilstm_layers={} --bilstm_units={}".format(
                scale["bilstm.layers"], scale["bilstm.units"]
            )
            return [
                bert,
                bert._replace(label=paper.NO_NSP, objective="mlm"),
                left,
                left._replace(
                    label=paper.LTR_BILSTM, variant="bilstm", flags=bilstm
                ),
            ]
        case "table6":
            sizes = [Size(**size) for size in scale["table6.sizes"]]
            return [
                bert._replace(label=size.name, size=size)
                for size in dict.fromkeys(sizes)
            ]
        case "table7":
            frozen = [
                bert._replace(
                    label=label,
                    task=NER_FEATURES,
                    variant=layers,
                    flags=f"--feature_layers={layers}",
                )
                for label, (layers, _) in paper.FROZEN_LAYERS.items()
            ]
            return [bert._replace(label=paper.FINE_TUNED), *frozen]
        case "table8":
            if size := scale["table8.size"]:
                bert = bert._replace(size=Size(**size))
            return [
                bert._replace(label=label, masking=label.replace("/", "-"))
                for label in PAPER["table8"].numbers
            ]
        case "figure5":
            # The paper's masked LM is BERT-Base, which predicts the next
            # sentence too: its last point is Table 5's first row.
            return [
                row._replace(label=f"{row.label}, step {step}", step=step)
                for step in steps.kept_steps(scale)
                for row in (bert, left)
            ]
    return [bert]  # Tables 1 and 4


def build(
    names: Sequence[str],
    scale: Scale,
    extra_tasks: Sequence[str],
    data: tasks.Data,
    init_checkpoint: str = "",
) -> tuple[Plan, list[Table]]:
    """Return the plan of some experiments, and their tables.

    Args:
        names: the experiments.
        scale: their values.
        extra_tasks: tasks for all of them except FINE_TUNING.
        data: what the user gives. A task without data is left out.
        init_checkpoint: the model of FINE_TUNING, "" for the scale's BERT.

    Raises:
        UserError: no experiment has a task with data, or sequences are longer
            than the models that are pre-trained.
    """
    plan, tables, missing = Plan(scale, data), [], []
    for name in names:
        rows = rows_of(name, scale, init_checkpoint)
        extra = [] if name in FINE_TUNING else extra_tasks
        table = _table(name, rows, [*scale[f"{name}.tasks"], *extra], data)
        if table.cells:
            tables.append(table)
        missing += [f"{name}: {k} ({why})" for k, why in table.left_out.items()]
    if not tables:
        raise UserError(
            f"--experiment={','.join(names)}: no task has data; left out are "
            f"{', '.join(missing) or 'none'}"
        )
    for line in missing:
        logging.warning("Left out: %s", line)
    for seed in range(1, scale["num_seeds"] + 1):
        for table in tables:
            restarts = range(1, scale[f"{table.name}.restarts"] + 1)
            for row in table.rows:
                last = plan.pretraining(row, seed)
                for (label, _), cell in table.cells.items():
                    if label != row.label:
                        continue
                    runs = [last]
                    if cell.task:
                        runs = [
                            plan.finetuning(row, cell.task, seed, restart)
                            for restart in restarts
                        ]
                    if row.is_ensemble:
                        runs = [plan.ensemble(runs)]
                    cell.steps.extend(runs)
    positions = scale["model.max_position_embeddings"]
    for step in plan.steps.values():
        length = int(step.flags.get("max_seq_length", 0))
        if length > positions and "/given/" not in step.name:
            raise UserError(
                f"{step.name}: max_seq_length = {length} exceeds "
                f"model.max_position_embeddings = {positions}"
            )
    return plan, tables


def _table(
    name: str, rows: Sequence[Row], names: Sequence[str], data: tasks.Data
) -> Table:
    """Return a table of some tasks whose cells have no steps yet."""
    columns, left_out = [*PAPER[name].columns], {}
    cells: dict[tuple[str, str], Cell] = {}
    if any(row.after_triviaqa for row in rows):
        if why := tasks.missing(TRIVIAQA, data):
            left_out[TRIVIAQA] = why
            rows = [row for row in rows if not row.after_triviaqa]
    for task in dict.fromkeys(names):
        if why := tasks.missing(task, data):
            left_out[task] = why
            continue
        own = TASKS[task]
        columns.append(next(iter(own.scores)))
        for column, key in own.scores.items():
            if (name, task) == ("table1", "MRPC"):
                key = "f1"  # its accuracy is in Tables 5 and 6
            for row in rows if column in columns else ():
                cell = Cell(key, own.factor, row.task or task, [])
                cells[row.label, column] = cell
    if cells and name not in (*FINE_TUNING, "figure5"):
        columns.append(PERPLEXITY)
        for row in rows:
            kind = "lm" if row.objective == "ltr" else "masked_lm"
            cell = Cell(f"{kind}_perplexity", steps=[])
            cells[row.label, PERPLEXITY] = cell
            if row.objective == DEFAULT_OBJECTIVE:
                columns.append(NEXT_SENTENCE)
                cell = Cell("next_sentence_accuracy", 100.0, steps=[])
                cells[row.label, NEXT_SENTENCE] = cell
    return Table(name, list(dict.fromkeys(columns)), rows, cells, left_out)
