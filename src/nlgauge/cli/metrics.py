"""`nlgauge metrics`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _Metrics(TyperGroup):
    """A group that knows metrics from commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was called; a metric in its place is told what shows it."""
        from nlgauge.metrics.registry import metric_names

        if args and args[0] not in self.commands and args[0] in metric_names():
            ctx.fail(f"'{args[0]}' is a metric; expected a command: nlgauge metrics show {args[0]}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    help="List metrics, or show one in full.",
    cls=_Metrics,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def list_command(context: typer.Context) -> None:
    """List the metrics; `nlgauge metrics show NAME` tells all about one."""
    if context.invoked_subcommand is not None:
        return
    from nlgauge.metrics.registry import metric_class, metric_names

    classes = [metric_class(name) for name in metric_names()]
    width = max(len(cls.name) for cls in classes)
    for cls in classes:
        print(f"{cls.name:{width}}  {_first_line(cls)}")


@app.command("show")
def show_command(name: Annotated[str, typer.Argument(help="Name of a metric, such as distinct.")]) -> None:
    """Show a metric's definition, paper, options and an example.

    Example: nlgauge metrics show distinct
    """
    import inspect

    from nlgauge.metrics.options import describe, option_names, show
    from nlgauge.metrics.registry import metric_class

    cls = metric_class(name)
    default = cls()
    print(f"{cls.name}: {inspect.cleandoc(cls.__doc__ or '')}\n")
    print(f"paper       {cls.paper}")
    print(f"higher is   {cls.higher_is}")
    print(f"needs       {cls.needs} response{'s' * (cls.needs > 1)} a set")
    print(f"signature   {default.signature}")
    print("\noptions")
    for option in option_names(cls):
        print(f"  {option} = {show(getattr(default, option))}   ({describe(cls, option)})")
    print(f"\nexample\n  nlgauge score examples/system_a.jsonl -m {_example(default)} --confidence")


def _example(metric: Any) -> str:
    from nlgauge.metrics.options import option_names

    names = option_names(type(metric))
    if metric.example:
        return str(metric.example)
    return f"{metric.name}:case=lower" if "case" in names else str(metric.name)


def _first_line(cls: type[Any]) -> str:
    return (cls.__doc__ or "").strip().split("\n")[0]
