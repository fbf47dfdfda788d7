"""`nlgauge metrics`."""

from __future__ import annotations

from nlgauge.cli.commands import CommandGroup, argument
from nlgauge.cli.output import Output, Plugins, columns, show_list


def list_metrics(plugins: Plugins, output: Output) -> None:
    """List the metrics with the first line of their definitions.

    Example: nlgauge metrics list
    """
    from nlgauge.metrics.registry import METRICS, metric_names

    plugins.use()
    classes = METRICS.classes(metric_names())
    rows = [{"name": cls.name, "definition": (cls.__doc__ or "").strip().partition("\n")[0]} for cls in classes]
    show_list("metrics", rows, columns([tuple(row.values()) for row in rows]), output)


def show_metric(plugins: Plugins, name: str = argument("NAME", "A metric, such as distinct.")) -> None:
    """Show a metric's definition, paper, options and an example.

    Example: nlgauge metrics show distinct
    """
    from nlgauge.metrics.registry import describe_metric

    plugins.use()
    print("\n".join(describe_metric(name)))


app = CommandGroup(
    "metrics",
    "List metrics, or show one in full.",
    {"list": list_metrics, "show": show_metric},
    examples=["nlgauge metrics", "nlgauge metrics distinct"],
    alone="list",
    otherwise="show",
)
