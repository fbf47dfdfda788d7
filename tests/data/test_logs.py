"""What other tools wrote is read without options, and scores as the same texts do when given directly.

The logs in `data/logs` were written by lm-evaluation-harness and Inspect themselves: see `scripts/sample-logs`.
"""

from __future__ import annotations

import copy
import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nlgauge import zstd
from nlgauge.data import Items, ResponseSets, Source, read
from nlgauge.data.logs.answers import shown
from nlgauge.data.plain_tables import read_table
from nlgauge.errors import DataError, OptionError
from nlgauge.scoring.scoring import score
from tests.conftest import ROOT
from tests.errors import raises
from tests.helpers import ANSWERS, QUESTIONS, nlgauge, packed

LOGS = ROOT / "tests" / "data" / "logs"
REFERENCES = {
    "rain": ["Let us stay at home and play cards.", "How about the cinema?"],
    "cake": ["It is wonderful, thank you!"],
    "bus": ["We can walk along the river."],
}
METRICS = ["distinct", "self-bleu", "cos-sim"]
SIZES = (1, 300, 1 << 20)
Change = Callable[[dict[str, Any]], object]


def samples(task: str) -> Path:
    (found,) = LOGS.glob(f"lm_eval/*/samples_replies_{task}_*.jsonl")
    return found


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(folder: Path, rows: Sequence[Any], name: str = "log.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def responses_of(table: Any) -> dict[str, list[str]]:
    assert isinstance(table, ResponseSets)
    return dict(zip(table.ids, table.to_polars()["responses"].to_list(), strict=True))


def values_of(data: Any) -> list[float | None]:
    return [one.value for one in score(data, METRICS)]


def sample_log() -> dict[str, Any]:
    """The Inspect log as a document."""
    log: dict[str, Any] = json.loads((LOGS / "inspect.json").read_text())
    return log


def with_sample(change: Change) -> dict[str, Any]:
    log = sample_log()
    change(log["samples"][1])
    return log


def archive(entries: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packing:
        for name, value in entries.items():
            packing.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return buffer.getvalue()


def as_archive(log: dict[str, Any]) -> bytes:
    """A log as a deflated archive, as earlier versions of Inspect wrote it."""
    named = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in log["samples"]}
    return archive({"header.json": {key: log[key] for key in ("version", "status", "eval")}, **named})


class TestLmEval:
    def test_repeats_of_a_document_are_the_responses_of_one_set(self) -> None:
        table = read(samples("twice"))
        assert list(responses_of(table).values()) == list(ANSWERS.values())
        assert table.frame["id"].to_list() == ["0", "1", "2"]
        assert table.frame["context"].to_list() == list(QUESTIONS.values())

    def test_single_answers_have_their_target_as_reference(self) -> None:
        items = read(samples("once"))
        assert isinstance(items, Items)
        assert items.texts.to_list() == [answers[0] for answers in ANSWERS.values()]
        assert items.frame["references"].to_list() == [[texts[0]] for texts in REFERENCES.values()]

    def test_a_list_of_targets_is_several_references(self, tmp_path: Path) -> None:
        rows = lines_of(samples("twice"))
        for row in rows:
            row["resps"] = [row["resps"][0][:1]]
        items = read(written(tmp_path, rows))
        assert items.frame["references"].to_list() == list(REFERENCES.values())

    def test_a_results_folder_has_all_tasks_under_the_name_of_the_model(self) -> None:
        for folder in (LOGS / "lm_eval", samples("once").parent):
            table = read(folder)
            found = responses_of(table)
            assert [found[f"replies_twice/{place}"] for place in range(3)] == list(ANSWERS.values())
            assert [found[f"replies_once/{place}"] for place in range(3)] == [[one[0]] for one in ANSWERS.values()]
            assert table.frame["system"].unique().to_list() == ["written"]

    def test_folders_of_several_models_are_several_systems(self, tmp_path: Path) -> None:
        for model in ("small", "large"):
            (tmp_path / model).mkdir()
            shutil.copy(samples("twice"), tmp_path / model)
        table = read(tmp_path)
        assert table.frame["system"].to_list() == ["large"] * 3 + ["small"] * 3
        assert {one.system for one in score(str(tmp_path), ["distinct"])} == {"large", "small"}

    def test_single_files_are_systems_called_as_their_models(self, tmp_path: Path) -> None:
        files = []
        for model in ("small", "large"):
            (tmp_path / model).mkdir()
            files.append(str(shutil.copy(samples("twice"), tmp_path / model)))
        assert [one.system for one in score(files, ["distinct"])] == ["small", "large"]
        (results,) = samples("twice").parent.glob("results_*.json")
        named = {**json.loads(results.read_text()), "model_name": "org/large-2"}
        (tmp_path / "large" / results.name).write_text(json.dumps(named))
        assert [one.system for one in score(files, ["distinct"])] == ["small", "org/large-2"]
        renamed = shutil.copy(files[0], tmp_path / "mine.jsonl")
        assert [one.system for one in score(str(renamed), ["distinct"])] == ["mine"]

    def test_results_without_texts_point_to_the_samples(self, tmp_path: Path) -> None:
        (results,) = samples("twice").parent.glob("results_*.json")
        compact = written(tmp_path, [json.loads(results.read_text())], "results.json")
        for path in (results, compact):
            with pytest.raises(DataError, match=r"without texts; expected the samples_\*\.jsonl beside it"):
                read(path)

    def test_a_document_stands_once_however_many_filters_it_went_through(self, tmp_path: Path) -> None:
        rows = lines_of(samples("twice"))
        path = written(tmp_path, [{**row, "filter": rule} for rule in ("none", "strict") for row in rows])
        assert list(responses_of(read(path)).values()) == list(ANSWERS.values())

    def test_arguments_as_earlier_versions_wrote_them(self, tmp_path: Path) -> None:
        rows = lines_of(samples("twice"))
        for row in rows:
            row["arguments"] = [list(request.values()) for request in row["arguments"].values()]
        assert read(written(tmp_path, rows)).frame["context"].to_list() == list(QUESTIONS.values())

    def test_a_metric_that_is_not_a_number_does_no_harm(self, tmp_path: Path) -> None:
        rows = [{**row, "brier": float("nan")} for row in lines_of(samples("twice"))]
        path = written(tmp_path, rows)
        assert "NaN" in Path(path).read_text()
        assert list(responses_of(read(path)).values()) == list(ANSWERS.values())

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda row: row.update(resps=[]), "line 2: document 1 has no answer (resps: []); expected texts"),
            (lambda row: row.update(resps=None), "line 2: document 1 has no answer (resps: null)"),
            (lambda row: row.update(resps=[[["-3.5", "False"]]]), "line 2: found log-likelihoods of given answers"),
            (lambda row: row.update(doc_id=0), "line 2: document 0 is a duplicate of line 1; expected it once"),
            (lambda row: row.pop("resps"), "expected a sample of lm-evaluation-harness like the first line's"),
        ],
    )
    def test_bad_samples_are_explained(self, tmp_path: Path, change: Change, says: str) -> None:
        rows = lines_of(samples("once"))
        change(rows[1])
        with pytest.raises(DataError) as raised:
            read(written(tmp_path, rows))
        assert says in str(raised.value)

    def test_half_a_surrogate_pair_is_no_text(self, tmp_path: Path) -> None:
        rows = lines_of(samples("once"))
        rows[1]["resps"] = [["half \ud83d"]]
        with raises(DataError, file="log.jsonl"):
            read(written(tmp_path, rows))

    def test_given_choices_are_no_texts(self) -> None:
        with raises(DataError, file="samples_replies_chosen_2026-11-16T14-09-42.478791.jsonl", line=1):
            read(LOGS / "lm_eval_choices")

    def test_two_runs_of_a_task_are_not_mixed(self, tmp_path: Path) -> None:
        for time in ("2026-01-01T10-00-00.1", "2026-01-02T10-00-00.1"):
            shutil.copy(samples("once"), tmp_path / f"samples_replies_{time}.jsonl")
        with pytest.raises(DataError, match=r"holds two runs of task 'replies' by .* name one of the files"):
            read(tmp_path)

    def test_a_cut_file_names_the_line(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text(samples("once").read_text()[:-20])
        with raises(DataError, file="log.jsonl", line=3):
            read(path)


class TestInspect:
    @pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
    def test_epochs_of_a_sample_are_the_responses_of_one_set(self, name: str) -> None:
        table = read(LOGS / name)
        assert responses_of(table) == ANSWERS
        assert table.frame["context"].to_list() == list(QUESTIONS.values())
        assert table.frame["system"].unique().to_list() == ["mockllm/model"]

    def test_one_epoch_is_single_texts_with_their_targets(self, tmp_path: Path) -> None:
        log = sample_log()
        log["samples"] = [one for one in log["samples"] if one["epoch"] == 1]
        items = read(written(tmp_path, [log], "one.json"))
        assert isinstance(items, Items)
        assert items.texts.to_list() == [answers[0] for answers in ANSWERS.values()]
        assert items.frame["references"].to_list() == list(REFERENCES.values())

    def test_archives_that_are_deflated_and_documents_on_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "log.eval").write_bytes(as_archive(sample_log()))
        assert responses_of(read(tmp_path / "log.eval")) == ANSWERS
        assert responses_of(read(written(tmp_path, [sample_log()], "log.json"))) == ANSWERS

    def test_the_order_of_samples_is_that_of_the_dataset(self, tmp_path: Path) -> None:
        log = sample_log()
        log["samples"].reverse()
        assert read(written(tmp_path, [log])).frame["id"].to_list() == list(QUESTIONS)

    def test_several_choices_chats_and_texts_that_stand_apart(self, tmp_path: Path) -> None:
        log = sample_log()
        chosen = next(one for one in log["samples"] if one["id"] == "rain" and one["epoch"] == 2)
        log["samples"] = [chosen]
        chosen["input"] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "attachment://a1"}]
        chosen["attachments"] = {"a1": "A long question?", "b2": "A long answer."}
        thought = {"type": "reasoning", "reasoning": "hm"}
        chosen["output"]["choices"] = [
            {"message": {"content": [thought, {"type": "text", "text": "One."}, {"type": "text", "text": " Two."}]}},
            {"message": {"content": "attachment://b2"}},
        ]
        table = read(written(tmp_path, [log]))
        assert responses_of(table) == {"rain": ["One. Two.", "A long answer."]}
        assert table.frame["context"].to_list() == ["Be kind.\nA long question?"]

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (
                lambda one: one.update(output={"model": "m", "choices": []}),
                "has no output; expected at least one choice",
            ),
            (lambda one: one.pop("output"), "has no output"),
            (lambda one: one.update(error={"message": "the model\nwas away"}), "has an error (the model was away)"),
            (
                lambda one: one["output"]["choices"][0]["message"].update(content=[{"type": "image", "image": "x"}]),
                "has no text (found parts of type image); expected text",
            ),
            (lambda one: one.update(id=None), "a sample has id null and epoch 1; expected a name and a number"),
        ],
    )
    def test_bad_samples_are_explained(self, tmp_path: Path, change: Change, says: str) -> None:
        log = with_sample(change)
        (tmp_path / "log.eval").write_bytes(as_archive(log))
        for path in (written(tmp_path, [log], "log.json"), str(tmp_path / "log.eval")):
            with pytest.raises(DataError) as raised:
                read(path)
            assert says in str(raised.value)
            assert path in str(raised.value)

    def test_a_sample_twice_in_one_epoch(self, tmp_path: Path) -> None:
        log = sample_log()
        log["samples"].append(copy.deepcopy(log["samples"][0]))
        with raises(DataError, file="log.jsonl"):
            read(written(tmp_path, [log]))

    @pytest.mark.parametrize("status", ["started", "cancelled", "error"])
    def test_a_run_that_did_not_finish(self, tmp_path: Path, status: str) -> None:
        log = {**sample_log(), "status": status, "error": {"message": "out of money"}}
        with pytest.raises(DataError, match=rf"status is '{status}' \(out of money\); expected a finished log"):
            read(written(tmp_path, [log]))

    def test_a_log_without_samples(self, tmp_path: Path) -> None:
        for rows in ([{**sample_log(), "samples": []}], [{**sample_log(), "samples": None}]):
            with raises(DataError, file="log.jsonl"):
                read(written(tmp_path, rows))

    @pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
    def test_a_truncated_archive(self, tmp_path: Path, kept: float) -> None:
        whole = (LOGS / "inspect.eval").read_bytes()
        (tmp_path / "log.eval").write_bytes(whole[: int(len(whole) * kept)])
        with raises(DataError, file="log.eval"):
            read(tmp_path / "log.eval")

    @pytest.mark.parametrize("place", range(60, 3000, 97))
    def test_a_damaged_archive_is_an_error_or_changes_nothing(self, tmp_path: Path, place: int) -> None:
        data = bytearray((LOGS / "inspect.eval").read_bytes())
        data[place * 5 % len(data)] ^= 0xFF
        (tmp_path / "log.eval").write_bytes(data)
        try:
            found = responses_of(read(tmp_path / "log.eval"))
        except DataError:
            return
        assert found == ANSWERS

    def test_other_archives_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "weights.pt").write_bytes(archive({"data.pkl": b"\x80\x02."}))
        with raises(DataError, file="weights.pt"):
            read(tmp_path / "weights.pt")
        (tmp_path / "log.eval").write_bytes(archive({"_journal/start.json": {}}))
        with raises(DataError, file="log.eval"):
            read(tmp_path / "log.eval")

    def test_an_archive_cannot_unpack_to_more_than_a_log_may_hold(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nlgauge.data.logs.inspect_ai._LARGEST_ENTRY", 1 << 20)
        header = {"status": "success", "eval": {}}
        bomb = archive({"header.json": header, "samples/a_epoch_1.json": b" " * (5 << 20)})
        lying = bytearray(bomb)
        declared = struct.pack("<L", 5 << 20)
        while (place := lying.find(declared)) >= 0:
            lying[place : place + 4] = struct.pack("<L", 10)
        (tmp_path / "bomb.eval").write_bytes(bomb)
        with raises(DataError, file="bomb.eval"):
            read(tmp_path / "bomb.eval")
        (tmp_path / "lying.eval").write_bytes(lying)
        with raises(DataError, file="lying.eval"):
            read(tmp_path / "lying.eval")
        monkeypatch.setattr("nlgauge.data.logs.inspect_ai._LARGEST_LOG", 20_000)
        with raises(DataError, file="inspect.eval"):
            read(LOGS / "inspect.eval")

    def test_a_zstandard_bomb_that_lies_about_its_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nlgauge.data.logs.inspect_ai._LARGEST_ENTRY", 1 << 20)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as packing:
            packing.writestr("header.json", zstd.compress(b" " * (50 << 20)))
        data = bytearray(buffer.getvalue())
        for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            start = data.find(mark) + place
            data[start : start + 2] = struct.pack("<H", 93)
        (tmp_path / "bomb.eval").write_bytes(data)
        with raises(DataError, file="bomb.eval"):
            read(tmp_path / "bomb.eval")

    def test_a_document_that_is_no_log(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.json"
        path.write_text(json.dumps({"name": "x", "values": [1, 2]}, indent=2))
        with raises(DataError, file="settings.json"):
            read(path)
        path.write_text('{\n "name": "x",\n "values": [1, 2\n}\n')
        with raises(DataError, file="settings.json", line=4):
            read(path)

    def test_a_log_that_was_cut_anywhere_ends_in_the_middle(self, tmp_path: Path) -> None:
        log = {"eval": {"model": "m"}, "status": "success", "é€": ["\u00e9\n", -0.5e-7, True, None, {"a": {}}], "x": {}}
        path = tmp_path / "log.json"
        for ascii_only in (True, False):
            whole = json.dumps(log, indent=1, ensure_ascii=ascii_only).encode()
            for end in range(2, len(whole)):
                path.write_bytes(whole[:end])
                with raises(DataError, file="log.json"):
                    read(path)

    def test_a_folder_of_logs_names_one_of_them(self, tmp_path: Path) -> None:
        shutil.copy(LOGS / "inspect.eval", tmp_path)
        with pytest.raises(DataError, match=r"this is a folder; expected a file.* name its logs, as in .*\.eval"):
            read(tmp_path)


class TestOpenAIBatch:
    OUTPUT, INPUT = LOGS / "batch_output.jsonl", LOGS / "batch_input.jsonl"

    def test_choices_are_the_responses_of_one_set(self) -> None:
        table = read(self.OUTPUT)
        assert responses_of(table) == ANSWERS
        assert table.frame["system"].unique().to_list() == ["gpt-4o-mini"]
        assert "context" not in table.frame.columns

    def test_the_input_of_the_batch_has_the_contexts(self) -> None:
        table = read(self.OUTPUT, aligned={"context": str(self.INPUT)})
        assert dict(zip(table.frame["id"], table.frame["context"], strict=True)) == QUESTIONS

    def test_choices_come_in_the_order_of_their_index(self, tmp_path: Path) -> None:
        rows = lines_of(self.OUTPUT)
        for row in rows:
            row["response"]["body"]["choices"].reverse()
        assert responses_of(read(written(tmp_path, rows))) == ANSWERS

    def test_completions_and_the_responses_api(self, tmp_path: Path) -> None:
        said = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
        bodies = [{"choices": [{"index": 0, "text": "No."}]}, {"output": [{"type": "reasoning", "summary": []}, said]}]
        rows = [{"custom_id": i, "response": {"status_code": 200, "body": body}} for i, body in enumerate(bodies)]
        items = read(written(tmp_path, rows))
        assert isinstance(items, Items)
        assert items.texts.to_list() == ["No.", "Yes."]

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (
                lambda row: row.update(response=None, error={"code": "batch_expired", "message": "too late"}),
                "line 2: request 'cake' has an error (too late); expected an answer: send it again, or remove the line",
            ),
            (
                lambda row: row["response"].update(status_code=400, body={"error": {"message": "bad request"}}),
                "line 2: request 'cake' has an error (bad request)",
            ),
            (lambda row: row["response"].update(status_code=500, body=None), "has status 500 and no body"),
            (lambda row: row["response"]["body"].update(choices=[]), "request 'cake' has no answer"),
            (lambda row: row["response"].update(body={"data": [{"embedding": [1]}]}), "(the body has data)"),
            (
                lambda row: row["response"]["body"]["choices"][1]["message"].update(content=None, refusal="I cannot."),
                "choice 1 of request 'cake' has no text (found a refusal); expected text: remove the line",
            ),
            (
                lambda row: row["response"]["body"]["choices"][0]["message"].update(content=[{"type": "audio"}]),
                "choice 0 of request 'cake' has no text (found parts of type audio)",
            ),
            (lambda row: row.update(custom_id="bus"), "line 2: custom_id 'bus' is a duplicate; expected each once"),
            (lambda row: (row.clear(), row.update(id="x", responses=["a"])), "found id, responses; expected a line of"),
        ],
    )
    def test_bad_lines_are_explained(self, tmp_path: Path, change: Change, says: str) -> None:
        rows = lines_of(self.OUTPUT)
        change(rows[1])
        with pytest.raises(DataError) as raised:
            read(written(tmp_path, rows))
        assert says in str(raised.value)

    def test_input_alone_and_input_of_another_batch(self, tmp_path: Path) -> None:
        with raises(DataError, option="aligned", file="batch_input.jsonl"):
            read(self.INPUT)
        other = written(tmp_path, lines_of(self.INPUT)[:2], "other.jsonl")
        with raises(DataError, file="batch_output.jsonl", line=1):
            read(self.OUTPUT, aligned={"context": other})
        with raises(DataError, file="batch_output.jsonl", line=1):
            read(self.OUTPUT, aligned={"context": str(self.OUTPUT)})

    def test_a_table_with_such_names_stays_a_table(self, tmp_path: Path) -> None:
        items = read(
            written(tmp_path, [{"custom_id": "a", "response": "One."}, {"custom_id": "b", "response": "Two."}])
        )
        assert isinstance(items, Items)
        assert items.texts.to_list() == ["One.", "Two."]
        with pytest.raises(OptionError) as refused:
            read(written(tmp_path, [{"text": "One."}]), aligned={"context": str(self.INPUT)})
        assert refused.value.option == "aligned"


class TestAll:
    @pytest.mark.parametrize("name", ["lm_eval", "inspect.eval", "inspect.json", "batch_output.jsonl"])
    def test_every_log_gives_the_same_table_for_any_chunk_size(self, name: str) -> None:
        source = Source(path=str(LOGS / name))
        whole = source.read()
        assert isinstance(whole, ResponseSets)
        for size in SIZES:
            table = source.read(size)
            assert isinstance(table, ResponseSets)
            assert table.to_polars().equals(whole.to_polars())

    @pytest.mark.parametrize("name", ["inspect.eval", "inspect.json", "batch_output.jsonl"])
    def test_scores_are_those_of_the_texts_themselves(self, name: str) -> None:
        assert values_of(str(LOGS / name)) == values_of(list(ANSWERS.values()))

    def test_scores_of_samples_are_those_of_the_texts(self) -> None:
        expected = values_of(list(ANSWERS.values()))
        assert values_of(str(samples("twice"))) == expected

    def test_references_score_as_when_given_directly(self) -> None:
        texts = [answers[0] for answers in ANSWERS.values()]
        direct = Items.of(texts, references=[[one[0]] for one in REFERENCES.values()])
        metrics = ["bleu", "rouge-l"]
        found, expected = (score(data, metrics) for data in (str(samples("once")), direct))
        assert [one.value for one in found] == [one.value for one in expected]
        assert all(one.value for one in found)

    @pytest.mark.parametrize("packing", [".gz", ".zst"])
    @pytest.mark.parametrize("name", ["inspect.json", "batch_output.jsonl"])
    def test_compressed_logs(self, tmp_path: Path, name: str, packing: str) -> None:
        path = tmp_path / f"{name}{packing}"
        path.write_bytes(packed((LOGS / name).read_bytes(), packing))
        assert responses_of(read(path)) == ANSWERS

    def test_logs_are_tables_for_whatever_reads_tables(self) -> None:
        assert read_table(LOGS / "inspect.eval").columns == ["id", "context", "responses", "references", "system"]

    @pytest.mark.parametrize("name", ["inspect.json", "batch_output.jsonl"])
    def test_standard_input(self, tmp_path: Path, name: str) -> None:
        data = (LOGS / name).read_bytes()
        done = nlgauge("score", "-", "-m", "distinct", "-f", "json", cwd=tmp_path, cache=tmp_path / "c", stdin=data)
        assert done.code == 0, done.err
        (expected,) = score(list(ANSWERS.values()), ["distinct"])
        assert json.loads(done.out)["scores"][0]["value"] == expected.value

    def test_binary_standard_input(self, tmp_path: Path) -> None:
        data = (LOGS / "inspect.eval").read_bytes()
        done = nlgauge("score", "-", cwd=tmp_path, cache=tmp_path / "c", stdin=data)
        assert done.code == 2
        assert "standard input: holds a binary file; expected JSON lines: give the name of the file" in done.err

    def test_two_logs_are_compared_on_the_same_samples(self, tmp_path: Path) -> None:
        log = sample_log()
        log["eval"]["model"] = "mockllm/other"
        for one in log["samples"]:
            one["output"]["choices"][0]["message"]["content"] = "I do not know."
        other = written(tmp_path, [log], "other.json")
        arguments = ("score", str(LOGS / "inspect.eval"), other, "-m", "distinct", "-f", "json")
        done = nlgauge(*arguments, cwd=tmp_path, cache=tmp_path / "c")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert {one["system"] for one in found["scores"]} == {"mockllm/model", "mockllm/other"}
        assert found["comparisons"][0]["n"] == 3


def test_half_of_a_surrogate_pair_can_be_shown_in_a_message() -> None:
    assert shown(["\ud800"]) == '["\ud800"]'
