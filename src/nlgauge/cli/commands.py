"""Commands made from functions and groups of options: every option is declared once, as a field or a parameter."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from nlgauge.configured import RENAMED, Configured, Option, Options, option, option_of, options_of, show
from nlgauge.errors import NLGaugeError, OptionError, wording

_METAVARS = {int: "N", float: "X", Path: "OUT"}
_ORDER = ("Arguments", "Options", "Metrics", "Inference", "Data", "Machine", "Running", "Output")
UNREAD = 141  # exit code when nobody reads the output any more
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
_flags: dict[str, click.Option] = {}
_plan: ContextVar[dict[str, Any] | None] = ContextVar("plan", default=None)


def argument(metavar: str, help: str, default: Any = dataclasses.MISSING) -> Any:
    """A positional argument of a command; a metavar that ends in `...` takes several values."""
    return option(default, help, metavar=metavar, flags=(metavar,))


def borrowed(cls: type, name: str) -> Any:
    """One option of a group, for a command that has no use for the others."""
    return next(one for one in dataclasses.fields(cls) if one.name == name)


@dataclass(frozen=True)
class Group:
    """Options of one class, which become one argument of the function; a plain dataclass holds several groups."""

    name: str
    cls: type

    @property
    def inner(self) -> list[Group]:
        """The groups that a plain dataclass holds."""
        return [] if issubclass(self.cls, Options) else [Group(one.name, one.hint) for one in options_of(self.cls)]

    def options(self) -> Iterator[tuple[Option, str]]:
        """The options with their headings."""
        for one in self.inner:
            yield from one.options()
        if not self.inner:
            yield from ((one, _title(self.cls, one.name)) for one in options_of(self.cls))

    def made(self, given: Mapping[str, Any]) -> Any:
        """An object of the class from the options that were given."""
        if self.inner:
            return self.cls(**{one.name: one.made(given) for one in self.inner})
        return self.cls(**{one.name: given[one.name] for one in options_of(self.cls) if one.name in given})


class _Value(click.ParamType[Any]):
    """The value of an option, parsed as its text form is."""

    name = "value"

    def __init__(self, option: Option) -> None:
        self._option = option

    @property
    def separator(self) -> str:
        """What is between several values in one word."""
        return self._option.about.separator or ("," if self._option.kind in (int, float) else "")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """From text; what is no text has been converted before."""
        if not isinstance(value, str):
            return value
        option = self._option
        if option.about.escapes:
            value = value.replace(r"\t", "\t").replace(r"\n", "\n")
        try:
            if option.is_several and self.separator:
                return tuple(option.parse(part)[0] for part in value.split(self.separator) if part)
            one = dataclasses.replace(option, hint=option.kind) if option.is_several else option
            return one.parse(value)
        except OptionError as error:
            self.fail(str(error).partition("; ")[2] or str(error), param, ctx)


class _Documented(click.Command):
    """A command or a group whose help is its documentation, with examples as they are typed."""

    def __init__(self, name: str, text: str, examples: Sequence[str], **rest: Any) -> None:
        super().__init__(name, context_settings=_SETTINGS, **rest)
        self.text, self.examples = text, examples

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first line."""
        del limit
        return self.text.partition("\n")[0]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The documentation, then the examples."""
        del ctx
        formatter.write_paragraph()
        with formatter.indentation():
            for paragraph in self.text.split("\n\n"):
                formatter.write_text(" ".join(paragraph.split()))
                formatter.write_paragraph()
            if self.examples:
                formatter.write_text("Example:" if len(self.examples) == 1 else "Examples:")
                for example in self.examples:
                    formatter.write(f"\n{'':{formatter.current_indent + 2}}{example}\n")


class Command(_Documented):
    """A command whose help shows options in groups."""

    def __init__(self, name: str, text: str, examples: Sequence[str], groups: Mapping[str, str], **rest: Any) -> None:
        super().__init__(name, text, examples, **rest)
        self._groups = groups

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, with options that have a new name taken under the old one for a release."""
        known = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        return super().parse_args(ctx, [_renamed(word, known) for word in args])

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and remember how options are called here, for messages."""
        _flags.clear()
        _flags.update({param.name or "": param for param in self.params if isinstance(param, click.Option)})
        plan = _plan.set(_plan_of(ctx))
        try:
            with wording(_in_flags):
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # click itself would print an empty line
            raise click.exceptions.Abort from stop
        except BrokenPipeError as stop:  # click itself would exit with 1, which is a finding here
            raise click.exceptions.Exit(UNREAD) from stop
        finally:
            _plan.reset(plan)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section per group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                sections.setdefault(self._groups.get(param.name or "", "Other"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Lazy(NamedTuple):
    """A command that is imported or made when it is called; help shows its purpose without that."""

    purpose: str
    make: str | Callable[[], click.Command]

    def made(self) -> Callable[..., Any] | click.Command:
        """The command, or its function."""
        found: Callable[..., Any] = pkgutil.resolve_name(self.make) if isinstance(self.make, str) else self.make()
        return found


Target = Callable[..., Any] | click.Command | Lazy


class CommandGroup(_Documented, click.Group):
    """Commands made from functions, each when it is called.

    `targets` may be a function, for commands that plugins add. Without any argument, the command `alone` runs; what
    names no command is an argument of the command `otherwise`.
    """

    def __init__(
        self,
        name: str,
        text: str,
        targets: Mapping[str, Target] | Callable[[], Mapping[str, Target]],
        *,
        examples: Sequence[str] = (),
        alone: str = "",
        otherwise: str = "",
        heading: str = "Commands",
    ) -> None:
        super().__init__(name, text, examples, no_args_is_help=not alone)
        self._named, self._alone, self._otherwise, self._heading = targets, alone, otherwise, heading

    @property
    def _targets(self) -> Mapping[str, Target]:
        return self._named if isinstance(self._named, Mapping) else self._named()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands."""
        del ctx
        return list(self._targets)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        del ctx
        target = self._targets.get(cmd_name)
        found = target.made() if isinstance(target, Lazy) else target
        return found if found is None or isinstance(found, click.Command) else command(cmd_name, found)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, with the command that stands for none, or for what is no command."""
        if not args and self._alone:
            args = [self._alone]
        elif args and self._otherwise and args[0] not in (*self._targets, *ctx.help_option_names):
            args = [self._otherwise, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and first lines, without importing anything."""
        del ctx
        with formatter.section(self._heading):
            formatter.write_dl([(name, _purpose(target)) for name, target in self._targets.items()])


def _purpose(target: Target) -> str:
    if isinstance(target, Lazy):
        return target.purpose
    if isinstance(target, click.Command):
        return target.get_short_help_str()
    return split_doc(target)[0].partition("\n")[0]


class _Argument(click.Argument):
    """An argument with help, whose usage is its metavar alone."""

    def __init__(self, one: Option) -> None:
        metavar = one.about.metavar
        super().__init__(
            [one.name],
            nargs=-1 if metavar.endswith("...") else 1,
            required=one.is_required,
            metavar=metavar if one.is_required else f"[{metavar}]",
            type=_Value(one),
        )
        self._help = one.about.help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Its metavar, and what it is."""
        return self.make_metavar(ctx), self._help


def _plan_of(ctx: click.Context) -> dict[str, Any]:
    """The command and the options that it was given, which make the same call again."""
    from nlgauge._version import __version__
    from nlgauge.schema import stamped

    values = ((param.name or "", ctx.params.get(param.name or "")) for param in ctx.command.params)
    given = {name: _plain(value) for name, value in values if value is not None and value != ()}
    called = ctx.command_path.partition(" ")[2]
    return stamped("plan", {"version": __version__, "steps": [{"command": called, **given}]})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | float):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()  # names of files need not be UTF-8


def words_of(param: click.Parameter, value: Any) -> list[str]:
    """The words of a command line that give a value of a plan to an option or an argument."""
    if isinstance(param, click.Option) and param.is_flag:
        return [param.opts[0]] if value else param.secondary_opts[:1]
    several = value if isinstance(value, list | tuple) else [value]
    if isinstance(param, click.Argument):
        return [str(one) for one in several]
    if isinstance(value, list) and not param.multiple and isinstance(param.type, _Value):
        several = [param.type.separator.join(map(str, value))]
    return [f"{param.opts[0]}={one}" for one in several]


def current_plan() -> dict[str, Any] | None:
    """The plan of the command that runs."""
    return _plan.get()


def _renamed(word: str, known: set[str]) -> str:
    flag, equals, value = word.partition("=")
    new = RENAMED.get(flag.removeprefix("--").replace("-", "_"))
    if not flag.startswith("--") or flag in known or new is None:
        return word
    current = flag_of(new)
    if current.partition("=")[0] not in known:
        return word
    print(f"nlgauge: warning: {flag} is called {current} now; the next release drops the old name", file=sys.stderr)
    return f"{current}{equals}{value}"


def flag_of(name: str) -> str:
    """The usual flag of an option."""
    return f"--{name.replace('_', '-')}"


def worded(error: NLGaugeError) -> str:
    """An error's message in the words of the command line."""
    return error.worded(_in_flags)


def _in_flags(name: str, value: str | None) -> str:
    option = _flags.get(name)
    if value == "False":
        return option.secondary_opts[0] if option is not None and option.secondary_opts else flag_of(f"no_{name}")
    flag = option.opts[0] if option is not None else flag_of(name)
    return flag if value in (None, "True") else f"{flag} {value}"


def command(
    name: str,
    function: Callable[..., Any],
    *,
    about: Any = None,
    names: Mapping[str, type] | None = None,
    also: Sequence[Option] = (),
) -> Command:
    """A command from a function: parameters of a dataclass are groups of options, the others one option each.

    For commands that are generated: `about` is the class with the documentation, `names` says what names in the
    function's annotations stand for, and `also` has further options, which it takes by keyword.
    """
    parameters = [*_parameters(function, names), *also]
    params: list[click.Parameter] = []
    titles: dict[str, str] = {}
    for parameter in parameters:
        options = parameter.options() if isinstance(parameter, Group) else [(parameter, "Options")]
        for one, title in options:
            if one.name not in titles:
                params.append(_click_parameter(one))
                titles[one.name] = "Arguments" if isinstance(params[-1], _Argument) else title
    text, examples = split_doc(function) if about is None else (split_doc(about)[0], about.examples)
    params.sort(key=lambda param: _place(titles[param.name or ""]))

    def callback(**values: Any) -> Any:
        given = {key: value for key, value in values.items() if value is not None and value != ()}
        return function(
            **{
                one.name: one.made(given) if isinstance(one, Group) else given.get(one.name, one.default)
                for one in parameters
            }
        )

    return Command(name, text, examples, titles, params=params, callback=callback)


def _place(title: str) -> float:
    """Arguments first, then the command's own options under any heading, then groups in one order."""
    return _ORDER.index(title) if title in _ORDER else _ORDER.index("Options") + 0.5


def _parameters(function: Callable[..., Any], names: Mapping[str, type] | None) -> Iterator[Option | Group]:
    hints = typing.get_type_hints(function, localns=dict(names or {}))
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield Group(parameter.name, hint)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield option_of(parameter.name, hint, parameter.default)


def split_doc(function: Any) -> tuple[str, tuple[str, ...]]:
    """The documentation, and the examples at its end."""
    text, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\nExample")
    lines = [line.strip() for line in rest.partition(":")[2].splitlines()]
    return text, tuple(line for line in lines if line)


def _title(cls: type, name: str) -> str:
    """The heading of an option: that of the class which declares it."""
    owner = next(base for base in cls.__mro__ if name in inspect.get_annotations(base))
    own = vars(owner).get("heading")
    return str(own or ("Options" if issubclass(owner, Configured) else getattr(owner, "heading", "Options")))


def _click_parameter(one: Option) -> click.Parameter:
    about = one.about
    if about.flags == (about.metavar,):
        return _Argument(one)
    flags = list(about.flags) or [flag_of(one.name)]
    default = "" if one.is_required or one.default in (None, "", (), False, dataclasses.MISSING) else show(one.default)
    help = about.help + (f" [default: {default}]" if default and one.kind is not bool else "")
    if one.kind is bool:
        if one.default is True and "/" not in flags[0]:
            flags[0] = f"{flags[0]}/--no-{flags[0].removeprefix('--')}"
        return click.Option([*flags, one.name], is_flag=True, default=None, help=help)
    value = _Value(one)
    return click.Option(
        [*flags, one.name],
        type=value,
        metavar="|".join(one.choices) or about.metavar or _METAVARS.get(one.kind, "TEXT"),
        multiple=one.is_several and not value.separator,
        required=one.is_required,
        help=help,
    )
