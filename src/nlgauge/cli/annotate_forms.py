"""`nlgauge annotate forms`."""

from __future__ import annotations

from typing import Annotated

import typer

forms_app = typer.Typer(
    help="List the forms that come with NLGauge, or show one. Example: nlgauge annotate forms show abs-hds",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)


@forms_app.callback()
def _list_forms(context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from nlgauge.annotate.forms import form_names, load_form

    rows = [(name, load_form(name)) for name in form_names()]
    width = max(len(name) for name, _ in rows)
    for name, form in rows:
        print(f"{name.ljust(width)}  {form.title} ({form.paper})")


@forms_app.command("show")
def show_form_command(
    name: Annotated[str, typer.Argument(metavar="FORM", help="A form by name, or a file of your own.")],
) -> None:
    """What a form shows and asks. Example: nlgauge annotate forms show typicality"""
    from nlgauge.annotate.forms import load_form

    form = load_form(name)
    minutes = "1 minute" if form.minutes == 1 else f"{form.minutes:g} minutes"
    print(f"{form.name}: {form.title}\n{form.paper or 'a form of your own'}; about {minutes}")
    print(f"a unit: {form.unit.size} {form.unit.of}{'s' if form.unit.size > 1 else ''}")
    for step in form.steps:
        print(f"\n{step.title} (shows {', '.join(step.show)})")
        for question in step.questions:
            notes = [question.widget, f"per {question.per}"]
            notes += [] if question.required else ["optional"]
            notes += [] if question.export else ["not exported"]
            print(f"  {question.id}: {question.prompt} ({', '.join(notes)})")
