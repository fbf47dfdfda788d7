"""Whatever a user configures: options, text form, signature, registry and errors."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nlgauge import configured
from nlgauge.configured import Configured, Options, option, options_of, parse_text, show, spread
from nlgauge.errors import DataError, NLGaugeError, OptionError, PluginError, UnknownName, argument
from nlgauge.extend import Array, Batch, Direction, Level, SetMetric
from nlgauge.metrics.registry import create_metric, register_metric
from nlgauge.registry import Registry, owner_of
from nlgauge.schema import check_schema, stamped
from nlgauge.signature import Signature


@dataclass(frozen=True, kw_only=True)
class Sieve(Configured):
    """Keeps what is large enough."""

    name: ClassVar[str] = "sieve"

    least: float = option(0.5, "Smallest size.", metavar="X")
    mesh: Literal["fine", "coarse"] = option("fine", "Kind of mesh.")
    layers: Sequence[int] = option((1, 2), "Layers.")
    place: str | None = option(None, "Where.", signed=False)


SIEVES: Registry[Sieve] = Registry("sieve", "", {}, "sieve:least=0.1", registered={"sieve": Sieve})


def test_text_form_and_signature_make_it_again() -> None:
    made = Sieve(least=0.25, mesh="coarse", layers=[3], place="here")
    assert made.spec == "sieve:least=0.25,mesh=coarse,layers=3"
    again = Sieve(least=0.25, mesh="coarse", layers=(3,))
    assert SIEVES.create(made.spec) == again
    assert SIEVES.create(str(made.signature)) == again
    assert Sieve().spec == "sieve"


def test_values_that_separate_options_survive() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Named(Configured):
        name: ClassVar[str] = "named"
        file: str = ""

    registry: Registry[Named] = Registry("thing", "", {}, "", registered={"named": Named})
    for file in ("a,b.csv", "50%,x", "a|b", "c%2Cd"):
        made = Named(file=file)
        assert registry.create(made.spec) == made
        assert registry.create(str(made.signature)) == made


@dataclass(frozen=True, kw_only=True)
class Labelled(Configured):
    """Texts of every kind."""

    name: ClassVar[str] = "labelled"

    file: str = option("default", "One text.")
    tasks: Sequence[str] = option(("default",), "Several texts.")
    sizes: Sequence[float] = option((), "Several numbers.")


LABELS: Registry[Labelled] = Registry("label", "", {}, "", registered={"labelled": Labelled})


@given(
    st.builds(
        Labelled,
        file=st.text(),
        tasks=st.lists(st.text() | st.text("+%, |:=2B5\n")).map(tuple),
        sizes=st.lists(st.floats(allow_nan=False)).map(tuple),
    )
)
@example(Labelled(file=" a "))
@example(Labelled(tasks=("a+b", "", "50%2B", "c")))
@example(Labelled(tasks=()))
@example(Labelled(tasks=("",), sizes=(1e16, 1e-5)))
def test_any_text_comes_back_from_its_text_form_and_its_signature(made: Labelled) -> None:
    assert LABELS.create(made.spec) == made
    assert LABELS.create(str(made.signature)) == made


def test_choices_are_checked_however_it_is_made() -> None:
    with pytest.raises(OptionError) as made:
        Sieve(mesh="loose")  # type: ignore[arg-type]
    with pytest.raises(OptionError) as parsed:
        SIEVES.create("sieve:mesh=loose")
    assert made.value.option == parsed.value.option == "mesh"


def test_unknown_options_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'least'"):
        SIEVES.create("sieve:lest=1")
    with pytest.raises(UnknownName, match="did you mean 'sieve'"):
        SIEVES.create("seive")
    with pytest.raises(OptionError) as error:
        parse_text("sieve:least=1,least=2")
    assert error.value.option == "least"


def test_options_come_from_fields() -> None:
    least, mesh, layers, place = options_of(Sieve)
    assert (least.kind, least.default, least.about.metavar) == (float, 0.5, "X")
    assert mesh.choices == ("fine", "coarse")
    assert layers.is_several
    assert layers.kind is int
    assert not place.about.signed
    assert show(None) == "none"
    assert show((1, 2)) == "1+2"


@dataclass(frozen=True, kw_only=True)
class Tools(Options):
    """A group."""

    hammer: int = option(1, "Hammers.")


def test_keywords_spread_over_groups_and_unknown_ones_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    (tools,) = spread({"hammer": 3}, Tools)
    assert tools == Tools(hammer=3)
    with pytest.raises(UnknownName, match="did you mean 'hammer'"):
        list(spread({"hamer": 3}, Tools))
    monkeypatch.setitem(configured.RENAMED, "mallet", "hammer")
    with pytest.warns(FutureWarning, match="hammer") as said:
        (tools,) = spread({"mallet": 2}, Tools)
    assert tools == Tools(hammer=2)
    assert len(said) == 1
    with pytest.warns(FutureWarning), pytest.raises(OptionError) as error:
        list(spread({"mallet": 2, "hammer": 3}, Tools))
    assert error.value.option == "hammer"


def test_a_renamed_option_in_text_form_says_the_new_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(configured.RENAMED, "minimum", "least")
    with pytest.warns(FutureWarning, match="least") as said:
        assert SIEVES.create("sieve:minimum=0.25") == Sieve(least=0.25)
    assert len(said) == 1
    with pytest.warns(FutureWarning), pytest.raises(OptionError) as error:
        SIEVES.create("sieve:minimum=0.25,least=0.5")
    assert error.value.option == "least"


def test_errors_speak_the_words_of_their_reader() -> None:
    error = OptionError(f"{argument('on_error', 'sip')}; expected stop or skip")
    assert str(error) == "on_error=sip; expected stop or skip"
    assert error.worded(lambda name, value: f"--{name.replace('_', '-')} {value}").startswith("--on-error sip;")
    assert error.option == "on_error"


def test_errors_survive_a_trip_between_processes() -> None:
    error = DataError("no such column", file="a.csv", line=3, column="b", option="text")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (type(back), str(back), back.line, back.option) == (DataError, str(error), 3, "text")


def test_a_plugin_is_named_with_its_version_in_the_signature() -> None:
    assert owner_of(Signature) == ""
    owner = owner_of(Sieve)
    assert owner.startswith("test_configured.py@")
    assert f"|plugin:{owner}|" in str(Sieve().signature)
    assert Signature.parse(str(Sieve().signature)).plugin == owner
    with pytest.warns(UserWarning, match="other"):
        SIEVES.create("sieve|least:0.5|plugin:other 1.0|v:0.1.0")


def test_a_name_is_taken_once() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Second(Configured):
        """Another."""

        name: ClassVar[str] = "sieve"

    with pytest.raises(PluginError):
        SIEVES.register(Second)  # type: ignore[arg-type]


def test_a_plugin_that_fails_is_named_and_the_others_work(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    (tmp_path / "works.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from nlgauge.metrics.column import ColumnMetric\nfrom nlgauge import register_metric\n"
        "@register_metric\n@dataclass(frozen=True, kw_only=True)\n"
        "class Works(ColumnMetric):\n    '''Works.'''\n    name: ClassVar[str] = 'works'\n"
    )
    code = "import nlgauge; print('works' in nlgauge.metric_names())"
    plugins = f"{tmp_path / 'broken.py'}:{tmp_path / 'works.py'}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NLGAUGE_PLUGINS": plugins},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"
    assert "broken.py" in done.stderr
    assert "no_such_module" in done.stderr


def test_a_class_that_lacks_a_part_of_the_contract_is_named_with_what_it_lacks() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Partial(SetMetric):
        """A metric whose author forgot its aspect."""

        name: ClassVar[str] = "partial"
        direction: ClassVar[Direction] = Direction.MORE_DIVERSE
        level: ClassVar[Level] = "set"

        def per_set(self, batch: Batch) -> Array:
            return np.zeros(len(batch.sets))

    partial: Any = Partial
    register_metric(partial)
    with pytest.raises(PluginError, match=r"Partial lacks aspect;"):
        create_metric("partial")


def test_a_document_of_a_newer_schema_is_refused() -> None:
    document = stamped("study", {"rows": []})
    check_schema(document, "study", "a.json")
    refused: list[Any] = [{**document, "schema": "nlgauge.study/99"}, {"rows": []}, stamped("scores", {}), []]
    for wrong in refused:
        with pytest.raises(NLGaugeError) as error:
            check_schema(wrong, "study", "a.json")
        assert isinstance(error.value, DataError)
        assert error.value.file == "a.json"
