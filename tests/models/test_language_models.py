"""Local language models: what they score, what they write, and what cannot change it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlgauge.errors import DataError, ModelError, OptionError, UnknownName
from nlgauge.models.fetch import resolve_model
from nlgauge.models.language.base import LanguageModel, Sampling, TokenLogprobs, load_language_model
from nlgauge.models.language.causal import CausalModel, _CausalDecoding
from nlgauge.models.language.next_token import END
from nlgauge.models.language.seq2seq import Seq2SeqModel
from nlgauge.models.language.transformers_model import no_gradients
from nlgauge.models.language.windows import Row

PROMPTS = [
    "Question: what would you like to do this weekend with your friends, if the weather is good?\nAnswer:",
    "The recipe for a good cake is simple: take flour, sugar and eggs, and then",
    "He opened the door and saw",
]
TEXTS = [
    [" I would go to the lake.", " Sleep.", " We could walk in the hills and eat together afterwards.", " No idea"],
    [" mix them.", " put them into the oven for an hour at a low heat", " wait", ""],
    [" a dog.", " nothing at all, for it was dark outside.", " the sea", " a dog."],
]


@pytest.fixture(scope="module")
def smollm2() -> Iterator[CausalModel]:
    import torch

    threads = torch.get_num_threads()
    folder = resolve_model("smollm2")
    model = load_language_model(str(folder), threads=1)
    assert isinstance(model, CausalModel)
    yield model
    torch.set_num_threads(threads)


@pytest.fixture
def small_window(smollm2: CausalModel) -> Iterator[CausalModel]:
    window = smollm2.window
    smollm2.window = 32
    yield smollm2
    smollm2.window = window


def tokenizer_in(folder: Path, *, first: str = "") -> None:
    """A small word-piece tokeniser that ends a text with `</s>`, and begins it with `first` where that is given."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<pad>", "</s>", "<unk>", "<s>"]
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    corpus = [text for group in TEXTS for text in group] + PROMPTS
    options: dict[str, Any] = {"vocab_size": 120, "special_tokens": special, "unk_token": "<unk>"}
    made.train_from_iterator(corpus, trainers.UnigramTrainer(**options))
    ids = [(token, made.token_to_id(token)) for token in special]
    made.post_processor = processors.TemplateProcessing(single=f"{first} $A </s>".strip(), special_tokens=ids)
    kind: Any = transformers.PreTrainedTokenizerFast
    names = dict(zip(("pad_token", "eos_token", "unk_token", "bos_token"), special, strict=True))
    kind(tokenizer_object=made, **names).save_pretrained(folder)


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("t5")
    tokenizer_in(folder)
    torch.manual_seed(1)
    settings: dict[str, Any] = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "n_positions": 64,
    }
    special: dict[str, Any] = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    config = T5Config(vocab_size=120, initializer_factor=1.0, **settings, **special)
    T5ForConditionalGeneration(config).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="module")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    folder = tmp_path_factory.mktemp("bart")
    tokenizer_in(folder, first="<s>")
    torch.manual_seed(2)
    sides: dict[str, Any] = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in _BART_SIDE.items()}
    special: dict[str, Any] = {"decoder_start_token_id": 1, "bos_token_id": 3, "pad_token_id": 0, "eos_token_id": 1}
    config = BartConfig(vocab_size=120, d_model=32, max_position_embeddings=64, init_std=0.5, **sides, **special)
    BartForConditionalGeneration(config).save_pretrained(folder, safe_serialization=True)
    return folder


_BART_SIDE = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


def largest_difference(left: list[list[TokenLogprobs]], right: list[list[TokenLogprobs]]) -> float:
    largest = 0.0
    for group, other in zip(left, right, strict=True):
        for a, b in zip(group, other, strict=True):
            assert a.tokens == b.tokens
            largest = max(largest, float(np.abs(a.logprobs - b.logprobs).max(initial=0)))
    return largest


def plain_scores(model: CausalModel, prompt: str, text: str, *, with_end: bool = False) -> np.ndarray[Any, Any]:
    """The obvious way: one whole row through the model, log-softmax, look up."""
    import torch

    ids = model.tokenizer(model.start_context + prompt, add_special_tokens=False)["input_ids"]
    text_ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    text_ids += [model.tokenizer.convert_tokens_to_ids(model.end_token)] * with_end
    with torch.inference_mode():
        logits = model.model(torch.tensor([ids + text_ids])).logits[0].log_softmax(-1)
    return np.array([float(logits[len(ids) + i - 1, token]) for i, token in enumerate(text_ids)])


def test_importing_the_interface_loads_no_torch() -> None:
    code = "import sys\nfrom nlgauge.models.language import base, causal, endpoint, seq2seq\n"
    code += "print(sorted({'torch', 'transformers', 'httpx'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_true_and_grammatical_sentences_are_more_probable(smollm2: CausalModel) -> None:
    sentences = [
        "The capital of France is Paris.",
        "The capital of France is banana.",
        "They are happy.",
        "They is happy.",
    ]
    (found,) = smollm2.score([""], [sentences])
    paris, banana, are, is_ = (np.exp(-result.logprobs.mean()) for result in found)
    assert paris < banana / 5
    assert are < is_


def test_the_start_context_is_the_document_separator_not_the_chat_marker(smollm2: CausalModel) -> None:
    assert smollm2.start_context == smollm2.end_token == "<|endoftext|>"
    assert "<|im_start|>" == smollm2.tokenizer.bos_token  # noqa: SIM300 - the other way round looks like a password


def test_tokens_spell_the_text(smollm2: CausalModel) -> None:
    for result, text in zip(smollm2.score(PROMPTS[:1], TEXTS[:1])[0], TEXTS[0], strict=True):
        assert "".join(result.tokens) == text
    ended = smollm2.score([""], [["Yes."]], with_end=True)[0][0]
    assert ended.tokens == ("Yes", ".", "<|endoftext|>")


def test_shared_prompts_score_as_the_obvious_way_does(smollm2: CausalModel) -> None:
    for with_end in (False, True):
        found = smollm2.score(PROMPTS, TEXTS, with_end=with_end)
        for prompt, texts, results in zip(PROMPTS, TEXTS, found, strict=True):
            for text, result in zip(texts, results, strict=True):
                expected = plain_scores(smollm2, prompt, text, with_end=with_end)
                np.testing.assert_allclose(result.logprobs, expected, atol=1e-4)


def test_batch_size_and_order_do_not_matter(smollm2: CausalModel) -> None:
    whole = smollm2.score(PROMPTS, TEXTS)
    singly = [
        [smollm2.score([prompt], [[text]])[0][0] for text in group]
        for prompt, group in zip(PROMPTS, TEXTS, strict=True)
    ]
    assert largest_difference(whole, singly) < 1e-4
    backwards = smollm2.score(PROMPTS[::-1], [group[::-1] for group in TEXTS[::-1]])
    assert largest_difference(whole, [group[::-1] for group in backwards[::-1]]) < 1e-4
    size = smollm2.batch_size
    try:
        smollm2.batch_size = 3
        assert largest_difference(whole, smollm2.score(PROMPTS, TEXTS)) < 1e-4
    finally:
        smollm2.batch_size = size


FAMILIES: dict[str, tuple[bool, dict[str, Any]]] = {
    "GPT2": (True, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "initializer_range": 0.5}),
    "Llama": (True, {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.5}),
    "GPTNeoX": (True, {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.5}),
    "Mistral": (False, {"hidden_size": 32, "intermediate_size": 64, "sliding_window": 8, "initializer_range": 0.5}),
    "Bloom": (False, {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.5}),
}
_SHAPE = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}


def tiny_model(folder: Path, family: str, **settings: Any) -> None:
    import torch
    import transformers

    tokenizer_in(folder)
    torch.manual_seed(3)
    special: dict[str, Any] = {"bos_token_id": 3, "eos_token_id": 1, "pad_token_id": 0}
    config = getattr(transformers, f"{family}Config")(vocab_size=120, **settings, **special)
    kind: Any = transformers.AutoModelForCausalLM
    kind.from_config(config).save_pretrained(folder)


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    tiny_model(tmp_path, "Mamba", hidden_size=32, num_hidden_layers=2, state_size=4)
    with pytest.raises(ModelError, match="recurrent"):
        load_language_model(str(tmp_path))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_scores_texts_together_as_apart(family: str, tmp_path: Path) -> None:
    """Packed side by side where a mask keeps texts apart; padded where positions or windows forbid it."""
    packs, settings = FAMILIES[family]
    tiny_model(tmp_path, family, **(_SHAPE if "intermediate_size" in settings else {}), **settings)
    model = load_language_model(str(tmp_path))
    assert isinstance(model, CausalModel)
    assert model._packs is packs
    together = model.score(PROMPTS, TEXTS, with_end=True)
    for prompt, texts, results in zip(PROMPTS, TEXTS, together, strict=True):
        for text, result in zip(texts, results, strict=True):
            np.testing.assert_allclose(result.logprobs, plain_scores(model, prompt, text, with_end=True), atol=1e-4)


@pytest.mark.parametrize("family", ["tiny_t5", "tiny_bart"])
def test_probabilities_of_the_next_token_sum_to_one(family: str, request: pytest.FixtureRequest) -> None:
    model = load_language_model(str(request.getfixturevalue(family)))
    assert isinstance(model, Seq2SeqModel)
    rows = [model._rows(PROMPTS[0], (token,))[0] for token in range(120)]
    assert sum(float(np.exp(values[0])) for values in model._score_rows(rows).values()) == pytest.approx(1, abs=1e-5)


def test_probabilities_of_the_next_token_sum_to_one_over_a_large_vocabulary(smollm2: CausalModel) -> None:
    """Every row reads the same, so one pass serves: the row of all tokens at once, a thousand at a time."""
    import torch

    context = smollm2.encode(["<|endoftext|>The capital of France is"])[0]
    with torch.inference_mode():
        logits = smollm2.model(torch.tensor([context])).logits[0, -1:]
    likely = logits[0].topk(1000).indices.tolist()
    found = smollm2._logprobs(logits.expand(1000, -1), Row((0,), tuple(likely)), 0)
    rest = np.delete(logits[0].double().softmax(0).numpy(), likely).sum()
    assert np.exp(found).sum() + rest == pytest.approx(1, abs=1e-5)
    (paris,) = smollm2.score(["The capital of France is"], [[" Paris"]])
    assert found[likely.index(smollm2.encode([" Paris"])[0][0])] == pytest.approx(paris[0].total, abs=1e-4)


def test_an_empty_text_has_no_tokens_or_the_end_alone(smollm2: CausalModel) -> None:
    (bare,) = smollm2.score(["Hello"], [[""]])
    (ended,) = smollm2.score(["Hello"], [[""]], with_end=True)
    assert len(bare[0]) == 0
    assert bare[0].logprobs.dtype == np.float64
    assert ended[0].tokens == ("<|endoftext|>",)
    assert smollm2.score([], []) == []
    assert smollm2.score(["Hello"], [[]]) == [[]]


def test_a_long_prompt_is_cut_from_the_left(small_window: CausalModel) -> None:
    long = "one two three four five six seven eight nine ten " * 8
    text = " eleven"
    needed = len(small_window.encode([text])[0]) - 1
    room = 32 - 1 - -(-needed // 2) * 2
    near = small_window.tokenizer.decode(small_window.encode([long])[0][-room:])
    found = small_window.score([long, "zero " + long], [[text], [text]])
    assert found[0][0].logprobs == pytest.approx(found[1][0].logprobs, abs=1e-4)
    assert found[0][0].logprobs == pytest.approx(plain_scores(small_window, near, text), abs=1e-4)
    row = small_window._rows(long, small_window.encode([text])[0])[0]
    assert len(row.inputs) <= 32
    assert row.context[0] == small_window.encode(["<|endoftext|>"])[0][0]


def test_a_long_text_slides_through_the_window(small_window: CausalModel) -> None:
    text = "The river runs from the hills to the sea, past farms and towns, and nobody knows how old it is. " * 4
    ids = small_window.encode([text])[0]
    found = small_window.score(["A story."], [[text]])[0][0]
    assert len(found) == len(ids) > 3 * small_window.stride
    rows = small_window._rows("A story.", ids)
    assert all(len(row.inputs) <= 32 for row in rows)
    assert all(len(row.context) > small_window.stride for row in rows[1:])
    assert sum((row.targets for row in rows), ()) == ids
    small_window.window = 8192
    whole = small_window.score(["A story."], [[text]])[0][0]
    first = len(rows[0].targets)
    np.testing.assert_allclose(found.logprobs[:first], whole.logprobs[:first], atol=1e-4)


def test_wide_rows_in_several_spans_change_nothing(smollm2: CausalModel) -> None:
    whole = smollm2.score(PROMPTS, TEXTS)
    smollm2.logits_at_once = 49152 * 20
    try:
        assert largest_difference(whole, smollm2.score(PROMPTS, TEXTS)) < 1e-4
    finally:
        del smollm2.logits_at_once


def test_greedy_equals_transformers_generate_and_top_k_1(smollm2: CausalModel) -> None:
    import torch

    found = smollm2.generate(PROMPTS, Sampling(temperature=0, max_new_tokens=12, stop=()), [0, 0, 0])
    for prompt, text in zip(PROMPTS, found, strict=True):
        ids = smollm2.encode([smollm2.start_context + prompt])[0]
        tokens = torch.tensor([ids])
        output = smollm2.model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=[0, 2],
            pad_token_id=0,
        )
        assert text == smollm2.tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True).strip()
    assert smollm2.generate(PROMPTS, Sampling(top_k=1, max_new_tokens=12, stop=()), [1, 2, 3]) == found


SAMPLINGS = [
    Sampling(temperature=0.7),
    Sampling(temperature=1.3, top_k=40),
    Sampling(top_p=0.9),
    Sampling(temperature=0.8, top_k=200, top_p=0.95),
    Sampling(temperature=0),
]


def plainly_sampled(model: CausalModel, prompt: str, ids: list[int], sampling: Sampling) -> list[np.ndarray[Any, Any]]:
    """The obvious way: for each position, all log-probabilities under the sampling distribution, by transformers."""
    import torch
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    before = model.tokenizer(model.start_context + prompt, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = model.model(torch.tensor([before + ids])).logits[0, len(before) - 1 :].double()
    if sampling.temperature == 0:
        best = torch.full_like(logits, -torch.inf)
        return list(best.scatter(1, logits.argmax(1, keepdim=True), 0.0).numpy())
    warpers: Any = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    return list(warpers(None, logits).log_softmax(1).numpy())


def end_of_line(model: CausalModel, values: np.ndarray[Any, Any]) -> float:
    """The log-probability of the end: of end tokens, or of white space with a line break."""
    shown = [model.tokenizer.decode([token]) for token in range(len(model.tokenizer))]
    ends = [id for id, text in enumerate(shown) if "\n" in text and not text.strip()]
    ends += [model.tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")]
    with np.errstate(divide="ignore"):
        return float(np.log(np.exp(values[ends]).sum()))


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_log_p_is_that_of_the_sampling_distribution(smollm2: CausalModel, sampling: Sampling) -> None:
    prompts = [f"A: {text}\nB:" for text in ("Do you like tea?", "Where is he?")]
    texts = [[" Yes, I do.", " The station is over there", ""], [" In Paris.", " qwx zzgh"]]
    together = smollm2.score_sampled(prompts, texts, sampling)
    for prompt, group, found in zip(prompts, texts, together, strict=True):
        for text, one in zip(group, found, strict=True):
            ids = smollm2.tokenizer(text, add_special_tokens=False)["input_ids"]
            plain = plainly_sampled(smollm2, prompt, ids, sampling)
            if text:
                expected = [values[id] for values, id in zip(plain, ids, strict=False)]
                assert one.logprobs[:-1] == pytest.approx(expected, abs=1e-4)
                assert one.logprobs[-1] == pytest.approx(end_of_line(smollm2, plain[-1]), abs=1e-4)
            assert len(one) == len(ids) + 1
    truncated = sampling.temperature == 0 or sampling.top_p < 1 or sampling.top_k > 0
    assert (together[1][1].total == -np.inf) == truncated


@pytest.mark.parametrize("sampling", SAMPLINGS[:4], ids=str)
def test_what_is_written_has_the_log_p_of_what_was_drawn(smollm2: CausalModel, sampling: Sampling) -> None:
    prompt, size = "A: Where do you want to go for dinner?\nB:", 12
    how = Sampling(**{**vars(sampling), "max_new_tokens": 10})
    written = smollm2.sample([prompt] * size, how, range(size))
    (scored,) = smollm2.score_sampled([prompt], [[f" {one.text}" for one in written]], how)
    same = 0
    for one, found in zip(written, scored, strict=True):
        if one.tokens == len(found):  # drawn as the tokens that the tokeniser makes of it, without white space before
            assert one.logprob == pytest.approx(found.total, abs=1e-3)
            same += 1
    assert same >= 4
    assert {one.truncated for one in written} == {True, False}
    assert all(one.tokens == 10 for one in written if one.truncated)
    assert [one.text for one in written] == smollm2.generate([prompt] * size, how, range(size))


def test_what_cannot_be_written_has_no_probability(smollm2: CausalModel) -> None:
    short = Sampling(max_new_tokens=3)
    texts = [" one two three", " one two three four", " one\ntwo", " a<|im_end|> b", " one"]
    ((whole, longer, lines, marked, one),) = smollm2.score_sampled(["Count:"], [texts], short)
    assert np.isfinite([whole.total, one.total]).all()
    assert (len(whole), len(one)) == (3, 2)
    assert [found.total for found in (longer, lines, marked)] == [-np.inf] * 3
    with pytest.raises(OptionError) as error:
        smollm2.score_sampled(["Count:"], [texts], Sampling(beams=2))
    assert "beam search has no distribution" in str(error.value)


def test_the_end_is_whatever_ends_a_text(smollm2: CausalModel) -> None:
    drawn = smollm2._drawing(Sampling(stop=("\n",)))
    shown = {smollm2.tokenizer.decode([token]) for token in drawn.stops}
    assert {"\n", "\n\n"} <= shown
    assert all("\n" in text and not text.strip() for text in shown)
    assert smollm2._drawing(Sampling(stop=())).stops == frozenset()
    assert smollm2._show(END) == smollm2.end_token


def test_a_continuation_depends_on_its_prompt_and_seed_only(smollm2: CausalModel) -> None:
    sampling = Sampling(top_p=0.9, max_new_tokens=10)
    prompts, seeds = [*PROMPTS, PROMPTS[2]], [1, 2, 3, 4]
    together = smollm2.generate(prompts, sampling, seeds)
    assert smollm2.generate(prompts, sampling, seeds) == together
    assert smollm2.generate(prompts[::-1], sampling, seeds[::-1]) == together[::-1]
    assert [smollm2.generate([p], sampling, [s])[0] for p, s in zip(prompts, seeds, strict=True)] == together
    assert together[2] != together[3]


def test_rows_of_one_prompt_read_it_once(smollm2: CausalModel) -> None:
    seen: list[tuple[int, ...]] = []

    def watch(module: Any, args: Any, kwargs: Any) -> None:
        seen.append(tuple(kwargs["input_ids"].shape))

    hook = smollm2.model.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        smollm2.generate(PROMPTS[1:] * 3, Sampling(max_new_tokens=2, stop=()), range(6))
    finally:
        hook.remove()
    longest = len(smollm2.encode([smollm2.start_context + PROMPTS[1]])[0])
    assert seen == [(2, longest), (6, 1)]


def test_a_model_that_cannot_share_a_prompt_writes_the_same(smollm2: CausalModel) -> None:
    class Apart(_CausalDecoding):
        def keep(self, rows: list[int]) -> bool:
            return False

    sampling, seeds = Sampling(max_new_tokens=6), list(range(4))
    rows = [smollm2._to_continue(prompt, sampling) for prompt in PROMPTS[1:] * 2]
    with no_gradients():
        apart = smollm2._continue(Apart(smollm2, rows), sampling, seeds)
    assert [one.text for one in apart] == smollm2.generate(PROMPTS[1:] * 2, sampling, seeds)


def test_short_rows_go_in_larger_batches(tiny_t5: Path) -> None:
    model = load_language_model(str(tiny_t5), batch_size=16)
    assert isinstance(model, Seq2SeqModel)
    assert [model._rows_at_once(length) for length in (8, 64, 128, 300, 5000)] == [128, 128, 64, 16, 16]
    model.batch_size = 1
    assert model._rows_at_once(8) == 1


def test_samples_follow_the_model(smollm2: CausalModel) -> None:
    prompt = "The capital of France is"
    texts = [" Paris", " the", " a", " located"]
    expected = np.exp([result.total for result in smollm2.score([prompt], [texts])[0]])
    n = 300
    drawn = smollm2.generate([prompt] * n, Sampling(max_new_tokens=1, stop=()), list(range(n)))
    found = np.array([sum(text == word.strip() for text in drawn) / n for word in texts])
    assert (np.abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / n) + 0.01).all()


def test_a_stop_string_ends_a_continuation_and_is_cut_off(smollm2: CausalModel) -> None:
    whole = smollm2.generate(PROMPTS[1:2], Sampling(temperature=0, max_new_tokens=12, stop=()), [0])[0]
    assert len(whole) > 20
    stop = whole[10:13]
    for sampling in (
        Sampling(temperature=0, max_new_tokens=12, stop=(stop,)),
        Sampling(temperature=0, max_new_tokens=12, stop=("never", stop)),
    ):
        assert smollm2.generate(PROMPTS[1:2], sampling, [0])[0] == whole[: whole.index(stop)].strip()


def test_beam_search_is_deterministic_and_stops_at_a_stop_string(smollm2: CausalModel) -> None:
    beams = Sampling(beams=3, max_new_tokens=6, stop=())
    found = smollm2.generate(PROMPTS[1:], beams, [1, 2])
    assert smollm2.generate(PROMPTS[1:2], beams, [7]) == found[:1]
    assert all(found)
    stopped = smollm2.generate(PROMPTS[1:2], Sampling(beams=3, max_new_tokens=6, stop=("e",)), [1])
    assert "e" not in stopped[0]


def test_running_out_of_memory_halves_the_batch_and_warns_once(smollm2: CausalModel) -> None:
    import torch

    def refuse(module: Any, args: Any, kwargs: Any) -> None:
        if kwargs["input_ids"].numel() > 60:
            raise torch.OutOfMemoryError("out of memory")

    whole = smollm2.score(PROMPTS, TEXTS)
    size = smollm2.batch_size
    hook = smollm2.model.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = smollm2.score(PROMPTS, TEXTS)
        assert sum("out of memory" in str(warning.message) for warning in caught) == 1
        assert largest_difference(whole, found) < 1e-4
        assert smollm2.batch_size < size
    finally:
        hook.remove()
        smollm2.batch_size = size


def plain_decoder(model: Seq2SeqModel, source: str, text: str, start: list[int]) -> np.ndarray[Any, Any]:
    import torch

    ids = model.tokenizer(source)["input_ids"]
    targets = [*model.tokenizer(text, add_special_tokens=False)["input_ids"], 1]
    values = []
    with torch.inference_mode():
        for i, target in enumerate(targets):
            seen = torch.tensor([start + targets[:i]])
            logits = model.model(input_ids=torch.tensor([ids]), decoder_input_ids=seen).logits
            values.append(float(logits[0, -1].log_softmax(-1)[target]))
    return np.array(values)


@pytest.mark.parametrize(("family", "start"), [("tiny_t5", [0]), ("tiny_bart", [1, 3])])
def test_an_encoder_decoder_scores_as_a_plain_loop_does(
    family: str, start: list[int], request: pytest.FixtureRequest
) -> None:
    model = load_language_model(str(request.getfixturevalue(family)), batch_size=3)
    assert isinstance(model, Seq2SeqModel)
    found = model.score(PROMPTS, TEXTS, with_end=True)
    for prompt, texts, results in zip(PROMPTS, TEXTS, found, strict=True):
        for text, result in zip(texts, results, strict=True):
            expected = plain_decoder(model, prompt, text, start)
            np.testing.assert_allclose(result.logprobs, expected, atol=1e-4)
            assert result.tokens[-1] == "</s>"
    assert len(model.score([""], [["a dog"]])[0][0]) > 0


@pytest.mark.parametrize("family", ["tiny_t5", "tiny_bart"])
def test_an_encoder_decoder_writes_reproducibly(family: str, request: pytest.FixtureRequest) -> None:
    import torch

    model = load_language_model(str(request.getfixturevalue(family)))
    assert isinstance(model, Seq2SeqModel)
    sampling = Sampling(max_new_tokens=12, stop=())
    together = model.generate(PROMPTS, sampling, [1, 2, 3])
    assert [model.generate([p], sampling, [s])[0] for p, s in zip(PROMPTS, (1, 2, 3), strict=True)] == together
    greedy = model.generate(PROMPTS[:1], Sampling(temperature=0, max_new_tokens=12, stop=()), [0])[0]
    assert model.generate(PROMPTS[:1], Sampling(top_k=1, max_new_tokens=12, stop=()), [5])[0] == greedy
    inputs = model.tokenizer(PROMPTS[0], return_tensors="pt")
    output = model.model.generate(
        inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        decoder_input_ids=torch.tensor([model._start]),
        do_sample=False,
        max_new_tokens=12,
        eos_token_id=1,
        pad_token_id=0,
    )
    assert model.tokenizer.decode(output[0, len(model._start) :], skip_special_tokens=True).strip() == greedy
    beams = Sampling(beams=2, max_new_tokens=8, stop=())
    assert model.generate(PROMPTS[:1], beams, [1]) == model.generate(PROMPTS, beams, [4, 5, 6])[:1]


def test_an_encoder_decoder_takes_long_input(tiny_bart: Path) -> None:
    model = load_language_model(str(tiny_bart))
    assert model.window == 64
    long = "a dog and the sea " * 60
    (found,) = model.score([long], [[long]])
    assert len(found[0]) > 64
    assert np.isfinite(found[0].logprobs).all()


def test_fingerprints_tell_weights_and_precision_apart(tiny_t5: Path, tiny_bart: Path) -> None:
    prints = [load_language_model(str(folder)).fingerprint for folder in (tiny_t5, tiny_t5, tiny_bart)]
    assert prints[0] == prints[1] != prints[2]
    assert load_language_model(str(tiny_t5), dtype="bfloat16").fingerprint == f"{prints[0]}-bfloat16"


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": "1"},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"top_k": 2.5},
        {"beams": 0},
        {"max_new_tokens": 0},
        {"stop": "\n"},
        {"stop": ("",)},
        {"beams": 2, "top_p": 0.9},
        {"beams": 2, "temperature": 0.5},
        {"temperature": 0, "top_k": 5},
    ],
)
def test_sampling_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="|".join(options)):
        Sampling(**options)


def test_arguments_that_cannot_be_meant_are_refused(tiny_t5: Path) -> None:
    model: LanguageModel = load_language_model(str(tiny_t5))
    with pytest.raises(DataError, match="expected a list of strings"):
        model.score("Hello", [["a"]])
    with pytest.raises(DataError, match="2 lists of texts for 1 prompts"):
        model.score(["Hello"], [["a"], ["b"]])
    with pytest.raises(DataError, match=r"texts\[0\]\[1\] is NoneType"):
        model.score(["Hello"], [["a", None]])  # type: ignore[list-item]
    with pytest.raises(DataError, match="surrogate"):
        model.score(["Hello"], [["a\ud800"]])
    with pytest.raises(OptionError, match="1 seeds for 2 prompts"):
        model.generate(["a", "b"], Sampling(), [1])
    with pytest.raises(OptionError, match="seed -1"):
        model.generate(["a"], Sampling(), [-1])
    with pytest.raises(OptionError, match="max_new_tokens"):
        model.generate(["a"], Sampling(max_new_tokens=100_000), [1])
    with pytest.raises(OptionError, match="dtype"):
        load_language_model(str(tiny_t5), dtype="int8")
    with pytest.raises(OptionError, match="batch_size"):
        load_language_model(str(tiny_t5), batch_size=0)


def test_folders_that_are_no_safe_model_are_refused(tiny_t5: Path, tmp_path: Path) -> None:
    import shutil

    with pytest.raises((ModelError, UnknownName)):
        load_language_model("no-such-model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"config\.json"):
        load_language_model(str(tmp_path / "empty"))
    pickled = Path(shutil.copytree(tiny_t5, tmp_path / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        load_language_model(str(pickled))
    damaged = Path(shutil.copytree(tiny_t5, tmp_path / "damaged"))
    (damaged / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_language_model(str(damaged))
    with pytest.raises(ModelError, match="device"):
        load_language_model(str(tiny_t5), device="nowhere")


def test_missing_weights_are_refused_not_made_up(tiny_t5: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny_t5, tmp_path / "holes"))
    weights = load_file(folder / "model.safetensors")
    del weights["decoder.block.0.layer.0.SelfAttention.q.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="1 weights are missing"):
        load_language_model(str(folder))


def test_an_encoder_decoder_that_runs_out_of_memory_goes_on(tiny_t5: Path) -> None:
    import torch

    model = load_language_model(str(tiny_t5), batch_size=2)
    assert isinstance(model, Seq2SeqModel)
    whole = model.score(PROMPTS, TEXTS)

    def refuse(module: Any, args: Any, kwargs: Any) -> None:
        if kwargs["decoder_input_ids"].shape[0] > 1:
            raise torch.OutOfMemoryError("out of memory")

    model.model.register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.warns(UserWarning, match="out of memory with 2 texts at once; continuing with half"):
        found = model.score(PROMPTS, TEXTS)
    assert largest_difference(whole, found) < 1e-4


def test_an_ngram_model_loads_by_its_folder(tmp_path: Path) -> None:
    from nlgauge.models.language.ngram import NgramModel

    NgramModel.train(["the cat sat on the mat .", "the dog sat on the cat ."], order=2).save(tmp_path / "counts")
    model = load_language_model(f"ngram:{tmp_path / 'counts'}")
    assert isinstance(model, NgramModel)
    likely, unlikely = model.score([""], [["the cat sat", "mat on dog"]])[0]
    assert likely.total > unlikely.total


def test_without_torch_the_error_names_the_extra(tiny_t5: Path) -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom nlgauge.models.language.base import load_language_model\n"
    code += f"load_language_model({str(tiny_t5)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" in done.stderr
    assert "pip install 'nlgauge[models]'" in done.stderr
