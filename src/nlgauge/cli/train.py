"""`nlgauge train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from nlgauge.models.training_run import TrainingCard

app = typer.Typer(
    help="Train models on your own texts.\n\nExample: nlgauge train lm --data stories.txt --from smollm2 --out tuned",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="FILE",
        help="Texts (one a line in .txt, JSON lines, a JSON list, CSV or Parquet, also .gz or .zst) or pairs: tables "
        "with context and text, or dialogs; repeat for more.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="The model's folder: a new one, or that of this run.")
]
Field = Annotated[
    str, typer.Option(metavar="COL", help="Field of the texts. Default: text or story.", show_default=False)
]
Limit = Annotated[int, typer.Option(help="Use only so many texts, chosen by the seed; 0 for all.")]
Validation = Annotated[float, typer.Option(help="Share of the texts that is held out.")]
HeldOut = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Hold out the examples of this file instead of a share.", show_default=False),
]
Pairs = Annotated[bool, typer.Option("--pairs", help="Learn responses after their prompts; train seq2seq always does.")]
Template = Annotated[
    str | None,
    typer.Option(help="Pairs: what stands before a response; {context} is replaced, and \\n is a line break."),
]
Join = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Between prompt and response; default: a space, if the template ends in none."),
]
ContextTurns = Annotated[int, typer.Option(metavar="N", help="Dialogs: turns before a response, at most.")]
Epochs = Annotated[int | None, typer.Option(help="Times over the texts. Default: 20 from scratch, else 3.")]
MaxSteps = Annotated[int, typer.Option(help="Most steps; 0 for no limit.")]
Minutes = Annotated[float, typer.Option(help="Stop after so many minutes and keep the best; 0 for no limit.")]
BatchSize = Annotated[int, typer.Option(help="Texts a step.")]
LearningRate = Annotated[
    float | None, typer.Option(help="Highest learning rate. Default: 0.002 from scratch, else 0.00005.")
]
Warmup = Annotated[float, typer.Option(help="Share of the steps over which the learning rate rises.")]
WeightDecay = Annotated[float, typer.Option(help="Weight decay of matrices.")]
Clip = Annotated[float, typer.Option(help="Longest gradient.")]
Dropout = Annotated[float | None, typer.Option(help="Default: 0.1 from scratch, else the model's own.")]
LabelSmoothing = Annotated[float, typer.Option(help="Share of the probability that the loss spreads over all tokens.")]
EvaluateEvery = Annotated[int, typer.Option(help="Steps between evaluations and checkpoints; 0 for twice an epoch.")]
Patience = Annotated[int, typer.Option(help="Stop after so many evaluations without a better loss; 0 for never.")]
Device = Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")]
Dtype = Annotated[str, typer.Option(help="float32, or bfloat16 to compute in (weights stay float32).")]
Threads = Annotated[int, typer.Option(help="CPU threads; 0 leaves them as they are.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete what an earlier run left in the folder, and start anew.")]
Format = Annotated[str, typer.Option("--format", metavar="text|json", help="How to print the outcome.")]


_LM_HELP = """Train a causal language model from scratch, or fine-tune one.

Keeps the weights with the best validation loss. A killed run goes on from its last checkpoint when the same command is
given again, and ends with the same weights. The folder works wherever a model is named.

Examples:

  nlgauge train lm --data stories.txt --from scratch --out stories-lm --minutes 10

  nlgauge train lm --data stories.jsonl --field story --from smollm2 --out tuned --epochs 1

  nlgauge train lm --pairs --data dialogs.txt --template '{context}\\n' --out chat --label-smoothing 0.2

  nlgauge generate prompts.txt --model stories-lm -o sets.jsonl
"""
_SEQ2SEQ_HELP = """Train a model with encoder and decoder on prompts and responses, from scratch, or fine-tune one.

Pairs come from tables with columns context and text, or from dialogs, where every turn but the first is a response.
All else is as with train lm.

Examples:

  nlgauge train seq2seq --data train.jsonl --held-out valid.jsonl --out chat --label-smoothing 0.2 --dropout 0.4

  nlgauge study ruq --model chat --train train.jsonl --test test.jsonl
"""


@app.command("seq2seq", help=_SEQ2SEQ_HELP)
@app.command("lm", help=_LM_HELP)
def train_command(
    context: typer.Context,
    data: Data,
    out: Out,
    start: Annotated[
        str, typer.Option("--from", metavar="NAME|FOLDER|scratch", help="Catalogue name, folder, hub name, or scratch.")
    ] = "scratch",
    field: Field = "",
    limit: Limit = 0,
    validation: Validation = 0.1,
    held_out: HeldOut = None,
    pairs: Pairs = False,
    template: Template = None,
    join: Join = None,
    context_turns: ContextTurns = 1,
    epochs: Epochs = None,
    max_steps: MaxSteps = 0,
    minutes: Minutes = 0,
    batch_size: BatchSize = 16,
    learning_rate: LearningRate = None,
    warmup: Warmup = 0.1,
    weight_decay: WeightDecay = 0.01,
    clip: Clip = 1.0,
    dropout: Dropout = None,
    label_smoothing: LabelSmoothing = 0.0,
    evaluate_every: EvaluateEvery = 0,
    patience: Patience = 4,
    window: Annotated[int, typer.Option(help="Longest row of tokens; longer texts are cut.")] = 512,
    layers: Annotated[int | None, typer.Option(help="From scratch: layers. Default: 4.")] = None,
    width: Annotated[int | None, typer.Option(help="From scratch: size of a layer. Default: 192.")] = None,
    heads: Annotated[int | None, typer.Option(help="From scratch: attention heads. Default: 4.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="From scratch: most tokens there are. Default: 4096.")] = None,
    seed: inputs.Seed = 12345,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    threads: Threads = 0,
    fresh: Fresh = False,
    format: Format = "text",
    progress: inputs.Progress = True,
) -> None:
    """Train the kind of model that the command's name says."""
    from dataclasses import replace

    from nlgauge.models.prompting import Prompting
    from nlgauge.models.training_lm import Architecture, default_settings, train_language_model

    _check_format(format)
    given = {"epochs": epochs, "learning_rate": learning_rate, "dropout": dropout}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings = replace(
        default_settings(start),
        max_steps=max_steps,
        minutes=minutes,
        batch_size=batch_size,
        warmup=warmup,
        weight_decay=weight_decay,
        clip=clip,
        label_smoothing=label_smoothing,
        evaluate_every=evaluate_every,
        patience=patience,
        seed=seed,
        dtype=dtype,
        **chosen,
    )
    shape = {"layers": layers, "width": width, "heads": heads, "vocabulary": vocabulary}
    asked = {name: value for name, value in shape.items() if value is not None}
    if asked and start != "scratch":
        raise OptionError(f"--{next(iter(asked))} goes with --from scratch; --from {start} has a shape already")
    prompting = None
    if template is not None or join is not None:
        prompting = Prompting(_unescaped(template or "{context}"), None if join is None else _unescaped(join))
    card = train_language_model(
        data,
        out,
        kind="lm" if context.info_name == "lm" else "seq2seq",
        pairs=pairs,
        prompting=prompting,
        context_turns=context_turns,
        start=start,
        settings=settings,
        architecture=Architecture(**asked) if asked else None,
        field=field,
        validation=validation,
        held_out=held_out or (),
        limit=limit,
        window=window,
        device=device,
        threads=threads,
        fresh=fresh,
        say=_say,
        progress=progress,
    )
    _conclude(card, out, format)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


def _say(line: str) -> None:
    print(f"nlgauge: {line}", file=sys.stderr, flush=True)


def _check_format(format: str) -> None:
    if format not in ("text", "json"):
        raise OptionError(f"--format {format}; expected text or json")


def _conclude(card: TrainingCard, out: Path, format: str) -> None:
    """Draw the loss curve beside the weights, and print the outcome."""
    from nlgauge.engine.files import write_text
    from nlgauge.models.training_run import CURVE
    from nlgauge.report.charts import loss_curve

    if not (out / CURVE).exists():
        validation = [(evaluation.step, evaluation.validation_loss) for evaluation in card.evaluations]
        write_text(out / CURVE, loss_curve(card.train_loss, validation, card.best_step))
    if format == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode({"model": str(out), "training": card}), indent=2).decode())
        return
    print(f"model             {out}")
    print(f"stopped           {card.stopped}, after {card.steps} steps and {card.seconds:.0f} s")
    print(f"kept              the weights of step {card.best_step}")
    print(f"perplexity        {card.perplexity_before:.2f} before, {card.perplexity_after:.2f} after")
    tokens, texts = card.data["validation_units"], card.data["validation_texts"]
    print(f"                  (per token, ends included; {tokens:,} tokens of {texts:,} held-out texts)")
