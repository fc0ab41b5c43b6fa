import json
from pathlib import Path

from bertie.report.amounts import cosine, duration
from bertie.report.cost import cost, cost_of
from bertie.report.errors import errors
from bertie.report.made_of import made_of
from bertie.report.overview import overview
from bertie.report.page import Section
from bertie.report.recipes import recipes
from bertie.report.results import results_of
from bertie.report.runs import Run, read_runs
from bertie.report.scores import scores
from bertie.report.words import Words
from tests.report.conftest import MakeRun

EN = Words("en")


def read(*folders: Path) -> list[Run]:
    return read_runs(folders, EN)


def rows(section: Section | None) -> list[list[str]]:
    assert section and section.table
    return [list(row) for row in section.table.rows]


def test_seeds_are_one_row_with_their_spread(make_finetuned: MakeRun) -> None:
    (run,) = read(make_finetuned(scores=(0.75, 0.5, 0.85)))
    (result,) = results_of(run)
    assert result.each == (0.75, 0.5, 0.85) and result.num_collapsed == 1 and result.floor == 0.5
    assert result.best and result.best.name == "my-fine/seed-2"
    section = scores([run], EN)
    assert section and rows(section.parts[-1])[0] == [
        "my-fine",
        "accuracy",
        "0.7000",
        "0.1803",
        "0.8500",
        "0.5000",
        "3",
        "1",
    ]
    assert section and "my-fine: 0.7000 ± 0.1803 over 3 runs" in section.parts[0].alternative


def test_the_first_table_says_what_runs_came_to_and_which_collapsed(make_finetuned: MakeRun) -> None:
    runs = read(make_finetuned(scores=(0.75, 0.5, 0.85)), make_finetuned("one", (0.5,)), make_finetuned("well", (0.9,)))
    assert [row[-1] for row in rows(overview(runs, EN))] == [
        "accuracy 0.7000 ± 0.1803 (3); 1 of 3 runs collapsed",
        "accuracy 0.5000; the run collapsed",
        "accuracy 0.9000",
    ]
    chinese = rows(overview(runs, Words("zh")))[0]
    assert chinese[1] == "微调，分类" and chinese[-1] == "准确率 0.7000 ± 0.1803 (3)；3 次运行中有 1 次崩溃"
    section = scores(runs, EN)
    assert section and "my-fine: 0.7000 ± 0.1803 over 3 runs, 1 collapsed; one: 0.5000" in section.parts[0].alternative


def test_times_are_in_the_language_of_the_page() -> None:
    said = [duration(seconds, language) for language in (EN, Words("zh")) for seconds in (42.13, 91.4, 13_200.0)]
    assert said == ["42.1 s", "1 min 31 s", "3 h 40 min", "42.1 秒", "1 分 31 秒", "3 小时 40 分"]


def test_a_repeated_run_does_not_count(make_finetuned: MakeRun) -> None:
    folder = make_finetuned(scores=(0.5, 0.9))
    card = json.loads((folder / "card.json").read_text())
    card["runs"][0]["was_repeated"] = True
    (folder / "card.json").write_text(json.dumps(card))
    (result,) = results_of(read(folder)[0])
    assert result.each == (0.9,) and (result.num_collapsed, result.num_repeated) == (1, 1)
    assert rows(overview(read(folder), EN))[0][-1] == "accuracy 0.9000; 1 of 2 runs collapsed"


def test_a_grid_has_a_row_for_each_setting_also_before_it_is_finished(make_finetuned: MakeRun, tmp_path: Path) -> None:
    make_finetuned("grid/lr-1", scores=(0.6, 0.7))
    make_finetuned("grid/lr-2", scores=(0.8, 0.9))
    for path in (tmp_path / "grid").glob("lr-*/*.*"):
        path.unlink()  # only the folder of the whole grid has a recipe, and no card as long as it runs
    (tmp_path / "grid" / "recipe.toml").write_text("[run]\n")
    (run,) = read(tmp_path / "grid")
    assert run.problems == ("It is not finished: 4 of its runs are there.",)
    assert rows(overview([run], EN))[0][-1] == "accuracy 0.8500 ± 0.0707 (2): grid/lr-2, the best of 2 settings"
    assert [(one.name, one.each) for one in results_of(run)] == [
        ("grid/lr-1", (0.6, 0.7)),
        ("grid/lr-2", (0.8, 0.9)),
    ]


def test_a_suite_shows_its_table_or_its_tasks(make_finetuned: MakeRun, tmp_path: Path) -> None:
    make_finetuned("suite/cola", scores=(0.6, 0.7))
    (tmp_path / "suite" / "recipe.toml").write_text("seeds = 2\n")
    (tmp_path / "suite" / "card.json").write_text(json.dumps({"kind": "glue"}))
    (run,) = read(tmp_path / "suite")
    assert [(one.name, one.each) for one in results_of(run)] == [("suite/cola", (0.6, 0.7))]
    columns = {"CoLA": {"score": "matthews", "each": [0.5, 0.6]}}
    (tmp_path / "suite" / "card.json").write_text(json.dumps({"kind": "glue", "columns": columns, "average": 0.55}))
    (run,) = read(tmp_path / "suite")
    assert rows(overview([run], EN))[0][-1] == "average 0.5500 of 1 tasks"
    assert [(one.name, one.main, one.each) for one in results_of(run)] == [("suite/CoLA", "matthews", (0.5, 0.6))]
    assert errors([run], EN)


def test_cost_counts_the_hours_of_all_gpus(make_finetuned: MakeRun, make_run: MakeRun) -> None:
    runs = read(make_finetuned(ranks=4), make_run())
    assert cost_of(runs[0], 2.5) == 10.0
    assert cost_of(runs[1], 2.5) is None
    first, second = rows(cost(runs, 2.5, EN))
    assert first == ["my-fine", "4 × A GPU", "4,400,000", "8", "800", "1 h 00 min", "0", "1.50 GiB", "10.00"]
    assert second[5:] == ["30.0 s", "200", "–", "–"]


def test_an_unfinished_run_says_how_far_it_came(make_run: MakeRun) -> None:
    runs = read(make_run(is_finished=False))
    assert rows(cost(runs, None, EN))[0][3:7] == ["60", "6,000", "30.0 s", "200"]
    assert rows(overview(runs, EN))[0][-1] == "masked-word loss 6.500, 10.0% of masked words guessed"


def test_recipes_of_a_kind_are_compared(make_run: MakeRun, make_finetuned: MakeRun) -> None:
    other = make_run("other")
    (other / "recipe.toml").write_text('preset = "tiny"\nbatch = 64\n\n[optimizer]\nlr = 0.001\n')
    section = recipes(read(make_run(), other), EN)
    assert rows(section.parts[0])[0][1:4] == ["0123456789ab", "0.1", "2.11"]
    assert rows(section.parts[1]) == [["batch", "32", "64"]]
    assert [part.code for part in section.parts[2:]] == [
        (one / "recipe.toml").read_text() for one in (other.parent / "my-run", other)
    ]
    assert not [part for part in recipes(read(other, make_finetuned()), EN).parts if part.id == "differences"]


def test_a_corpus_shared_by_runs_is_shown_once(make_run: MakeRun) -> None:
    section = made_of(read(make_run("one"), make_run("two")), EN)
    assert section and [part.heading for part in section.parts] == ["Corpus of one, two"]
    assert rows(section.parts[0]) == [["to learn from", "90 documents, 400 sentences, 9,000 tokens"]]


def test_the_card_of_a_vocabulary_is_shown(make_run: MakeRun) -> None:
    folder = make_run()
    card = json.loads((folder / "card.json").read_text())
    card["vocabulary"] = {
        "figures": {"entries": 800, "tokens_per_word": 1.25},
        "examples": [{"text": "A line.", "pieces": "a line ."}] * 2,
    }
    card["text"] = {"changes": {"joined lines": 7}, "not_utf8": {"a.txt": 3}}
    (folder / "card.json").write_text(json.dumps(card))
    section = made_of(read(folder), Words("zh"))
    assert section
    _, mended, vocabulary = section.parts
    assert rows(mended) == [["接回的行", "7"], ["a.txt 中因非 UTF-8 而丢弃的字节", "3"]]
    assert rows(vocabulary)[:2] == [["词条", "800"], ["每词词元数", "1.250"]]
    assert rows(vocabulary.parts[0]) == [["A line.", "a line ."]]


def test_a_card_of_wrong_kinds_makes_a_page_all_the_same(make_finetuned: MakeRun, make_run: MakeRun) -> None:
    wrong: dict[str, object] = {"labels": 3, "seconds": "long", "ranks": None, "versions": 1, "runs": {}, "score": 1}
    runs = read(make_finetuned(**wrong), make_finetuned("two", scores=(float("nan"),)))
    assert scores(runs, EN) is None
    assert overview(runs, EN).table and recipes(runs, EN).parts and cost(runs, 1.0, EN)
    pretrained = make_run()
    (pretrained / "card.json").write_text(json.dumps({"kind": "pretrain", "corpus": [], "vocabulary": "x", "text": 1}))
    assert made_of(read(pretrained), EN) is None


def test_cosines_close_to_one_can_be_told_apart() -> None:
    assert [cosine(value) for value in (0.123, -0.9, 0.99871, 0.99912)] == ["0.12", "-0.90", "0.9987", "0.9991"]
