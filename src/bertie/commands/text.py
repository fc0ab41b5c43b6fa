"""From text to tokens: bertie vocab, tokenize, corpus."""

from dataclasses import asdict
from pathlib import Path

import click

from bertie import console
from bertie.commands.options import CARD_JSON, COLUMN, DOCUMENT, MODEL, TEXTS, print_json, read_texts


@click.command(short_help="Learn a WordPiece vocabulary from text.")
@TEXTS
@click.option("--size", required=True, type=int, help="Entries of the vocabulary; BERT has 30,522.")
@click.option("--out", required=True, type=Path, help="The folder to write.")
@click.option("--cased", is_flag=True, help="Keep upper case and accents apart.")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", help="Of the text.")
@click.option("--workers", type=int, default=1, help="Processes; the result is the same for any.")
@click.option("--compare", type=MODEL, help="A second vocabulary to put beside the new one.")
@COLUMN
@DOCUMENT
@CARD_JSON
def vocab(
    texts: tuple[str, ...],
    size: int,
    out: Path,
    cased: bool,
    language: str,
    workers: int,
    compare: Path | None,
    column: str | None,
    document: str,
    as_json: bool,
) -> None:
    """Learn a WordPiece vocabulary from text.

    TEXT: files, folders, globs, or - for standard input.

    \b
    Example: bertie vocab my-text --size 8000 --out my-vocabulary
    """
    from bertie.text.documents import TextConfig
    from bertie.text.vocabulary import VocabularyConfig, learn_vocabulary

    config = VocabularyConfig(size, cased=cased, language=language, text=TextConfig(column, document))
    card = learn_vocabulary(config, texts, out, console.progress, workers, compare)
    if as_json:
        print_json(card.to_values())
        return
    measured_on = "held-out documents" if card.is_held_out else "the text itself"
    columns = [str(out)] if compare is None else [str(out), str(compare)]
    click.echo(console.table([f"on {measured_on}", *columns], card.rows()))
    for example in card.examples:
        click.echo("\n" + "\n  ".join(filter(None, [example.text, example.pieces, example.compared])))


@click.command(short_help="Cut text into the pieces of a vocabulary.")
@click.argument("folder", type=MODEL)
@click.argument("text")
@click.option("--cased/--uncased", default=None, help="What the vocabulary is; by default as its folder says.")
@click.option(
    "--rules",
    type=click.Choice(["google", "huggingface"]),
    default="google",
    help="Whose to the letter.",
)
@click.option("--json", "as_json", is_flag=True, help="One object a line, with ids and offsets.")
def tokenize(folder: Path, text: str, cased: bool | None, rules: str, as_json: bool) -> None:
    """Cut text into the pieces of a vocabulary.

    FOLDER: of the vocabulary or a model, or a model's name. TEXT: a text, or - for each line of standard input.

    \b
    Example: bertie tokenize my-bert 'Any sentence.'
    """
    from bertie.text.wordpiece import Tokenizer

    tokenizer = Tokenizer.load(folder, cased=cased, rules=rules)
    for line in read_texts(text):
        if as_json:
            encoding = tokenizer.encode(line)
            pieces = [tokenizer.vocabulary[id_] for id_ in encoding.ids]
            print_json({"text": line, "tokens": pieces, "ids": encoding.ids, "offsets": encoding.offsets})
        else:
            click.echo(" ".join(tokenizer.tokenize(line)))


@click.command(short_help="Make text ready for pre-training.")
@TEXTS
@click.option(
    "--vocab",
    "vocabulary",
    required=True,
    type=MODEL,
    help="Folder of the vocabulary, or of a model; or a model's name.",
)
@click.option("--out", required=True, type=Path, help="The folder to write.")
@click.option("--workers", type=int, default=1, help="Processes; the bytes are the same for any.")
@click.option(
    "--language",
    type=click.Choice(["en", "zh"]),
    default="en",
    help="zh also keeps where words begin, by a segmenter.",
)
@click.option("--near-duplicates", is_flag=True, help="Drop documents that are nearly like an earlier one, too.")
@COLUMN
@DOCUMENT
@click.option("--validation", type=float, default=0.005, help="Share of the documents held back.")
@CARD_JSON
def corpus(
    texts: tuple[str, ...],
    vocabulary: Path,
    out: Path,
    workers: int,
    language: str,
    near_duplicates: bool,
    column: str | None,
    document: str,
    validation: float,
    as_json: bool,
) -> None:
    """Make TEXT ready for pre-training: read, cleaned, cut into sentences and tokens, repeated documents dropped.

    TEXT: files, folders, globs, or - for standard input.

    \b
    Example: bertie corpus my-text --vocab my-vocabulary --out my-corpus --workers 2
    """
    from bertie.corpus.build import CorpusConfig, build_corpus
    from bertie.text.documents import TextConfig

    config = CorpusConfig(language, near_duplicates, validation, TextConfig(column, document), workers)
    with console.progress("reading", "bytes") as report:
        card = build_corpus(config, texts, vocabulary, out, report)
    if as_json:
        print_json(asdict(card))
        return
    click.echo(console.table(["corpus", str(out)], card.rows()))
    whole_words = " --set unit=words" if language == "zh" else ""
    console.say(f"\n{out} is ready. Next: bertie pretrain {out} --out my-run --recipe tiny-cpu{whole_words}")
