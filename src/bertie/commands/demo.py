"""Everything at once, on text that every machine has: bertie demo."""

from pathlib import Path

import click

from bertie.commands.options import EXIT_OF_SIGNAL


@click.command(short_help="See it work on text that every machine has.")
@click.option("--out", required=True, type=Path, help="The folder to write, or to go on with.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=2.0, help="To pre-train.")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", help="In which it is told.")
def demo(out: Path, minutes: float, language: str) -> None:
    """See the whole of BERT work within five minutes, on text that every machine has, with nothing downloaded.

    \b
    1. text         paragraphs from Python's documentation and from docstrings, read from the sources
    2. vocabulary   the pieces that the text is cut into             bertie vocab
    3. corpus       sentences and tokens, some of them held back     bertie corpus
    4. pre-training masked words and next sentences are guessed      bertie pretrain
    5. fine-tuning  which module is a sentence from? Beside the      bertie finetune
                    same network without step 4, several seeds
    6. a look       masks filled, where heads look, sentences that   bertie fill, embed
                    are alike
    7. a page       report.html: curves, scores, the model at work   bertie report

    Where the package carries a model (bertie models), it stands beside the demo's own in steps 5 to 7.

    Each step is what the command on the right does, in a folder of OUT that the other commands read. Stopped by Ctrl-C
    or in any other way it goes on where it was when the same command is given again; once it is finished it rests.

    \b
    Example: bertie demo --out demo
    """
    from bertie.demo.run import Demo, DemoConfig

    stopped = Demo(DemoConfig(minutes=minutes), out, language).run()
    if stopped is not None:
        raise click.exceptions.Exit(EXIT_OF_SIGNAL[stopped])
