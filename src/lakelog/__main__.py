"""``python -m lakelog``: the command line, where the script is not on the path."""

from lakelog.cli import main

if __name__ == "__main__":
    main()
