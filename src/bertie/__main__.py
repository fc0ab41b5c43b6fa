"""python -m bertie."""

from bertie.cli import main

main()
