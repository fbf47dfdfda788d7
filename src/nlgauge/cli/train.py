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
    help="Train models and metrics on your own texts.\n\nExample: nlgauge train lm --data stories.txt --from smollm2 "
    "--out tuned",
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
        **_chosen(given),
    )
    shape = {"layers": layers, "width": width, "heads": heads, "vocabulary": vocabulary}
    asked = _chosen(shape)
    if asked and start != "scratch":
        raise OptionError(f"--{next(iter(asked))} goes with --from scratch; --from {start} has a shape already")
    prompting = None
    if template is not None or join is not None:
        prompting = Prompting(inputs.unescaped(template or "{context}"), inputs.unescaped(join))
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


_UNION_HELP = """Train UNION: a classifier that tells real stories from stories made worse on purpose.

Each story gets one negative: words or sentences repeated, replaced or put in another order, negation altered. The
folder works as union:model=DIR. On two cores, 4,000 stories take some minutes an epoch. Goes on when killed.

Examples:

  nlgauge train union --data stories.jsonl --encoder minilm --out my-union

  nlgauge score written.jsonl -m union:model=my-union

  nlgauge train union --data stories.jsonl --scramble-labels --out control
"""
_RUBER_HELP = """Train RUBER: how well a text goes with its context, against texts of other contexts.

Pairs come from tables with columns context and text; of a story without a context, the first sentence is the context
of the rest. The folder works as ruber:model=DIR, with part=hybrid, referenced or unreferenced. Goes on when killed.

Examples:

  nlgauge train ruber --data stories.jsonl --encoder minilm --out my-ruber

  nlgauge train ruber --data pairs.jsonl --vectors glove-50d --pooling minmax --out word-ruber

  nlgauge score written.jsonl -m ruber:model=my-ruber,part=unreferenced
"""
Encoder = Annotated[str, typer.Option(metavar="NAME|FOLDER", help="Encoder: catalogue name, folder or hub name.")]
MetricEpochs = Annotated[int | None, typer.Option(help="Times over the texts. Default: what suits the model.")]
MetricRate = Annotated[float | None, typer.Option(help="Highest learning rate. Default: what suits the model.")]
Window = Annotated[int, typer.Option(help="Most tokens of a text that the encoder reads; longer texts are cut.")]


@app.command("union", help=_UNION_HELP)
def union_command(
    data: Data,
    out: Out,
    encoder: Encoder = "minilm",
    field: Field = "",
    limit: Limit = 0,
    validation: Validation = 0.1,
    held_out: HeldOut = None,
    antonyms: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Antonyms for substitution, in lines such as hot|||/r/Antonym|||cold; else words of a like class.",
            show_default=False,
        ),
    ] = "",
    reconstruction: Annotated[float, typer.Option(metavar="WEIGHT", help="Weight of the reconstruction loss.")] = 0.0,
    scramble_labels: Annotated[
        bool, typer.Option("--scramble-labels", help="Control: labels by chance; held-out accuracy must be near .5.")
    ] = False,
    epochs: MetricEpochs = None,
    max_steps: MaxSteps = 0,
    minutes: Minutes = 0,
    batch_size: Annotated[int | None, typer.Option(help="Texts a step. Default: what suits the model.")] = None,
    learning_rate: MetricRate = None,
    evaluate_every: EvaluateEvery = 0,
    patience: Annotated[int | None, typer.Option(help="Evaluations without a better loss before the end.")] = None,
    window: Window = 128,
    seed: inputs.Seed = 12345,
    device: Device = "cpu",
    threads: Threads = 0,
    fresh: Fresh = False,
    format: Format = "text",
    progress: inputs.Progress = True,
) -> None:
    """Train UNION's classifier."""
    from dataclasses import replace

    from nlgauge.models.training_union import UNION_SETTINGS, train_union

    _check_format(format)
    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "patience": patience}
    limits: dict[str, Any] = {"max_steps": max_steps, "minutes": minutes, "evaluate_every": evaluate_every}
    card = train_union(
        data,
        out,
        encoder=encoder,
        settings=replace(UNION_SETTINGS, seed=seed, **limits, **_chosen(given)),
        field=field,
        validation=validation,
        held_out=held_out or (),
        limit=limit,
        window=window,
        reconstruction=reconstruction,
        antonyms=antonyms,
        scramble_labels=scramble_labels,
        device=device,
        threads=threads,
        fresh=fresh,
        say=_say,
        progress=progress,
    )
    _conclude(card, out, format)


@app.command("ruber", help=_RUBER_HELP)
def ruber_command(
    data: Data,
    out: Out,
    encoder: Annotated[
        str | None, typer.Option(metavar="NAME|FOLDER", help="Encoder that reads texts. Default: minilm.")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Word vectors instead of an encoder, such as glove-50d.")
    ] = None,
    pooling: Annotated[
        str, typer.Option(metavar="mean|minmax", help="How words or tokens become one vector.")
    ] = "mean",
    tune: Annotated[bool, typer.Option("--tune", help="Train the encoder, too.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Files are pairs or dialogs, whatever their kind.")] = False,
    field: Field = "",
    limit: Limit = 0,
    validation: Validation = 0.1,
    held_out: HeldOut = None,
    epochs: MetricEpochs = None,
    max_steps: MaxSteps = 0,
    minutes: Minutes = 0,
    batch_size: Annotated[int | None, typer.Option(help="Pairs a step. Default: what suits the model.")] = None,
    learning_rate: MetricRate = None,
    evaluate_every: EvaluateEvery = 0,
    patience: Annotated[int | None, typer.Option(help="Evaluations without a better loss before the end.")] = None,
    window: Window = 128,
    seed: inputs.Seed = 12345,
    device: Device = "cpu",
    threads: Threads = 0,
    fresh: Fresh = False,
    format: Format = "text",
    progress: inputs.Progress = True,
) -> None:
    """Train RUBER's unreferenced part, and fix the ranges of both parts."""
    from dataclasses import replace

    from nlgauge.models.training_ruber import RUBER_SETTINGS, TUNED_SETTINGS, train_ruber

    _check_format(format)
    if encoder is not None and vectors is not None:
        raise OptionError(f"--encoder {encoder} and --vectors {vectors}; expected one of them")
    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "patience": patience}
    limits: dict[str, Any] = {"max_steps": max_steps, "minutes": minutes, "evaluate_every": evaluate_every}
    way: Any = pooling
    card = train_ruber(
        data,
        out,
        reader=vectors or encoder or "minilm",
        pooling=way,
        tune=tune,
        settings=replace(TUNED_SETTINGS if tune else RUBER_SETTINGS, seed=seed, **limits, **_chosen(given)),
        pairs=pairs,
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


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


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
    if isinstance(card.measures, dict):
        _print_measures(card.measures)
        return
    print(f"perplexity        {card.perplexity_before:.2f} before, {card.perplexity_after:.2f} after")
    tokens, texts = card.data["validation_units"], card.data["validation_texts"]
    print(f"                  (per token, ends included; {tokens:,} tokens of {texts:,} held-out texts)")


def _print_measures(measures: dict[str, Any]) -> None:
    print(f"accuracy          {measures['accuracy']:.3f} on held-out texts; guessing gives .5")
    if "auc" in measures:
        print(f"area under curve  {measures['auc']:.3f}; of negatives that one technique alone made:")
        for technique, area in measures["auc_by_technique"].items():
            print(f"  {technique:<16}{'none held out' if area is None else format(area, '.3f')}")
    for part, (low, high) in measures.get("ranges", {}).items():
        print(f"{part:<18}{low:.3f} to {high:.3f}")
